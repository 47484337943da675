// Keys that other programs write into lines, messages and parts of them.
#include "plugins/libraries/records/keys.h"

#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/log.h>
#include <capstan_catch.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "support/folder.h"
#include "support/options.h"

namespace keys_test {

using namespace capstan;
using namespace jsonl;
using test::Folder;
using Values = testing::OptionValues;

namespace {

const Values turn{{"turn", std::string("<{role}>{content}</>")}};
const Values pairs{{"pairs", true}, turn[0]};

JsonlData data_of(const std::string& path, const Values& more) {
  Values values{{"train", path}};
  values.insert(values.end(), more.begin(), more.end());
  return JsonlData(testing::options_of<JsonlOptions>("data", values));
}

// The faults of a file of one line, each without "FILE:1: ", and with its fix in parentheses.
std::string fault(const std::string& line, const Values& more = turn) {
  const Folder folder;
  const auto path = folder.write("a.jsonl", line + "\n");
  Diagnostics diagnostics;
  data_of(path, more).check(diagnostics);
  std::string all;
  for (const auto& one : diagnostics.list()) {
    CHECK(one.where == path + ":1");
    CHECK_FALSE(one.fix.empty());
    all += one.what + " (" + one.fix + ")";
  }
  return all;
}

std::shared_ptr<data::DataSource> opened(const Folder& folder, const std::string& line, const Values& more = turn) {
  const auto data = data_of(folder.write("a.jsonl", line + "\n"), more);
  return data.open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 500, 258});
}

data::Sample sample(const std::string& line, const Values& more = turn) {
  const Folder folder;
  return opened(folder, line, more)->get(0);
}

// A sequence's text, with what bears loss in brackets and the end token as '.'.
std::string shown(const std::vector<std::int64_t>& tokens, const std::vector<bool>& is_target) {
  const tokenizer::ByteTokenizer tokenizer;
  std::string text;
  bool inside = false;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (is_target[t] != inside) text += inside ? "]" : "[";
    inside = is_target[t];
    text += tokenizer.is_end(tokens[t]) ? "." : std::string(1, static_cast<char>(tokens[t]));
  }
  return text + (inside ? "]" : "");
}

std::string shown(const data::Sample& sample) { return shown(sample.tokens, sample.is_target); }

std::string chat(const std::string& more_of_line, const std::string& more_of_message) {
  return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a")" + more_of_message +
         "}]" + more_of_line + "}";
}

const std::string completion = R"({"prompt": "p", "completion": "c")";
const std::string pair = R"({"prompt": "p", "chosen": "c", "rejected": "r")";

}  // namespace

TEST_CASE("a key that would change what a line means is refused by its name") {
  // More of the line, more of the assistant's message, what is refused.
  const std::vector<std::array<std::string, 3>> of_chat{
      {"", R"(, "tool_calls": [{"id": "1"}])", "messages[1].tool_calls"},
      {"", R"(, "reasoning_content": "well")", "messages[1].reasoning_content"},
      {"", R"(, "reasoning": "well")", "messages[1].reasoning"},
      {"", R"(, "thinking": "well")", "messages[1].thinking"},
      {"", R"(, "name": "Ada")", "messages[1].name"},
      {"", R"(, "function_call": {"name": "f"})", "messages[1].function_call"},
      {"", R"(, "tool_call_id": "1")", "messages[1].tool_call_id"},
      {"", R"(, "refusal": "no")", "messages[1].refusal"},
      {"", R"(, "audio": {"id": "x"})", "messages[1].audio"},
      {"", R"(, "images": ["a.png"])", "messages[1].images"},
      {"", R"(, "channel": "analysis")", "messages[1].channel"},
      {"", R"(, "train": false)", "messages[1].train"},
      {"", R"(, "loss": 0)", "messages[1].loss"},
      {"", R"(, "prefix": true)", "messages[1].prefix"},
      {R"(, "tools": [{"type": "function"}])", "", "tools"},
      {R"(, "functions": [{"name": "f"}])", "", "functions"},
      {R"(, "documents": [{"title": "t"}])", "", "documents"},
      {R"(, "system": "S")", "", "system"},
      {R"(, "chat_template_kwargs": {"enable_thinking": false})", "", "chat_template_kwargs"},
      {R"(, "weight": 0.5)", "", "weight"},
      {R"(, "images": ["a.png"])", "", "images"}};
  for (const auto& [line, message, name] : of_chat) {
    INFO(name);
    CHECK_THAT(fault(chat(line, message)), Catch::Matchers::StartsWith("'" + name + "' is "));
  }
  for (const std::string key : {"tools", "reasoning_content", "history", "labels", "image"}) {
    INFO(key);
    const auto more = ", \"" + key + "\": [1]}";
    CHECK_THAT(fault(completion + more), Catch::Matchers::StartsWith("'" + key + "' is not supported"));
    CHECK_THAT(fault(pair + more, pairs), Catch::Matchers::StartsWith("'" + key + "' is not supported"));
  }
  CHECK(fault(completion + R"(, "label": false})") ==
        "'label' is false, and only true or 1 is supported (set data.labels = true and the objective kto, or give "
        "another meaning another name)");
  CHECK_THAT(fault(R"({"text": "t", "completion_mask": [1]})"), Contains("'completion_mask' is not supported"));
}

TEST_CASE("keys that are null or empty, say what is so anyway, or only describe a line change nothing") {
  const auto plain = shown(sample(chat("", "")));
  CHECK(plain == "<user>q</><assistant>[a</>]");
  CHECK(shown(sample(
            chat(R"(, "tools": null, "functions": [], "system": "", "weight": 1, "prompt": null, "text": null)",
                 R"(, "tool_calls": [], "name": null, "reasoning_content": "", "prefix": false, "weight": null)"))) ==
        plain);
  CHECK(shown(sample(chat(R"(, "source": "web", "parallel_tool_calls": false, "whatever": {"a": 1})",
                          R"(, "timestamp": 7)"))) == plain);
  CHECK(shown(sample(completion + R"(, "label": true, "score": 0.5, "messages": null, "id": null})")) == "p[c.]");
  CHECK(shown(sample(R"({"text": "t", "label": 3, "instruction": "i", "output": "o", "tools": ["x"]})")) == "[t.]");
  CHECK(sample(pair + R"(, "score_chosen": 9, "messages": null, "completion": null})", pairs).others.size() == 1);
  // Without a conversation the template's end ends no answer.
  const Folder folder;
  CHECK(opened(folder, chat("", ""))->answer_end("a</>") == 1);
  CHECK(opened(folder, completion + R"(, "messages" : null})")->answer_end("a</>") == std::string::npos);
  // data.numbers takes whatever it names.
  CHECK(sample(completion + R"(, "weight": 0.5})", {{"numbers", std::vector<std::string>{"weight"}}}).fields.size() ==
        1);
}

TEST_CASE("a file's keys that nothing reads are named in one warning with their first lines") {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl", completion + "}\n\n" + completion + R"(, "topic": 1, "score": 2})" + "\n" + completion +
                                  R"(, "topic": 1, "author": "x"})" + "\n" + chat("", R"(, "mood": "good")") + "\n");
  const auto log = (folder / "log").string();
  log::configure(log, log::Level::error, 0);
  Diagnostics diagnostics;
  data_of(path, turn).check(diagnostics);
  data_of(folder.write("plain.jsonl", completion + R"(, "score": 2})"), turn).check(diagnostics);
  log::configure("", log::Level::warning, 0);
  CHECK(diagnostics.empty());
  std::ifstream in(log);
  std::ostringstream said;
  said << in.rdbuf();
  const auto text = said.str();
  CHECK_THAT(text, Contains(path + ": nothing reads these keys, named with their first lines: 'author' (line 4), "
                                   "'messages[].mood' (line 5), 'topic' (line 3)\n"));
  CHECK_THAT(text, Contains(path + ": 1 row with messages, 3 rows with prompt and completion\n"));
  CHECK_THAT(text, Contains("plain.jsonl: 1 row with prompt and completion\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
}

TEST_CASE("other programs' forms of lines are named with what to write") {
  CHECK_THAT(fault(R"({"conversation": [{"from": "human", "value": "q"}]})"),
             Contains("'conversation' is not supported (set data.columns = [\"conversations = conversation\"])"));
  CHECK_THAT(fault(R"({"question": "q", "answer": "a"})"),
             Contains("set data.columns, such as [\"prompt = question\""));
  CHECK_THAT(fault(R"({"input_ids": [1, 2]})"), Contains("tokens are made here"));
}

TEST_CASE("a message of weight 0 bears no loss, on its own or with data.loss = \"sequence\"") {
  const std::string line = R"({"messages": [{"role": "user", "content": "q", "weight": 0}, )"
                           R"({"role": "assistant", "content": "bad", "weight": 0}, {"role": "user", "content": "r"}, )"
                           R"({"role": "assistant", "content": "good", "weight": 1.0}]})";
  CHECK(shown(sample(line)) == "<user>q</><assistant>bad</><user>r</><assistant>[good</>]");
  CHECK(shown(sample(line, {turn[0], {"loss", std::string("sequence")}})) ==
        "[<user>q</><assistant>]bad</>[<user>r</><assistant>good</>]");
  // What bears no loss is no answer to compare with, either.
  const auto last = sample(R"({"messages": [{"role": "assistant", "content": "a"}, )"
                           R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "b", "weight": 0}]})");
  CHECK(shown(last) == "<assistant>[a</>]<user>q</><assistant>b</>");
  CHECK(last.references.empty());
  CHECK(last.prompt_length == 0);
  const auto both =
      sample(R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": )"
             R"("x", "weight": 0}, {"role": "assistant", "content": "y"}], "rejected": )"
             R"([{"role": "assistant", "content": "z"}]})",
             pairs);
  CHECK(shown(both) == "<user>q</><assistant>x</><assistant>[y</>]");
  CHECK(shown(both.others[0].tokens, both.others[0].is_target) == "<user>q</><assistant>[z</>]");
}

TEST_CASE("weights that are wrong, and conversations of which nothing is learned") {
  for (const std::string weight : {"0.5", "2", "-1", "true", "\"0\""}) {
    INFO(weight);
    CHECK(fault(chat("", ", \"weight\": " + weight)) ==
          "'messages[1].weight' is " + weight + ", and only 0 and 1 are supported (write 0, or 1)");
  }
  CHECK_THAT(fault(chat("", R"(, "weight": 0)")),
             Contains("all messages of the role 'assistant' have weight 0: nothing to learn"));
  CHECK_THAT(fault(R"({"messages": [{"role": "user", "content": "q", "weight": 1}]})"),
             Contains("'messages[0].weight' is 1 in a message of the role 'user'"));
}

TEST_CASE("a content of one part of text is that text, and any other list is refused") {
  const auto with = [](const std::string& content) {
    return R"({"messages": [{"role": "assistant", "content": )" + content + "}]}";
  };
  CHECK(shown(sample(with(R"([{"type": "text", "text": "a", "image_url": null}])"))) == "<assistant>[a</>]");
  CHECK_THAT(fault(with(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])")),
             Contains("'messages[0].content' has 2 parts, not one"));
  CHECK_THAT(fault(with(R"([{"type": "image_url", "image_url": {"url": "x"}}])")),
             Contains("'messages[0].content[0].type' is \"image_url\", and only \"text\" is supported"));
  CHECK_THAT(fault(with("[]")), Contains("has 0 parts"));
  CHECK_THAT(fault(with("[\"a\"]")), Contains("'messages[0].content[0]' is of type string, not an object"));
  CHECK_THAT(fault(with("[{\"type\": \"text\"}]")), Contains("'messages[0].content[0].text' is missing"));
  CHECK_THAT(fault(with("null")), Contains("'messages[0].content' is missing"));
}

TEST_CASE("an id that is a number keeps its digits") {
  const std::vector<std::pair<std::string, std::string>> ids{
      {"1.0", "1.0"},
      {"12345678901234567890", "12345678901234567890"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"1e3", "1e3"},
      {"0.1000", "0.1000"},
      {"-0", "-0"},
      {"\"1.50\"", "1.50"},
      {"null", "line 1"},
      {"true", "true"}};
  for (const auto& [written, id] : ids) {
    INFO(written);
    CHECK(sample(R"({"meta": {"id": 7}, "id" : )" + written + R"(, "text": "\"id\": 5, \\", "score": 3})").id == id);
    CHECK(sample(R"({"text": "t","id":)" + written + "}").id == id);
  }
}

TEST_CASE("each key stands once in its table, and what is refused says what to do") {
  for (const auto& table : JsonlOptions::file_keys()) {
    INFO(table.file);
    std::set<std::string> names;
    for (const auto& key : table.keys) {
      INFO(key.name);
      CHECK(names.insert(key.name).second);
      CHECK_FALSE(key.words.empty());
      CHECK((key.use == config::FileKey::Use::only) == !key.allowed.empty());
    }
  }
}

}  // namespace keys_test
