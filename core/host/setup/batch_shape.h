#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// How a global batch is divided: global_batch = micro_batch x accumulation x data_parallel_size.
///
/// A global batch is a list of slots. Slot (micro_step x data_parallel_size + coordinate) x micro_batch + i is
/// sample i of that micro-batch on that data coordinate. So the global batch holds the same samples on any number of
/// ranks, and so does each micro-step wherever micro_batch x data_parallel_size is the same.
struct BatchShape {
  std::int64_t micro_batch = 1;   ///< samples that one data coordinate computes at once
  std::int64_t accumulation = 1;  ///< micro-steps of an optimizer step
  std::int64_t global_batch = 1;  ///< samples of an optimizer step, over all data coordinates
  std::int64_t data_parallel_size = 1;
  std::int64_t sequences = 1;  ///< a sample's

  /// The rows of a micro-batch, each a sequence, where they are not packed.
  std::int64_t rows() const { return micro_batch * sequences; }
  /// The slot of the first sample; the micro-batch's other samples follow it.
  std::int64_t first_slot(std::int64_t micro_step, std::int64_t coordinate) const {
    return (micro_step * data_parallel_size + coordinate) * micro_batch;
  }
};

/// One of the three sizes as the configuration has it.
struct BatchOption {
  std::optional<std::int64_t> value;
  std::string where;  ///< the file and line that set it
};

/// Any two of the three sizes determine the third. With fewer than two, defaults are used in this order:
/// accumulation = 1, then micro_batch = 1. Sizes that don't fit each other or the data-parallel size become a
/// diagnostic with the arithmetic and the nearest values that fit; the result is then meaningless.
BatchShape resolve_batch(BatchOption micro_batch, BatchOption accumulation, BatchOption global_batch,
                         std::int64_t data_parallel_size, Diagnostics& diagnostics);

}  // namespace setup
CAPSTAN_END_NAMESPACE
