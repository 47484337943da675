#include "squad_file.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

namespace squad {
namespace {

using capstan::cat;
using capstan::Error;
using capstan::data::Split;
using Json = nlohmann::json;

constexpr const char* format =
    "SQuAD v1.1 is data[].paragraphs[] with a context and qas[] of id, question and answers[].text";

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

  std::vector<Node> items() const {
    if (!value_->is_array()) fail(path_, "a list");
    std::vector<Node> nodes;
    nodes.reserve(value_->size());
    for (std::size_t i = 0; i < value_->size(); ++i) nodes.emplace_back((*value_)[i], cat(path_, "[", i, "]"), *file_);
    return nodes;
  }

  const std::string& text() const {
    if (!value_->is_string()) fail(path_, "a text");
    return value_->get_ref<const std::string&>();
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

[[noreturn]] void fail_broken(const Json::parse_error& error, std::string_view text, const std::string& path) {
  const auto byte = std::min(error.byte, text.size());
  const auto before = text.substr(0, byte);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  if (error.byte > text.size()) {
    throw Error(cat("the file ends before its JSON does, at byte ", text.size(), " (line ", line, ")"),
                "it is cut off: fetch or write it again", path);
  }
  const auto line_start = before.empty() ? 0 : before.substr(0, byte - 1).rfind('\n') + 1;
  const auto rest = text.substr(byte == 0 ? 0 : byte - 1, 30);
  throw Error(cat("broken JSON at byte ", byte, " (line ", line, ", column ", byte - line_start, "), at '",
                  capstan::printable(rest), "'"),
              "fetch or write the file again", path);
}

Json parse(const std::string& path) {
  const auto text = capstan::read_file(path);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    fail_broken(error, text, path);
  } catch (const Json::exception&) {
    throw Error("broken JSON: " + capstan::json_fault(text, 0), "fetch or write the file again", path);
  }
}

Question read_question(const Node& node, std::size_t context, Split split, const std::string& path) {
  Question question;
  question.id = node.key("id").text();
  question.text = node.key("question").text();
  question.context = context;
  for (const auto& answer : node.key("answers").items()) {
    question.answers.push_back(answer.key("text").text());
    if (question.answers.back().empty()) {
      throw Error(cat(answer.path(), ".text of question '", question.id, "' is empty"), "give the answer a text", path);
    }
  }
  if (question.answers.empty() && split == Split::train) {
    throw Error(cat(node.path(), ".answers of question '", question.id, "' is empty: there is nothing to train on"),
                "take the question out, or use the file for evaluation only", path);
  }
  return question;
}

// Questions whose answer does not stand in their context: the first one, and how many there are.
class Strangers {
 public:
  void judge(const Question& question, const std::string& context, Split split, const std::string& place) {
    const auto stands = [&](const std::string& answer) { return context.find(answer) != std::string::npos; };
    const auto& answers = question.answers;
    const bool found = split == Split::train ? answers.empty() || stands(answers.front())
                                             : answers.empty() || std::any_of(answers.begin(), answers.end(), stands);
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

SquadFile read_squad(const std::string& path, Split split, bool in_context) {
  const auto json = parse(path);
  SquadFile file;
  file.path = path;
  std::unordered_map<std::string, std::string> places;  // by id
  Strangers strangers;
  for (const auto& article : Node(json, "", path).key("data").items()) {
    for (const auto& paragraph : article.key("paragraphs").items()) {
      file.contexts.push_back(paragraph.key("context").text());
      for (const auto& question : paragraph.key("qas").items()) {
        file.questions.push_back(read_question(question, file.contexts.size() - 1, split, path));
        const auto& id = file.questions.back().id;
        // Predictions are read by id: where two questions have one id, one would lose its answer.
        if (const auto [first, is_new] = places.emplace(id, question.path()); !is_new) {
          throw Error(cat(question.path(), " has the id '", id, "', which ", first->second, " has too"),
                      "give each question an id of its own; predictions stand under them", path);
        }
        if (in_context) strangers.judge(file.questions.back(), file.contexts.back(), split, question.path());
      }
    }
  }
  strangers.refuse(path);
  return file;
}

}  // namespace squad
