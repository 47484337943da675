#pragma once
#include <capstan/data/source.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tokens {

/// Some of a source's samples, in their order.
class SelectedSource final : public capstan::data::DataSource {
 public:
  SelectedSource(std::shared_ptr<const capstan::data::DataSource> all, std::vector<std::int64_t> kept)
      : all_(std::move(all)), kept_(std::move(kept)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(kept_.size()); }
  capstan::data::Sample get(std::int64_t index) const override { return all_->get(place(index)); }
  capstan::data::Sample question(std::int64_t index, std::int64_t most) const override {
    return all_->question(place(index), most);
  }
  capstan::monitor::Values score(const capstan::data::Sample& sample, const std::string& text) const override {
    return all_->score(sample, text);
  }
  std::size_t answer_end(std::string_view text) const override { return all_->answer_end(text); }
  std::vector<std::int64_t> end_ids() const override { return all_->end_ids(); }
  std::string content() const override { return all_->content(); }

 private:
  std::int64_t place(std::int64_t index) const { return kept_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const capstan::data::DataSource> all_;
  std::vector<std::int64_t> kept_;
};

}  // namespace tokens
