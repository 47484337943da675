#include "squad_keys.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <set>

namespace squad {
namespace {

using capstan::cat;
using capstan::Json;
using capstan::config::FileKey;
using capstan::config::FileKeys;
using Use = FileKey::Use;

// Keys with objects inside are looked into; whoever reads the file says what is of the wrong type.
void collect(const Json& value, const std::string& path, std::set<std::string>& unknown) {
  if (value.is_array()) {
    for (const auto& item : value) collect(item, path + "[]", unknown);
  }
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) {
    const auto name = path.empty() ? key : cat(path, ".", key);
    const auto* known = squad_keys().find(name);
    if (known == nullptr) {
      unknown.insert(name);
    } else if (known->use == Use::used && !inner.is_primitive()) {
      collect(inner, name, unknown);
    }
  }
}

}  // namespace

const FileKeys& squad_keys() {
  const std::string paragraph = "data[].paragraphs[]";
  const std::string question = paragraph + ".qas[]";
  static const FileKeys table{
      "a SQuAD file",
      "What the SQuAD project publishes, versions 1.1 and 2.0, and files that others write in its format.",
      {{"data", Use::used, "the articles"},
       {"version", Use::neutral, "each question says itself whether it has an answer"},
       {"data[].title", Use::neutral, "the prompt has the question and its context"},
       {"data[].paragraphs", Use::used, "the contexts with their questions"},
       {paragraph + ".context", Use::used, "the text that is asked about"},
       {paragraph + ".qas", Use::used, "its questions"},
       {question + ".id", Use::used, "the name of the prediction"},
       {question + ".question", Use::used, "what is asked"},
       {question + ".answers", Use::used,
        "what is learned (the first one) and accepted (each); none: see is_impossible"},
       {question + ".answers[].text", Use::used, "the answer"},
       {question + ".answers[].answer_start", Use::neutral, "the answer is written, its place is not marked"},
       {question + ".is_impossible", Use::used,
        "the question has no answer: data.unanswerable says what becomes of it"},
       {question + ".plausible_answers", Use::neutral, "version 2.0's metric accepts none of them"}},
      FileKeys::Unknown::named};
  return table;
}

const FileKeys& row_keys() {
  static const FileKeys table{
      "a row of SQuAD's table",
      "What the hub has as squad and squad_v2, and tables that others write like them.",
      {{"id", Use::used, "the name of the prediction"},
       {"title", Use::neutral, "the prompt has the question and its context"},
       {"context", Use::used, "the text that is asked about"},
       {"question", Use::used, "what is asked"},
       {"answers", Use::used,
        "its text is what is learned (the first one) and accepted (each); none: see is_impossible"},
       {"is_impossible", Use::used, "the question has no answer: data.unanswerable says what becomes of it"}},
      FileKeys::Unknown::named};
  return table;
}

std::vector<std::string> unknown_keys(const Json& file) {
  std::set<std::string> unknown;
  collect(file, {}, unknown);
  return {unknown.begin(), unknown.end()};
}

}  // namespace squad
