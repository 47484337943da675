#pragma once
#include "rows.h"
#include "teacher.h"
#include "template.h"

#include <capstan/base/json.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace jsonl {

/// A line as pieces of text, one after another; those that the model is to write are marked.
struct Record {
  struct TextPiece {
    std::string text;
    bool is_answer = false;
    bool is_silent = false;  ///< bears no loss, even where data.loss is "sequence"
  };
  std::vector<TextPiece> pieces;
  std::string id;         ///< the line's "id", else its number
  std::string reference;  ///< what is expected after the last prompt; empty: nothing is asked
  bool is_text = false;   ///< {"text"}: no prompt, all of it is learned
  bool needs_end = true;  ///< an end token follows; not after conversations, whose template says what ends a turn
  /// The model's own template wrote it, which begins with this text where it has a begin token: none is added.
  std::optional<std::string> begins_with = {};
  std::size_t prompt = 0;           ///< how many pieces such a template's last answer is generated from
  capstan::Json conversation = {};  ///< what such a template is to write; null: nothing, or it has written it
  std::vector<TeacherRow> teacher =
      {};  ///< what a teacher says of the tokens that bear loss; read_record leaves it empty
  std::vector<std::string> others = {};  ///< keys that nothing reads and keys.h does not know
  const char* form = "";                 ///< what the line was recognised as: "messages"
};

/// Reads a line; `numbers` are further keys that options read: those of data.numbers, a label. Throws Error at
/// "FILE:LINE" that says what is wrong and what a line may be, for a key that would mean something else as well.
Record read_record(const Rows& file, std::int64_t index, const Turns& turns,
                   const std::vector<std::string>& numbers = {});

}  // namespace jsonl
