#pragma once
#include <capstan/data/source.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "records/rows.h"

namespace squad {

struct Question {
  std::string id;
  std::string text;
  std::size_t context = 0;           ///< into SquadFile::contexts
  std::vector<std::string> answers;  ///< accepted answers; the first one is trained on
  bool is_answered = true;           ///< false: the file has no answer, and `answers` is Reading::no_answer
};

/// What becomes of questions without an answer, as SQuAD v2.0 has them.
enum class Unanswerable {
  refuse,  ///< a file that has some is refused
  skip,    ///< they are left out
  learn    ///< their answer is a text that says so
};

/// How a file is read.
struct Reading {
  bool in_context = true;  ///< an answer must stand in its context, letter for letter
  Unanswerable unanswerable = Unanswerable::refuse;
  std::string no_answer = {};  ///< the answer of questions that have none, where they are learned
};

/// The used part of a file in SQuAD's format, in the file's order.
struct SquadFile {
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  std::string path;                            ///< for messages
  std::int64_t unanswerable = 0;               ///< questions without an answer, whether they are left out or learned
  std::vector<std::string> unknown_keys = {};  ///< by their paths
  std::string content = {};                    ///< jsonl::Rows::content() of a table
};

/// Reads {"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text"}],
/// "is_impossible"}]}]}]}, of version 1.1 or 2.0. Throws one Error that names the file and where in it: a file that
/// cannot be read, broken JSON (byte, line, column), a key that is missing or of the wrong type (its path), a question
/// that says both that it has an answer and that it has none. `in_context`: one of a question's answers, in the
/// training split the first, must stand in the context.
SquadFile read_squad(const std::string& path, capstan::data::Split split, const Reading& reading = {});

/// The same of a table's rows, which the hub has: {"id", "context", "question", "answers": {"text": […], …}} each.
SquadFile read_squad_rows(const jsonl::Rows& rows, capstan::data::Split split, const Reading& reading = {});

}  // namespace squad
