#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// What a sample has before anything of it is cut.
struct SampleLength {
  std::uint32_t tokens = 0;   ///< in its longest sequence
  std::uint32_t targets = 0;  ///< tokens that bear loss, in all of its sequences
};

/// A data::Data derives from this too if it can tell how long its samples are before they are cut: then data.max_length
/// may be "auto", which becomes a number before the plugin is made for the job, and `capstan data` says what is cut.
class SampleLengths {
 public:
  virtual ~SampleLengths() = default;
  /// Lengths of all samples of a split or set in their order, also of those that open() leaves out since they are too
  /// long; empty: the options name no such split. The request's max_length means nothing. Every rank asks. Throws Error
  /// for files that are not there or broken.
  virtual std::vector<SampleLength> lengths(const data::SplitRequest& request) const = 0;
};

}  // namespace session
CAPSTAN_END_NAMESPACE
