#pragma once
#include "mapped_lines.h"
#include "rows.h"

#include <capstan/base/json.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chat_template/renderer.h"

namespace jsonl {

/// What is rendered, and by which template.
struct RenderRequest {
  chat_template::Source source;
  std::shared_ptr<const Rows> rows;
  std::int64_t count = 0;                 ///< the first rows: others are not rendered
  bool pairs = false;                     ///< a row has two conversations, one for each answer
  std::filesystem::path folder = {};      ///< where renderings are kept; empty: data::derived_folder()
  std::string advice;                     ///< what to do about a folder that cannot be written to
  std::vector<std::string> numbers = {};  ///< keys of a row's numbers, which are no fault
};

/// A part of a sample that a template does not write.
struct Dropped {
  std::int64_t rows = 0;   ///< with such a part
  std::int64_t first = 0;  ///< the index of the first one
};

/// A file's conversations as the model's own template writes them. They are rendered once a node, into a file that is
/// mapped; a later run finds it, with the date of its first rendering.
class Renderings {
 public:
  /// Renders them, or finds them rendered. Throws one Error with the first rows that the template refuses.
  explicit Renderings(const RenderRequest& request);

  const chat_template::Head& head() const { return head_; }
  /// Says all that they depend on.
  std::string key() const { return std::filesystem::path(lines_.path()).filename().string(); }
  /// By the part's name, "messages[].name".
  const std::map<std::string, Dropped>& dropped() const { return dropped_; }
  /// A row's conversation; `answer`: 0, of a pair 0 for the preferred answer and 1 for the other.
  chat_template::Rendered get(std::int64_t row, std::int64_t answer) const;
  /// Bytes of a row, at least as many as its texts have.
  std::size_t size(std::int64_t row) const;

 private:
  std::string_view line(std::int64_t row, std::int64_t answer) const { return lines_.line(row * each_ + answer); }

  std::int64_t each_;
  MappedLines lines_;  // and last what is known of all of them
  chat_template::Head head_;
  std::map<std::string, Dropped> dropped_;
};

}  // namespace jsonl
