#include "plugins/libraries/records/pair.h"

#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace pair_test {

using namespace capstan;
using namespace jsonl;
using test::error_of;
using test::Folder;

namespace {

using Values = testing::OptionValues;

const Values turn{{"turn", std::string("<{role}>{content}</>")}};

JsonlData data_of(const std::string& path, const Values& more = {}) {
  Values values{{"train", path}, {"pairs", true}};
  values.insert(values.end(), more.begin(), more.end());
  return JsonlData(testing::options_of<JsonlOptions>("data", values));
}

std::shared_ptr<data::DataSource> opened(const std::string& path, const Values& more = {},
                                         std::int64_t max_length = 200) {
  return data_of(path, more).open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), max_length, 258});
}

// The texts of both sequences, with what bears loss in brackets and the end token as '.'.
std::string shown(const data::Sample& sample) {
  const tokenizer::ByteTokenizer tokenizer;
  std::string text;
  for (const auto& sequence : data::sequences_of(sample)) {
    bool inside = false;
    text += text.empty() ? "" : " | ";
    REQUIRE(sequence.tokens.size() == sequence.is_target.size());
    for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
      if (sequence.is_target[t] != inside) text += inside ? "]" : "[";
      inside = sequence.is_target[t];
      text += tokenizer.is_end(sequence.tokens[t]) ? "." : std::string(1, static_cast<char>(sequence.tokens[t]));
    }
    text += inside ? "]" : "";
  }
  return text;
}

std::string shown(const std::string& line, const Values& more = {}) {
  const Folder folder;
  return shown(opened(folder.write("a.jsonl", line + "\n"), more)->get(0));
}

// The one fault of a file with this line after a good one, without "FILE:2: ".
std::string fault_of(const std::string& line, const Values& more = {}) {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n" + line + "\n");
  Diagnostics diagnostics;
  data_of(path, more).check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  const auto text = diagnostics.list().front().text();
  REQUIRE(text.rfind(path + ":2: ", 0) == 0);
  // What get() of that line says is the same.
  CHECK(error_of([&] { opened(path, more)->get(1); }) == text);
  return text.substr(path.size() + 4);
}

std::string message(const std::string& role, const std::string& content) {
  return R"({"role": ")" + role + R"(", "content": ")" + content + R"("})";
}

}  // namespace

TEST_CASE("a pair of texts is a sample of two sequences, of which the answers bear loss") {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl", "{\"prompt\": \"2+2=\", \"chosen\": \"4\", \"rejected\": \"five\", \"id\": \"x\"}\n");
  CHECK(data_of(path).form().sequences == 2);
  CHECK(data_of(path).form().meaning == "a preferred answer and a rejected one");
  const auto source = opened(path);
  const auto sample = source->get(0);
  CHECK(shown(sample) == "2+2=[4.] | 2+2=[five.]");
  CHECK(sample.id == "x");
  CHECK(sample.others.size() == 1);
  // Generation starts from the prompt, and the chosen answer is what is expected.
  CHECK(sample.prompt_length == 4);
  CHECK(sample.references == std::vector<std::string>{"4"});
  CHECK(source->question(0, 100).tokens == std::vector<std::int64_t>{'2', '+', '2', '='});
}

TEST_CASE("a pair of lists of messages: the assistant's after the prompt bear loss") {
  const auto prompt = "[" + message("system", "s") + ", " + message("user", "q") + "]";
  const auto line = R"({"prompt": )" + prompt + R"(, "chosen": [)" + message("assistant", "yes") +
                    R"(], "rejected": [)" + message("assistant", "no") + ", " + message("user", "?") + ", " +
                    message("assistant", "none") + "]}";
  CHECK(shown(line, turn) ==
        "<system>s</><user>q</><assistant>[yes</>] | "
        "<system>s</><user>q</><assistant>[no</>]<user>?</><assistant>[none</>]");
}

TEST_CASE("conversations without a prompt have the messages that both begin with as their prompt") {
  const auto shared = message("user", "q") + ", " + message("assistant", "a") + ", " + message("user", "more") + ", ";
  const auto line = R"({"chosen": [)" + shared + message("assistant", "good") + R"(], "rejected": [)" + shared +
                    message("assistant", "bad") + "]}";
  CHECK(shown(line, turn) ==
        "<user>q</><assistant>a</><user>more</><assistant>[good</>] | "
        "<user>q</><assistant>a</><user>more</><assistant>[bad</>]");
  // A message of another role with the same text is another message.
  const auto other = R"({"chosen": [)" + message("user", "q") + ", " + message("assistant", "x") +
                     R"(], "rejected": [)" + message("system", "q") + ", " + message("assistant", "x") + "]}";
  CHECK(shown(other, turn) == "<user>q</><assistant>[x</>] | <system>q</><assistant>[x</>]");
}

TEST_CASE("a pair that is cut keeps one prompt, and no answer is cut") {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl", "{\"prompt\": \"0123456789\", \"chosen\": \"abc\", \"rejected\": \"abcdef\"}\n");
  const Values cut{{"too_long", std::string("cut")}};
  CHECK(shown(opened(path, cut, 17)->get(0)) == "0123456789[abc.] | 0123456789[abcdef.]");
  CHECK(shown(opened(path, cut, 12)->get(0)) == "56789[abc.] | 56789[abcdef.]");
  CHECK_THAT(error_of([&] { opened(path, cut, 6); }),
             Contains("the last answer by itself has 7 tokens, max_length is 6"));
  CHECK_THAT(error_of([&] { opened(path, {}, 16); }), Contains("the line has 17 tokens, max_length is 16"));
}

TEST_CASE("pairs that are wrong are named with what a pair may be") {
  const std::string forms =
      "\n    fix: with data.pairs a line is {\"prompt\": …, \"chosen\": …, \"rejected\": …}, of texts or of lists of "
      "messages";
  CHECK(fault_of(R"({"prompt": "a", "chosen": "b"})") == "'rejected' is missing" + forms);
  CHECK(fault_of(R"({"prompt": "a", "completion": "b"})") == "'chosen' is missing" + forms);
  CHECK(fault_of(R"({"chosen": "b", "rejected": "c"})") == "'prompt' is missing" + forms);
  CHECK(fault_of(R"({"prompt": "a", "chosen": "b", "rejected": "c", "text": "d"})") ==
        "the line has 'text', and is a pair" + forms);
  CHECK(fault_of(R"({"prompt": "a", "chosen": "b", "rejected": ""})") ==
        "'rejected' is empty\n    fix: give it a text, or take the line out");
  CHECK(fault_of(R"({"prompt": "a", "chosen": "b", "rejected": "b"})") ==
        "'chosen' and 'rejected' are the same: no answer is preferred\n    fix: take the line out");
  CHECK(fault_of(R"({"prompt": "a", "chosen": "b", "rejected": ["c"]})") ==
        "'prompt' is a text, but the answers are not\n    fix: remove 'prompt' if the conversations begin with it, or "
        "write it as a list of messages");
  CHECK(fault_of(R"({"chosen": "b", "rejected": []})") ==
        "some of 'prompt', 'chosen' and 'rejected' are texts and some are not" + forms);
  CHECK(fault_of(R"({"prompt": 1, "chosen": "b", "rejected": "c"})") ==
        "'prompt' is of type number, not a text" + forms);
}

TEST_CASE("conversations of pairs that are wrong") {
  const auto user = message("user", "q"), answer = message("assistant", "a");
  const auto line = R"({"chosen": [)" + user + ", " + answer + R"(], "rejected": [)" + user + "]}";
  CHECK_THAT(fault_of(line), Contains("messages need a template"));
  CHECK_THAT(fault_of(line, turn), Contains("'rejected' has no message of the role 'assistant' after the prompt"));
  CHECK_THAT(fault_of(R"({"chosen": ["x"], "rejected": [])" + std::string("}"), turn),
             Contains("'chosen[0]' is of type string, not an object"));
  CHECK_THAT(fault_of(R"({"prompt": [], "chosen": [)" + answer + R"(], "rejected": [)" + user + "]}", turn),
             Contains("'prompt' is not a list of messages"));
}

TEST_CASE("pairs where none are asked for, and loss on prompts where pairs are") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n");
  Diagnostics diagnostics;
  JsonlData(testing::options_of<JsonlOptions>("data", {{"train", path}})).check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list().front().where == path + ":1");
  CHECK(diagnostics.list().front().fix == "set data.pairs = true");
  Diagnostics of_loss;
  data_of(path, {{"loss", std::string("sequence")}}).check(of_loss);
  REQUIRE(of_loss.size() == 1);
  CHECK(of_loss.list().front().where == "a.toml:4");
}

}  // namespace pair_test
