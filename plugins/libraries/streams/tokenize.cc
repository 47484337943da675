#include "tokenize.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace streams {

using namespace capstan;

namespace {

/// Batches that threads tokenize, and one thread takes in their order.
class Pipeline {
 public:
  Pipeline(TextReader& texts, const tokenizer::Tokenizer& tokenizer, const TokenizeRules& rules, TokenType type)
      : texts_(texts), tokenizer_(tokenizer), rules_(rules), type_(type) {
    auto threads = rules.threads;
    if (threads == 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    most_ahead_ = std::int64_t{4} * threads;
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pipeline() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The next batch; false: it was the last. Throws what reading or tokenizing it threw.
  bool take(TokenBatch& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(taken_) || (is_ended_ && taken_ == begun_); });
    const auto found = done_.find(taken_);
    if (found == done_.end()) return false;
    if (found->second.fault) std::rethrow_exception(found->second.fault);
    batch = std::move(found->second.batch);
    done_.erase(found);
    ++taken_;
    changed_.notify_all();
    return true;
  }

 private:
  struct Done {
    TokenBatch batch;
    std::exception_ptr fault;
  };

  void work() {
    TextBatch texts;
    for (std::int64_t number = 0; begin(texts, number);) {
      Done done;
      try {
        done.batch = tokenized(texts);
      } catch (...) {
        done.fault = std::current_exception();
      }
      finish(number, std::move(done));
    }
  }

  // Reads the next batch when there is room for its tokens.
  bool begin(TextBatch& texts, std::int64_t& number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_stopped_ || is_ended_ || begun_ - taken_ < most_ahead_; });
    if (is_stopped_ || is_ended_) return false;
    try {
      is_ended_ = !texts_.next(texts);
    } catch (...) {
      is_ended_ = true;
      done_[begun_++].fault = std::current_exception();
      changed_.notify_all();
      return false;
    }
    if (is_ended_) changed_.notify_all();
    number = begun_;
    if (!is_ended_) ++begun_;
    return !is_ended_;
  }

  void finish(std::int64_t number, Done done) {
    const std::lock_guard lock(mutex_);
    done_[number] = std::move(done);
    changed_.notify_all();
  }

  TokenBatch tokenized(const TextBatch& texts) const {
    TokenBatch batch;
    batch.text_bytes = static_cast<std::int64_t>(texts.bytes.size());
    using Ids = std::vector<std::int64_t>;
    const auto before = rules_.has_begin ? tokenizer_.prefix_ids() : Ids();
    const auto after = rules_.has_end ? Ids{tokenizer_.end_id()} : Ids();
    texts_.each(texts, [&](std::string_view text) {
      const auto ids = tokenizer_.encode(text);
      const auto size = before.size() + ids.size() + after.size();
      if (size > std::numeric_limits<std::int32_t>::max())
        throw Error(cat("a document has ", size, " tokens"), "cut it into several");
      for (const Ids* part : {&before, &ids, &after}) append_bytes(type_, *part, batch.bytes);
      batch.lengths.push_back(static_cast<std::int32_t>(size));
    });
    return batch;
  }

  TextReader& texts_;
  const tokenizer::Tokenizer& tokenizer_;
  TokenizeRules rules_;
  TokenType type_;
  std::int64_t most_ahead_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Done> done_;
  std::int64_t begun_ = 0, taken_ = 0;
  bool is_ended_ = false, is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

void tokenize_all(TextReader& texts, const tokenizer::Tokenizer& tokenizer, const TokenizeRules& rules,
                  StreamWriter& writer, const std::function<void(const TokenizeProgress&)>& tell) {
  if (rules.has_end && tokenizer.end_id() < 0) {
    throw Error(cat("the tokenizer '", tokenizer.name(), "' has no end token"),
                "name one in its folder's tokenizer_config.json (eos_token), or leave end tokens out");
  }
  Pipeline pipeline(texts, tokenizer, rules, writer.type());
  TokenizeProgress progress;
  for (TokenBatch batch; pipeline.take(batch);) {
    writer.add(batch);
    progress = {writer.documents(), writer.tokens(), progress.text_bytes + batch.text_bytes};
    tell(progress);
  }
}

}  // namespace streams
