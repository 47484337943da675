#include "mapped_lines.h"

#include <capstan/base/encoding.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <algorithm>
#include <utility>

namespace jsonl {

Rows::~Rows() = default;

MappedLines::MappedLines(std::string path) : path_(std::move(path)), file_(path_) {
  const std::string_view all(reinterpret_cast<const char*>(file_.data()), file_.size());
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const auto end = std::min(all.find('\n', begin), all.size());
    ++number;
    if (all.substr(begin, end - begin).find_first_not_of(" \t\r") != std::string_view::npos)
      lines_.push_back({begin, end, number});
    begin = end + 1;
  }
}

std::string MappedLines::encoding_fault() const {
  constexpr std::size_t bytes = 2;
  return capstan::utf16_fault({reinterpret_cast<const char*>(file_.data()), std::min(bytes, file_.size())});
}

std::string_view MappedLines::line(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < size());
  const auto& line = lines_[static_cast<std::size_t>(index)];
  return {reinterpret_cast<const char*>(file_.data()) + line.begin, line.end - line.begin};
}

std::string MappedLines::name(std::int64_t index) const {
  return capstan::cat("line ", lines_[static_cast<std::size_t>(index)].number);
}

std::string MappedLines::where(std::int64_t index) const {
  return capstan::cat(path_, ":", lines_[static_cast<std::size_t>(index)].number);
}

std::string MappedLines::key() const { return capstan::data::content_key(path_); }

}  // namespace jsonl
