// The questions of configs/quickstart.toml, which tools/make-quickstart-data makes: only reading answers them.
#include <capstan_catch.h>
#include <capstan_places.h>

#include <set>
#include <string>

#include "plugins/data/squad/squad_file.h"

namespace quickstart_test {

using capstan::data::Split;

namespace {

squad::SquadFile read(const std::string& split, Split kind) {
  return squad::read_squad(CAPSTAN_SOURCE_DIR "/configs/data/quickstart/" + split + ".json", kind);
}

// How often "keeps a WORD." or "keeps an WORD." stands in a text.
int times(const std::string& context, const std::string& word) {
  int found = 0;
  for (auto at = context.find(" " + word + "."); at != std::string::npos; at = context.find(" " + word + ".", at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE("the quickstart's questions: thousands, each answered by its text, none of the unseen ones by another text") {
  const auto train = read("train", Split::train);
  const auto eval = read("eval", Split::eval);
  CHECK(train.questions.size() >= 5000);
  CHECK(eval.questions.size() >= 200);
  const std::set<std::string> learnt(train.contexts.begin(), train.contexts.end());
  CHECK(learnt.size() == train.contexts.size());
  for (const auto& context : eval.contexts) CHECK(learnt.count(context) == 0);
  for (const auto* file : {&train, &eval}) {
    for (const auto& question : file->questions) {
      const auto& context = file->contexts.at(question.context);
      INFO(context << " " << question.text);
      REQUIRE(question.answers.size() == 1);
      REQUIRE(times(context, question.answers[0]) == 1);
      // "What does Tim keep?" asks for the sentence that begins with Tim.
      const auto name = question.text.substr(10, question.text.find(" keep?") - 10);
      const auto sentence = context.find(name + " keeps a");
      REQUIRE(sentence != std::string::npos);
      const auto end = context.find('.', sentence);
      REQUIRE(context.substr(0, end).ends_with(" " + question.answers[0]));
    }
  }
}

}  // namespace quickstart_test
