#include "squad_file.h"

#include "squad_keys.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace squad {
namespace {

using capstan::cat;
using capstan::Error;
using capstan::Json;
using capstan::data::Split;

constexpr const char* format =
    "SQuAD is data[].paragraphs[] with a context and qas[] of id, question and answers[].text";
constexpr const char* row_format =
    "a row of SQuAD has id, context, question and answers, an object of the lists text and answer_start";

// A value of the file with its place, for messages.
class Node {
 public:
  Node(const Json& value, std::string path, const std::string& file, const char* form = format)
      : value_(&value), path_(std::move(path)), file_(&file), form_(form) {}

  Node key(const char* name) const {
    const auto path = path_.empty() ? std::string(name) : path_ + "." + name;
    if (!value_->is_object()) fail(!path_.empty() ? path_ : form_ == format ? "the file" : "the row", "an object");
    const auto found = value_->find(name);
    if (found == value_->end()) throw Error(path + " is missing", form_, *file_);
    return {*found, path, *file_, form_};
  }

  // Is there such a key? One that is null counts as absent.
  bool has(const char* name) const {
    return value_->is_object() && value_->contains(name) && !(*value_)[name].is_null();
  }

  bool truth() const {
    if (!value_->is_boolean()) fail(path_, "true or false");
    return value_->get<bool>();
  }

  std::vector<Node> items() const {
    if (!value_->is_array()) fail(path_, "a list");
    std::vector<Node> nodes;
    nodes.reserve(value_->size());
    for (std::size_t i = 0; i < value_->size(); ++i)
      nodes.emplace_back((*value_)[i], cat(path_, "[", i, "]"), *file_, form_);
    return nodes;
  }

  const std::string& text() const {
    if (!value_->is_string()) fail(path_, "a text");
    return value_->text();
  }

  bool is_object() const { return value_->is_object(); }
  [[noreturn]] void fail(const std::string& what) const { throw Error(what, form_, *file_); }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const std::string& path, const char* wanted) const {
    throw Error(cat(path, " is ", value_->is_null() ? "null" : cat("of type ", value_->type_name()), ", not ", wanted),
                form_, *file_);
  }
  const Json* value_;
  std::string path_;
  const std::string* file_;
  const char* form_;
};

[[noreturn]] void fail_broken(const capstan::JsonParseError& error, std::string_view text, const std::string& path) {
  if (error.byte() > text.size()) {
    const auto line = 1 + std::count(text.begin(), text.end(), '\n');
    throw Error(cat("the file ends before its JSON does, at byte ", text.size(), " (line ", line, ")"),
                "it is cut off: fetch or write it again", path);
  }
  throw Error("broken JSON: " + capstan::json_fault(text, error), "fetch or write the file again", path);
}

Json parse(const std::string& path) {
  const auto text = capstan::read_file(path);
  try {
    return Json::parse(text);
  } catch (const capstan::JsonParseError& error) {
    fail_broken(error, text, path);
  }
}

// The texts of answers: a list of objects, or an object of lists, as the hub's tables have them.
std::vector<Node> texts_of(const Node& answers) {
  std::vector<Node> texts;
  if (!answers.is_object()) {
    for (const auto& answer : answers.items()) texts.push_back(answer.key("text"));
    return texts;
  }
  texts = answers.key("text").items();
  if (!answers.has("answer_start")) return texts;
  const auto starts = answers.key("answer_start").items().size();
  if (starts != texts.size()) {
    answers.fail(
        cat(answers.path(), ".text has ", capstan::counted(texts.size(), "item"), ", and answer_start ", starts));
  }
  return texts;
}

Question read_question(const Node& node, const std::string& where) {
  Question question;
  question.id = node.key("id").text();
  question.text = node.key("question").text();
  const bool is_impossible = node.has("is_impossible") && node.key("is_impossible").truth();
  if (is_impossible && !node.has("answers")) return question;
  for (const auto& answer : texts_of(node.key("answers"))) {
    question.answers.push_back(answer.text());
    if (question.answers.back().empty()) {
      throw Error(cat(answer.path(), " of question '", question.id, "' is empty"), "give the answer a text", where);
    }
  }
  if (is_impossible && !question.answers.empty()) {
    const auto path = node.path().empty() ? std::string() : node.path() + ".";
    throw Error(cat(path, "is_impossible of question '", question.id, "' is true, but it has the answer '",
                    capstan::printable(question.answers.front()), "'"),
                "take one of them out", where);
  }
  return question;
}

// Questions without an answer: what becomes of them, and how many there are.
class Unanswered {
 public:
  Unanswered(const Reading& reading, std::int64_t& count) : reading_(reading), count_(count) {}

  // Whether the question is used.
  bool settle(Question& question, const std::string& place) {
    if (!question.answers.empty()) return true;
    if (count_++ == 0) first_ = cat(place, " (question '", question.id, "')");
    if (reading_.unanswerable != Unanswerable::learn) return false;
    question.answers = {reading_.no_answer};
    question.is_answered = false;
    return true;
  }
  void refuse(const std::string& path) const {
    if (count_ == 0 || reading_.unanswerable != Unanswerable::refuse) return;
    const auto others = count_ > 1 ? cat(", nor ", capstan::counted(count_ - 1, "other question")) : "";
    throw Error(cat(first_, " has no answer", others, ", as in SQuAD v2.0"),
                R"(set data.unanswerable = "skip" to leave such questions out, or "learn" to learn the text )"
                R"(data.no_answer as their answer and to score them by version 2.0's rule)",
                path);
  }
  // Nothing but questions that are left out.
  void refuse_none(const SquadFile& file) const {
    if (count_ == 0 || !file.questions.empty()) return;
    throw Error(
        cat("none of its ", capstan::counted(count_, "question"), " has an answer, and data.unanswerable is \"skip\""),
        R"(set data.unanswerable = "learn", or name a file with answers)", file.path);
  }

 private:
  const Reading& reading_;
  std::int64_t& count_;
  std::string first_;
};

// Questions whose answer does not stand in their context: the first one, and how many there are.
class Strangers {
 public:
  void judge(const Question& question, const std::string& context, Split split, const std::string& place) {
    const auto stands = [&](const std::string& answer) { return context.find(answer) != std::string::npos; };
    const auto& answers = question.answers;
    const bool found = answers.empty() || (split == Split::train ? stands(answers.front())
                                                                 : std::any_of(answers.begin(), answers.end(), stands));
    if (!found && count_++ == 0)
      first_ = cat(place, ".answers[0].text of question '", question.id, "' is '", answers.front(), "'");
  }
  void refuse(const std::string& path) const {
    if (count_ == 0) return;
    throw Error(
        cat(first_, ", which does not stand in the context",
            count_ > 1 ? cat(" (and so with ", capstan::counted(count_ - 1, "more question"), ")") : ""),
        "write the answer as the context has it, letter for letter, or set data.answers = \"any\" if answers are "
        "to be free",
        path);
  }

 private:
  std::int64_t count_ = 0;
  std::string first_;
};

/// Adds questions to a file, and judges them.
class Collector {
 public:
  Collector(SquadFile& file, Split split, const Reading& reading)
      : file_(file), split_(split), reading_(reading), unanswered_(reading, file.unanswerable) {}

  // A question about the last context.
  void add(Question question, const std::string& place, const std::string& where) {
    question.context = file_.contexts.size() - 1;
    // Predictions are read by id: where two questions have one id, one would lose its answer.
    if (const auto [first, is_new] = places_.emplace(question.id, place); !is_new) {
      throw Error(cat(place, " has the id '", question.id, "', which ", first->second, " has too"),
                  "give each question an id of its own; predictions stand under them", where);
    }
    if (reading_.in_context) strangers_.judge(question, file_.contexts.back(), split_, place);
    if (unanswered_.settle(question, place)) file_.questions.push_back(std::move(question));
  }
  void finish() const {
    strangers_.refuse(file_.path);
    unanswered_.refuse(file_.path);
    unanswered_.refuse_none(file_);
  }

 private:
  SquadFile& file_;
  Split split_;
  const Reading& reading_;
  std::unordered_map<std::string, std::string> places_;  // by id
  Strangers strangers_;
  Unanswered unanswered_;
};

}  // namespace

SquadFile read_squad(const std::string& path, Split split, const Reading& reading) {
  const auto json = parse(path);
  SquadFile file;
  file.path = path;
  Collector collector(file, split, reading);
  for (const auto& article : Node(json, "", path).key("data").items()) {
    for (const auto& paragraph : article.key("paragraphs").items()) {
      file.contexts.push_back(paragraph.key("context").text());
      for (const auto& node : paragraph.key("qas").items()) collector.add(read_question(node, path), node.path(), path);
    }
  }
  collector.finish();
  file.unknown_keys = unknown_keys(json);
  return file;
}

SquadFile read_squad_rows(const jsonl::Rows& rows, Split split, const Reading& reading) {
  SquadFile file;
  file.path = rows.path();
  file.content = rows.content();
  Collector collector(file, split, reading);
  std::set<std::string> unknown;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const auto where = rows.where(i);
    const auto json = capstan::parse_json(rows.line(i), "broken JSON", "write one JSON object a line, in UTF-8", where);
    const Node row(json, "", where, row_format);
    const auto& context = row.key("context").text();
    // Questions about one text follow each other.
    if (file.contexts.empty() || file.contexts.back() != context) file.contexts.push_back(context);
    collector.add(read_question(row, where), rows.name(i), where);
    for (const auto& [key, value] : json.items()) {
      if (!row_keys().find(key)) unknown.insert(key);
    }
  }
  collector.finish();
  file.unknown_keys = {unknown.begin(), unknown.end()};
  return file;
}

}  // namespace squad
