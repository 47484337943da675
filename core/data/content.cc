#include "data/content.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>

#include <algorithm>
#include <bit>
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

void put(std::vector<std::int64_t>& words, const SequenceView& sequence) {
  words.push_back(static_cast<std::int64_t>(sequence.tokens.size()));
  words.insert(words.end(), sequence.tokens.begin(), sequence.tokens.end());
  for (const bool target : sequence.is_target) words.push_back(target ? 1 : 0);
}

void put(std::vector<std::int64_t>& words, const Sample& sample) {
  for (const auto& sequence : sequences_of(sample)) put(words, sequence);
  for (const auto& field : sample.fields) {
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&field))
      words.insert(words.end(), integers->begin(), integers->end());
    if (const auto* floats = std::get_if<std::vector<float>>(&field)) {
      for (const float value : *floats) words.push_back(std::bit_cast<std::int32_t>(value));
    }
  }
}

bool has_target(const SequenceView& sequence) {
  if (sequence.is_target.size() != sequence.tokens.size()) return true;  // collate() refuses it
  return sequence.is_target.size() > 1 &&
         std::find(sequence.is_target.begin() + 1, sequence.is_target.end(), true) != sequence.is_target.end();
}

std::int64_t tokens_of(const Sample& sample) {
  std::int64_t tokens = 0;
  for (const auto& sequence : sequences_of(sample)) tokens += static_cast<std::int64_t>(sequence.tokens.size());
  return tokens;
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
  const auto sequences = sequences_of(sample);
  return std::all_of(sequences.begin(), sequences.end(), [](const auto& sequence) { return has_target(sequence); });
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
    tokens += tokens_of(sample);
    put(words, sample);
    if (has_target(sample)) continue;
    if (look.without_target++ == 0) look.first_without_target = sample.id;
  }
  look.sum = sum_of(words);
  return look;
}

bool is_of_evaluation(const std::string& key) { return key.starts_with("eval"); }

void leave_out_other_splits(config::Section& section, const std::string& split, const config::Schema& schema) {
  if (!section.find(split)) return;  // whoever asks for the split says that there is none
  const auto is_left_out = [&](const config::OptionSpec& spec) {
    const bool is_of_training = spec.key == "train" || spec.key.starts_with("train_");
    const bool is_of_a_set = spec.key == "eval_files";
    return !spec.required && (is_of_a_set || (split == "eval" ? is_of_training : is_of_evaluation(spec.key)));
  };
  for (const auto& spec : schema) {
    if (is_left_out(spec)) std::erase_if(section.entries, [&](const auto& entry) { return entry.key == spec.key; });
  }
}

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
