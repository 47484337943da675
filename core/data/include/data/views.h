#pragma once
#include <capstan/base/export.h>
#include <capstan/data/order.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// Another source's samples; what derives from it says which.
class SourceView : public DataSource {
 public:
  explicit SourceView(std::shared_ptr<const DataSource> source) : source_(std::move(source)) {}
  std::int64_t size() const override { return source_->size(); }
  Sample get(std::int64_t index) const override { return source_->get(index_of(index)); }
  Sample question(std::int64_t index, std::int64_t most) const override {
    return source_->question(index_of(index), most);
  }
  monitor::Values score(const Sample& sample, const std::string& text) const override {
    return source_->score(sample, text);
  }
  std::size_t answer_end(std::string_view text) const override { return source_->answer_end(text); }
  std::vector<std::int64_t> end_ids() const override { return source_->end_ids(); }
  std::string content() const override { return source_->content(); }
  /// Throws Error where a part of a source is to be seen in the order of the whole.
  std::unique_ptr<SampleOrder> order(const OrderRequest& request) const override;
  /// May be replaced by one with the same samples, such as their token cache.
  std::shared_ptr<const DataSource>& source() { return source_; }

 private:
  virtual std::int64_t index_of(std::int64_t index) const { return index; }
  std::shared_ptr<const DataSource> source_;
};

/// The first samples of a source.
class FirstSamples final : public SourceView {
 public:
  FirstSamples(std::shared_ptr<const DataSource> all, std::int64_t count) : SourceView(std::move(all)), count_(count) {}
  std::int64_t size() const override { return count_; }

 private:
  std::int64_t count_;
};

/// Some samples of a source, or all but these.
class Selection final : public SourceView {
 public:
  /// `chosen`: indices, ascending.
  Selection(std::shared_ptr<const DataSource> all, std::shared_ptr<const std::vector<std::int64_t>> chosen,
            bool is_rest)
      : SourceView(std::move(all)), chosen_(std::move(chosen)), is_rest_(is_rest) {}
  std::int64_t size() const override;

 private:
  std::int64_t index_of(std::int64_t index) const override;
  std::shared_ptr<const std::vector<std::int64_t>> chosen_;
  bool is_rest_;
};

/// `count` of the indices [0, samples), ascending: those for which random words that are keyed by (seed, index) are the
/// least. The same on any number of ranks, and as more of them are chosen, the former ones stay chosen.
std::vector<std::int64_t> keyed_choice(std::int64_t samples, std::int64_t count, std::uint64_t seed);

}  // namespace data
CAPSTAN_END_NAMESPACE
