#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/views.h"

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// data.eval_fraction, and what else decides which samples it takes for evaluation.
struct EvalShare {
  double fraction = 0;  ///< 0: none
  std::uint64_t seed = 0;
  std::string where;       ///< what in the configuration says so
  std::string where_eval;  ///< what names an evaluation file all the same; empty: nothing does
};

/// A data plugin as core uses it: it remembers what it opened, so that each split can be read from a token cache, and
/// evaluates a share of the training split where EvalShare says so. Both are then read from one cache.
class SharedData final : public Data {
 public:
  /// A source that the plugin opened.
  struct Opened {
    Split split;
    std::string set;
    std::int64_t length;  ///< SplitRequest::max_length
    std::shared_ptr<SourceView> source;
  };
  SharedData(std::shared_ptr<const Data> data, EvalShare share) : data_(std::move(data)), share_(std::move(share)) {}

  void check(Diagnostics& diagnostics) const override;
  std::shared_ptr<DataSource> open(const SplitRequest& request) const override;
  std::int64_t max_length() const override { return data_->max_length(); }
  SampleForm form() const override { return data_->form(); }
  std::vector<std::string> evaluation_sets() const override { return data_->evaluation_sets(); }
  bool uses_tokenizer() const override { return data_->uses_tokenizer(); }
  bool evaluates() const override { return share_.fraction > 0 || data_->evaluates(); }

  /// In the order in which they were first opened.
  const std::vector<Opened>& opened() const { return opened_; }
  /// "2 of 100 training samples are for evaluation (…)"; empty before it is known, and without a share.
  const std::string& text() const { return text_; }

 private:
  std::shared_ptr<DataSource> open_share(const SplitRequest& request) const;
  std::shared_ptr<SourceView> remembered(const SplitRequest& request) const;
  void refuse_file(Diagnostics& diagnostics) const;

  std::shared_ptr<const Data> data_;
  EvalShare share_;
  mutable std::vector<Opened> opened_;
  mutable std::string text_;
};

}  // namespace data
CAPSTAN_END_NAMESPACE
