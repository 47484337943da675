#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// Buckets of gradients that a reduction may still have to read, oldest first. A reduction waits for those before it on
/// its stream, and what it reads cannot be freed until then: if only one were in flight, computing would wait for each
/// long one. So there are as many in flight as have this many elements together, or one that is larger.
class InFlight {
 public:
  static constexpr std::int64_t most_elements = std::int64_t{1} << 26;

  /// Before a bucket's reduction, which holds `elements`: calls free(bucket) for those that have to be done.
  template <class Free>
  void begin(std::size_t bucket, std::int64_t elements, const Free& free) {
    while (!queue_.empty() && (held_ + elements > most_elements)) {
      held_ -= queue_.front().second;
      free(queue_.front().first);
      queue_.pop_front();
    }
    queue_.emplace_back(bucket, elements);
    held_ += elements;
  }
  void clear() {
    queue_.clear();
    held_ = 0;
  }

 private:
  std::deque<std::pair<std::size_t, std::int64_t>> queue_;
  std::int64_t held_ = 0;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
