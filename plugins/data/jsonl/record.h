#pragma once
#include "mapped_lines.h"
#include "teacher.h"
#include "template.h"

#include <string>
#include <vector>

namespace jsonl {

/// A line as pieces of text, one after another; those that the model is to write are marked.
struct Record {
  struct TextPiece {
    std::string text;
    bool is_answer = false;
  };
  std::vector<TextPiece> pieces;
  std::string id;         ///< the line's "id", else its number
  std::string reference;  ///< what is expected after the last prompt; empty: nothing is asked
  bool is_text = false;   ///< {"text"}: no prompt, all of it is learned
  bool needs_end = true;  ///< an end token follows; not after conversations, whose template says what ends a turn
  std::vector<TeacherRow> teacher =
      {};  ///< what a teacher says of the tokens that bear loss; read_record leaves it empty
};

/// Reads a line. Throws Error at "FILE:LINE" that says what is wrong and what a line may be.
Record read_record(const MappedLines& file, std::int64_t index, const Turns& turns);

}  // namespace jsonl
