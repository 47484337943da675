#include "squad_file.h"

#include "squad_keys.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
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

// A value of the file with its place, for messages.
class Node {
 public:
  Node(const Json& value, std::string path, const std::string& file)
      : value_(&value), path_(std::move(path)), file_(&file) {}

  Node key(const char* name) const {
    const auto path = path_.empty() ? std::string(name) : path_ + "." + name;
    if (!value_->is_object()) fail(path_.empty() ? "the file" : path_, "an object");
    const auto found = value_->find(name);
    if (found == value_->end()) throw Error(path + " is missing", format, *file_);
    return {*found, path, *file_};
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
    for (std::size_t i = 0; i < value_->size(); ++i) nodes.emplace_back((*value_)[i], cat(path_, "[", i, "]"), *file_);
    return nodes;
  }

  const std::string& text() const {
    if (!value_->is_string()) fail(path_, "a text");
    return value_->text();
  }

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const std::string& path, const char* wanted) const {
    throw Error(cat(path, " is ", value_->is_null() ? "null" : cat("of type ", value_->type_name()), ", not ", wanted),
                format, *file_);
  }
  const Json* value_;
  std::string path_;
  const std::string* file_;
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

Question read_question(const Node& node, std::size_t context, const std::string& path) {
  Question question;
  question.id = node.key("id").text();
  question.text = node.key("question").text();
  question.context = context;
  const bool is_impossible = node.has("is_impossible") && node.key("is_impossible").truth();
  if (is_impossible && !node.has("answers")) return question;
  for (const auto& answer : node.key("answers").items()) {
    question.answers.push_back(answer.key("text").text());
    if (question.answers.back().empty()) {
      throw Error(cat(answer.path(), ".text of question '", question.id, "' is empty"), "give the answer a text", path);
    }
  }
  if (is_impossible && !question.answers.empty()) {
    throw Error(cat(node.path(), ".is_impossible of question '", question.id, "' is true, but it has the answer '",
                    capstan::printable(question.answers.front()), "'"),
                "take one of them out", path);
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

}  // namespace

SquadFile read_squad(const std::string& path, Split split, const Reading& reading) {
  const auto json = parse(path);
  SquadFile file;
  file.path = path;
  std::unordered_map<std::string, std::string> places;  // by id
  Strangers strangers;
  Unanswered unanswered(reading, file.unanswerable);
  for (const auto& article : Node(json, "", path).key("data").items()) {
    for (const auto& paragraph : article.key("paragraphs").items()) {
      file.contexts.push_back(paragraph.key("context").text());
      for (const auto& node : paragraph.key("qas").items()) {
        auto question = read_question(node, file.contexts.size() - 1, path);
        // Predictions are read by id: where two questions have one id, one would lose its answer.
        if (const auto [first, is_new] = places.emplace(question.id, node.path()); !is_new) {
          throw Error(cat(node.path(), " has the id '", question.id, "', which ", first->second, " has too"),
                      "give each question an id of its own; predictions stand under them", path);
        }
        if (reading.in_context) strangers.judge(question, file.contexts.back(), split, node.path());
        if (unanswered.settle(question, node.path())) file.questions.push_back(std::move(question));
      }
    }
  }
  strangers.refuse(path);
  unanswered.refuse(path);
  unanswered.refuse_none(file);
  file.unknown_keys = unknown_keys(json);
  return file;
}

}  // namespace squad
