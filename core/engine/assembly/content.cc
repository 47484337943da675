#include "assembly/content.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>

#include "base/disk_wait.h"
#include "base/xxh64.h"

namespace capstan::data {
namespace {

constexpr std::int64_t most_samples = 256;
constexpr std::int64_t most_tokens = 1 << 18;

// The n-th place of a sequence that fills [0, samples) evenly, however long it is followed.
std::int64_t spread(std::int64_t n, std::int64_t samples) {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;  // 2^64 / 1.618…
  const auto part = static_cast<double>((static_cast<std::uint64_t>(n) * golden) >> 11) * 0x1p-53;
  return std::min(samples - 1, static_cast<std::int64_t>(part * static_cast<double>(samples)));
}

void put(std::vector<std::int64_t>& words, const Sample& sample) {
  words.push_back(static_cast<std::int64_t>(sample.tokens.size()));
  words.insert(words.end(), sample.tokens.begin(), sample.tokens.end());
  for (const bool target : sample.is_target) words.push_back(target ? 1 : 0);
}

std::string sum_of(const std::vector<std::int64_t>& words) {
  return xxh64_text(reinterpret_cast<const std::byte*>(words.data()), words.size() * sizeof(std::int64_t));
}

std::string sum_of_file(const std::filesystem::path& path) {
  const DiskWait at_disk("reading", path);
  const MappedFile mapped(path);
  return xxh64_text(mapped.data(), mapped.size());
}

}  // namespace

bool has_target(const Sample& sample) {
  if (sample.is_target.size() != sample.tokens.size()) return true;  // collate() refuses it
  return sample.is_target.size() > 1 &&
         std::find(sample.is_target.begin() + 1, sample.is_target.end(), true) != sample.is_target.end();
}

Look look_at(std::int64_t samples, const std::function<Sample(std::int64_t)>& get) {
  Look look;
  std::vector<std::int64_t> words;
  std::int64_t tokens = 0;
  for (std::int64_t n = 0; n < std::min(samples, most_samples) && tokens < most_tokens; ++n) {
    Sample sample;
    try {
      sample = get(samples <= most_samples ? n : spread(n, samples));
    } catch (const std::exception&) {
      words.push_back(-1);  // the run says so when it comes there
      continue;
    }
    ++look.looked_at;
    tokens += static_cast<std::int64_t>(sample.tokens.size());
    put(words, sample);
    if (has_target(sample)) continue;
    if (look.without_target++ == 0) look.first_without_target = sample.id;
  }
  look.sum = sum_of(words);
  return look;
}

bool is_of_evaluation(const std::string& key) { return key.starts_with("eval"); }

std::map<std::string, std::string> sums_of_files(const std::vector<config::Resolved>& options) {
  std::map<std::string, std::string> sums;
  for (const auto& option : options) {
    if (!option.spec.is_path || is_of_evaluation(option.spec.key)) continue;
    std::vector<std::string> files;
    if (const auto* one = std::get_if<std::string>(&option.value)) files = {*one};
    if (const auto* several = std::get_if<std::vector<std::string>>(&option.value)) files = *several;
    std::string sum;
    for (const auto& file : files) {
      if (!file.empty() && is_file(file)) sum += (sum.empty() ? "" : " ") + sum_of_file(file);
    }
    if (!sum.empty()) sums[option.spec.key] = std::move(sum);
  }
  return sums;
}

}  // namespace capstan::data
