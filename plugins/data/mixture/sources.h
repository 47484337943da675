#pragma once
#include "mixture.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mixture {

/// A part with its samples of a split.
struct OpenedPart {
  std::size_t index = 0;  ///< among all parts
  capstan::data::DataPart part;
  std::shared_ptr<const capstan::data::DataSource> source;
};

/// All samples of some parts, one part after another. Each has its part's index as the field data::source_field.
class Sources final : public capstan::data::DataSource {
 public:
  Sources(std::vector<OpenedPart> parts, capstan::config::Options<MixtureOptions> options);
  std::int64_t size() const override { return begins_.back(); }
  capstan::data::Sample get(std::int64_t index) const override;
  capstan::data::Sample question(std::int64_t index, std::int64_t most) const override;
  capstan::monitor::Values score(const capstan::data::Sample& sample, const std::string& text) const override;
  /// Where it ends for any of them.
  std::size_t answer_end(std::string_view text) const override;
  std::vector<std::int64_t> end_ids() const override;
  std::string content() const override;
  std::unique_ptr<capstan::data::SampleOrder> order(const capstan::data::OrderRequest& request) const override;

 private:
  std::pair<const OpenedPart*, std::int64_t> place(std::int64_t index) const;
  capstan::data::Sample marked(capstan::data::Sample sample, const OpenedPart& of) const;
  std::vector<OpenedPart> parts_;
  std::vector<std::int64_t> begins_;  // of each part, and the end of the last
  capstan::config::Options<MixtureOptions> options_;
};

}  // namespace mixture
