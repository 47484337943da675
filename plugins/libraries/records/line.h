#pragma once
#include "rows.h"
#include "template.h"

#include <capstan/base/json.h>
#include <capstan/config/file_keys.h>

#include <string>
#include <vector>

namespace jsonl {

struct Record;

/// A line's object with its place, for messages. A key whose value is null counts as absent: tables whose rows have
/// different keys are written so. What is wrong with it is thrown as Error at "FILE:LINE".
class Line {
 public:
  /// `forms` says what a line may be.
  Line(const Rows& file, std::int64_t index, const char* forms);

  [[noreturn]] void fail(const std::string& what, const std::string& fix) const;
  [[noreturn]] void fail(const std::string& what) const { fail(what, forms_); }
  const capstan::Json& json() const { return json_; }
  bool has(const char* key) const { return json_.contains(key); }
  /// The text under `key` of the line.
  std::string text(const char* key) const { return text(json_, key, rows_->columns().column_of(key)); }
  /// The line's "id", a number's as the line has it; if it has none "line 7", and not "7", which may well be another
  /// line's id.
  std::string id() const;
  std::int64_t index() const { return index_; }
  /// Refuses keys of the line that the table refuses, except `numbers`; adds those that it does not know to `others`.
  /// `by_model`: the model's own template writes the line, and more keys.
  void judge(const capstan::config::FileKeys& table, const std::vector<std::string>& numbers,
             std::vector<std::string>& others, bool by_model) const;
  /// The list of messages under `key`, which are judged too.
  std::vector<Message> messages(const char* key, std::vector<std::string>& others, bool by_model) const;
  /// Adds messages as the turns write them. With `answers` the assistant's are marked as such.
  void add_turns(const std::vector<Message>& messages, const Turns& turns, bool answers, Record& record) const;

 private:
  void parse();
  /// Gives columns the keys that data.columns says they are read as.
  void rename(const Columns& columns);
  /// The text under `key` of an object in the line that messages call `name`.
  std::string text(const capstan::Json& object, const char* key, const std::string& name) const;
  std::string part_text(const capstan::Json& part, const std::string& name) const;
  std::string content(const capstan::Json& message, const std::string& name, bool by_model) const;
  capstan::Json for_model(const capstan::Json& message, const Message& read) const;
  bool is_learned(const capstan::Json& message, const std::string& role, const std::string& name) const;
  void judge_message(const capstan::Json& one, const std::string& name, std::vector<std::string>& others,
                     bool by_model) const;
  Message message(const capstan::Json& one, const std::string& name, bool by_model) const;
  capstan::Json list_of_messages(const char* key) const;
  void judge(const capstan::config::FileKeys& table, const std::string& key, const capstan::Json& value,
             const std::string& name, std::vector<std::string>& others) const;

  const Rows* rows_;
  std::int64_t index_;
  std::string_view line_;
  std::string where_;
  const char* forms_;
  capstan::Json json_;
};

/// Whether one of the messages is the assistant's and is to be learned.
bool has_answer(const std::vector<Message>& messages);

}  // namespace jsonl
