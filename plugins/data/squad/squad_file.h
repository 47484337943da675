#pragma once
#include <capstan/data/source.h>

#include <cstddef>
#include <string>
#include <vector>

namespace squad {

struct Question {
  std::string id;
  std::string text;
  std::size_t context = 0;           ///< into SquadFile::contexts
  std::vector<std::string> answers;  ///< accepted answers; the first one is trained on
};

/// The used part of a file in SQuAD v1.1's format, in the file's order.
struct SquadFile {
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  std::string path;  ///< for messages
};

/// Reads {"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text"}]}]}]}]}; other keys are
/// ignored. Throws one Error that names the file and where in it: a file that cannot be read, broken JSON (byte,
/// line, column), a key that is missing or of the wrong type (its path). A question without answers is refused in the
/// training split; in the evaluation split it is asked, has no target token and gets no score. `in_context`: one of a
/// question's answers, in the training split the first, must stand in the context, letter for letter.
SquadFile read_squad(const std::string& path, capstan::data::Split split, bool in_context = true);

}  // namespace squad
