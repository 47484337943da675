#include "tokens/lengths.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace tokens {

using namespace capstan;

namespace {

using Clock = std::chrono::steady_clock;
using Ids = std::vector<std::int64_t>;

/// Measures a source's samples on several threads.
class Measuring {
 public:
  Measuring(const data::DataSource& source, const Measured& what)
      : source_(source), what_(what), lengths_(static_cast<std::size_t>(source.size())) {}

  Lengths run() {
    constexpr unsigned most_threads = 32;
    const auto threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
    {
      std::vector<std::jthread> others;
      for (unsigned i = 1; i < threads; ++i) others.emplace_back([this] { work(false); });
      work(true);
    }
    if (failure_) std::rethrow_exception(failure_);
    return std::move(lengths_);
  }

 private:
  static constexpr std::int64_t at_once = 64;

  void work(bool tells) {
    const auto size = static_cast<std::int64_t>(lengths_.size());
    for (;;) {
      const auto begin = next_.fetch_add(at_once);
      if (begin >= size || has_failed_) return;
      for (auto i = begin; i < std::min(begin + at_once, size); ++i) {
        if (!measure(i)) return;
      }
      if (tells) tell(begin);
    }
  }

  bool measure(std::int64_t index) {
    try {
      lengths_[static_cast<std::size_t>(index)] = length_of(source_.get(index));
      return true;
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (index < failed_at_) failure_ = std::current_exception();
      failed_at_ = std::min(failed_at_, index);
      has_failed_ = true;
      return false;
    }
  }

  void tell(std::int64_t done) {
    constexpr std::chrono::seconds between{10};
    if (Clock::now() - told_ < between) return;
    told_ = Clock::now();
    log::info(cat(what_.path, ": ", thousands(done), " of ", thousands(static_cast<std::int64_t>(lengths_.size())), " ",
                  what_.items, " are tokenized, to know how long they are"));
  }

  const data::DataSource& source_;
  const Measured& what_;
  Lengths lengths_;
  Clock::time_point told_ = Clock::now();
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::int64_t failed_at_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure_;
};

std::string text_of(const Ids& ids) {
  std::string text;
  for (const auto id : ids) text += std::to_string(id) + " ";
  return text + "\n";
}

// A tokenizer counts as what it does: a file may have changed, and its name not. Its words are all looked at, and how
// it makes ids of texts in some of the samples, which also show a template or an option that the key does not name.
std::string key_of(const data::DataSource& source, const tokenizer::Tokenizer& tokenizer, const Measured& what) {
  constexpr std::int64_t looked_at = 64;
  auto key = cat("lengths 1\n", what.key(), tokenizer.name(), " ", tokenizer.vocab_size(), " ", tokenizer.end_id(), " ",
                 text_of(tokenizer.prefix_ids()));
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) key += tokenizer.decode({id}) + "\n";
  const auto step = std::max<std::int64_t>(1, source.size() / looked_at);
  for (std::int64_t i = 0; i < source.size(); i += step) {
    const auto sample = source.get(i);
    for (const auto& sequence : data::sequences_of(sample))
      key += cat(targets_of(sequence), ": ", text_of(sequence.tokens));
  }
  return key;
}

}  // namespace

std::int64_t targets_of(const data::SequenceView& sequence) {
  const auto& flags = sequence.is_target;
  return std::count(flags.begin() + (flags.empty() ? 0 : 1), flags.end(), true);
}

session::SampleLength length_of(const data::Sample& sample) {
  std::size_t tokens = 0;
  std::int64_t targets = 0;
  for (const auto& sequence : data::sequences_of(sample)) {
    tokens = std::max(tokens, sequence.tokens.size());
    targets += targets_of(sequence);
  }
  return {static_cast<std::uint32_t>(tokens), static_cast<std::uint32_t>(targets)};
}

Lengths lengths_of(const data::DataSource& source, const tokenizer::Tokenizer& tokenizer, const Measured& what) {
  constexpr std::size_t few = std::size_t{1} << 20;
  const auto folder = what.folder.empty() ? data::derived_folder(data::process_environment()) : what.folder;
  if (what.bytes < few || folder.empty()) return Measuring(source, what).run();
  const auto name = std::filesystem::path(what.path).stem().string() + ".lengths";
  const data::DerivedFile kept{folder, name, key_of(source, tokenizer, what), what.advice};
  const auto path = data::derive(kept, [&](const std::filesystem::path& unfinished) {
    const auto made = Measuring(source, what).run();
    write_file(unfinished, {reinterpret_cast<const char*>(made.data()), made.size() * sizeof(session::SampleLength)});
  });
  const auto bytes = read_file(path);
  Lengths lengths(static_cast<std::size_t>(source.size()));
  if (bytes.size() != lengths.size() * sizeof(session::SampleLength))
    throw Error("it is not what was measured into it", "delete it: it is made again", path.string());
  std::memcpy(lengths.data(), bytes.data(), bytes.size());
  return lengths;
}

}  // namespace tokens
