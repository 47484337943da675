#pragma once
#include <capstan/data/order.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mixture {

/// When an epoch is over.
enum class Stop {
  first,  ///< before a sample of some source would come again
  all,    ///< as soon as each sample has come
  steps,  ///< when the run is
};

/// A source as the order sees it.
struct Stock {
  std::string name;
  std::int64_t samples = 0;
  double share = 0;  ///< of what is drawn; all add up to 1
};

/// How many of n draws are each source's: its share of n up to a rounding, for any n at once, so that a run can resume
/// anywhere. Draws come in blocks: at a block's end each source but the largest has its share rounded, and the largest
/// has the rest; within a block each draw goes to the source that is furthest below its share of the block.
class Schedule {
 public:
  explicit Schedule(std::vector<double> shares);
  /// How many draws of [0, n) are each source's.
  std::vector<std::int64_t> counts(std::int64_t n) const;
  /// The sources of the draws [first, first + count).
  std::vector<std::size_t> sources(std::int64_t first, std::int64_t count) const;
  /// The least n of which all sources' counts, or that of one, are at least these.
  std::int64_t first_with_all(const std::vector<std::int64_t>& wanted) const;
  std::int64_t first_with_any(const std::vector<std::int64_t>& wanted) const;

 private:
  std::int64_t at_border(std::size_t source, std::int64_t block) const;
  std::vector<std::int64_t> borders(std::int64_t block) const;
  std::vector<std::size_t> block_of(std::int64_t block) const;
  std::int64_t first_with(const std::vector<std::int64_t>& wanted, bool all) const;
  std::vector<double> shares_;
  std::size_t largest_ = 0;
  std::int64_t length_ = 1;  // of a block
};

/// Draws from sources that stand one after another. Passes over a source follow each other through all epochs, each in
/// another order, so that no sample of it comes a second time more often than another.
class MixtureOrder final : public capstan::data::SampleOrder {
 public:
  MixtureOrder(std::vector<Stock> stocks, Stop stop, const capstan::data::OrderRequest& request);
  std::int64_t samples_per_epoch() const override { return length_; }
  std::vector<std::int64_t> samples(std::int64_t epoch, std::int64_t first, std::int64_t count) override;
  std::string text() const override { return text_; }
  void set_text(std::string text) { text_ = std::move(text); }
  /// How often an epoch sees each of a source's samples, in the mean.
  double passes(std::size_t source) const;

 private:
  std::int64_t drawn(std::size_t source, std::int64_t position);
  std::vector<Stock> stocks_;
  capstan::data::OrderRequest request_;
  Schedule schedule_;
  std::int64_t length_ = 0;
  std::vector<std::int64_t> of_epoch_;  // how many of an epoch's samples are each source's
  std::vector<std::map<std::int64_t, std::vector<std::int64_t>>> passes_;  // orders of the last passes, by source
  std::string text_;
};

}  // namespace mixture
