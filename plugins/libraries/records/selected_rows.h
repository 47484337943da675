#pragma once
#include "filters.h"
#include "rows.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace jsonl {

/// Some rows of a file, in their order; they are called what they are in the file.
class SelectedRows final : public Rows {
 public:
  /// `why` says which rows these are.
  SelectedRows(std::shared_ptr<const Rows> all, std::vector<std::int64_t> kept, std::string why)
      : all_(std::move(all)), kept_(std::move(kept)), why_(std::move(why)) {}
  const std::string& path() const override { return all_->path(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(kept_.size()); }
  std::string_view line(std::int64_t index) const override { return all_->line(place(index)); }
  std::string name(std::int64_t index) const override { return all_->name(place(index)); }
  std::string where(std::int64_t index) const override { return all_->where(place(index)); }
  std::string key() const override { return all_->key() + why_; }
  std::string content() const override { return all_->content(); }

 private:
  std::int64_t place(std::int64_t index) const { return kept_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Rows> all_;
  std::vector<std::int64_t> kept_;
  std::string why_;
};

/// Where a list of rows is kept that was long in the making.
struct KeptIn {
  std::filesystem::path folder;  ///< empty: data::derived_folder()
  std::string advice;            ///< what to do where it cannot be written to
};

/// The rows for which all conditions hold. Rows of a large file are looked at once a node. Throws Error for a column
/// that no row has, and where no row stays.
std::shared_ptr<SelectedRows> rows_kept_by(const Filters& filters, std::shared_ptr<const Rows> file,
                                           const KeptIn& kept_in);

}  // namespace jsonl
