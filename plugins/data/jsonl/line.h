#pragma once
#include "mapped_lines.h"
#include "template.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace jsonl {

struct Record;

/// A line's object with its place, for messages. What is wrong with it is thrown as Error at "FILE:LINE".
class Line {
 public:
  /// `forms` says what a line may be.
  Line(const MappedLines& file, std::int64_t index, const char* forms);

  [[noreturn]] void fail(const std::string& what, const std::string& fix) const;
  [[noreturn]] void fail(const std::string& what) const { fail(what, forms_); }
  const nlohmann::json& json() const { return json_; }
  bool has(const char* key) const { return json_.contains(key); }
  /// The text under `key` of the line, or of an object in it that messages call `name`.
  std::string text(const char* key) const { return text(json_, key, key); }
  std::string text(const nlohmann::json& object, const char* key, const std::string& name) const;
  /// The line's "id"; if it has none "line 7", and not "7", which may well be another line's id.
  std::string id() const;
  /// A list of messages that messages call `name`.
  std::vector<Message> messages(const nlohmann::json& list, const std::string& name) const;
  /// Adds messages as the turns write them. With `answers` the assistant's are marked as such. Returns whether there
  /// are any of the assistant.
  bool add_turns(const std::vector<Message>& messages, const Turns& turns, bool answers, Record& record) const;

 private:
  std::string where_;
  const char* forms_;
  nlohmann::json json_;
};

}  // namespace jsonl
