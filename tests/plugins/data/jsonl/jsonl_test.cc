#include "plugins/data/jsonl/jsonl.h"

#include "data/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"

using namespace capstan;
using namespace jsonl;
using Catch::Matchers::Contains;
using test::error_of;
using test::Folder;

namespace {

using Values = std::vector<std::pair<std::string, config::Value>>;

const std::string chatml = "<{role}>{content}</>";

config::Options<JsonlOptions> options(const Values& values) {
  config::Section section;
  section.path = "data";
  section.origin = {config::Origin::Layer::file, "a.toml", 1};
  int line = 1;
  for (const auto& [key, value] : values)
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", ++line}});
  Diagnostics diagnostics;
  config::Options<JsonlOptions> made(section, diagnostics);
  diagnostics.throw_if_any();
  return made;
}

std::vector<std::string> faults(const Values& values) {
  Diagnostics diagnostics;
  JsonlData(options(values)).check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

std::shared_ptr<data::DataSource> opened(const Values& values, std::int64_t max_length = 100,
                                         data::Split split = data::Split::train) {
  return JsonlData(options(values)).open({split, std::make_shared<data::ByteTokenizer>(), max_length, 258});
}

// The sample's text, with what bears loss in brackets and the end token as '.'.
std::string shown(const data::Sample& sample) {
  const data::ByteTokenizer tokenizer;
  REQUIRE(sample.tokens.size() == sample.is_target.size());
  std::string text;
  bool inside = false;
  for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
    if (sample.is_target[t] != inside) text += inside ? "]" : "[";
    inside = sample.is_target[t];
    text += tokenizer.is_end(sample.tokens[t]) ? "." : std::string(1, static_cast<char>(sample.tokens[t]));
  }
  return text + (inside ? "]" : "");
}

// The one fault of a file with this line behind a good one, without "FILE:2: ".
std::string fault_of(const std::string& line, const Values& more = {}) {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n" + line + "\n");
  Values values{{"train", path}};
  values.insert(values.end(), more.begin(), more.end());
  const auto texts = faults(values);
  REQUIRE(texts.size() == 1);
  REQUIRE(texts[0].rfind(path + ":2: ", 0) == 0);
  // What get() of that line says is the same.
  CHECK(error_of([&] { opened(values)->get(1); }) == texts[0]);
  return texts[0].substr(path.size() + 4);
}

}  // namespace

TEST_CASE("prompt and completion: the completion and the end token bear loss") {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n\n"
                                 "{\"completion\": \"\\u00e9\", \"prompt\": \"\", \"id\": \"x\"}\r\n"
                                 "{\"prompt\": \"p\", \"completion\": \"c\", \"id\": 17}");
  CHECK(faults({{"train", path}}).empty());
  const auto source = opened({{"train", path}});
  REQUIRE(source->size() == 3);
  const auto first = source->get(0);
  CHECK(shown(first) == "2+2=[4.]");
  CHECK(first.prompt_length == 4);
  CHECK(first.id == "1");
  CHECK(first.references == std::vector<std::string>{"4"});
  CHECK(shown(source->get(1)) == "[\u00e9.]");
  CHECK(source->get(1).id == "x");
  CHECK(source->get(2).id == "17");
  CHECK(shown(opened({{"train", path}, {"loss", "sequence"}})->get(0)) == "[2+2=4.]");
  CHECK(source->score(first, " 4\n") == monitor::Values{{"exact_match", 100.0}});
  CHECK(source->score(first, "5") == monitor::Values{{"exact_match", 0.0}});
}

TEST_CASE("messages: every turn of the assistant bears loss, with what ends it") {
  const Folder folder;
  const auto path = folder.write(
      "a.jsonl", R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q"}, )"
                 R"({"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, )"
                 R"({"role": "assistant", "content": "bc"}]})"
                 "\n"
                 R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "q"}]})"
                 "\n");
  const Values values{{"train", path}, {"turn", chatml}};
  CHECK(faults(values).empty());
  const auto source = opened(values);
  const auto sample = source->get(0);
  CHECK(shown(sample) == "<system>S</><user>q</><assistant>[a</>]<user>r</><assistant>[bc</>]");
  const auto prompt = std::string("<system>S</><user>q</><assistant>a</><user>r</><assistant>");
  CHECK(sample.prompt_length == static_cast<std::int64_t>(prompt.size()));
  CHECK(sample.references == std::vector<std::string>{"bc"});
  // Where the user has the last word nothing is asked, and so nothing scored.
  CHECK(shown(source->get(1)) == "<assistant>[a</>]<user>q</>");
  CHECK(source->get(1).prompt_length == 0);
  CHECK(source->score(source->get(1), "a").empty());
  // Turns of their own, as Llama 2 has them.
  auto own = values;
  own.pop_back();
  own.insert(own.end(), {{"system_turn", "{content} | "},
                         {"user_turn", "[INST] {content} [/INST]"},
                         {"assistant_turn", " {content} </s>"}});
  CHECK(shown(opened(own)->get(1)) == " [a </s>][INST] q [/INST]");
}

TEST_CASE("text: all of it bears loss, and nothing is asked") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"text\": \"ab\"}\n");
  const auto sample = opened({{"eval", path}}, 100, data::Split::eval)->get(0);
  CHECK(shown(sample) == "[ab.]");
  CHECK(sample.prompt_length == 0);
  CHECK(sample.references.empty());
  CHECK(opened({{"eval", path}}) == nullptr);
}

TEST_CASE("a line that is too long is an error, or is cut where it hurts least") {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"prompt\": \"0123456789\", \"completion\": \"ab\"}\n{\"text\": \"0123456789\"}\n"
                                 "{\"prompt\": \"0\", \"completion\": \"0123456789\"}\n");
  const Values values{{"train", path}};
  CHECK(error_of([&] { opened(values, 8)->get(0); }) ==
        path +
            ":1: the line has 13 tokens, max_length is 8\n    fix: raise data.max_length, take the line out, or set "
            "data.too_long = \"cut\"");
  auto cut = values;
  cut.emplace_back("too_long", "cut");
  const auto sample = opened(cut, 8)->get(0);
  CHECK(shown(sample) == "56789[ab.]");
  CHECK(sample.prompt_length == 5);
  CHECK(shown(opened(cut, 8)->get(1)) == "[01234567]");
  CHECK(
      error_of([&] { opened(cut, 8)->get(2); }) ==
      path +
          ":3: the last answer alone has 11 tokens, max_length is 8\n    fix: raise data.max_length to 11 or more, or "
          "take the line out");
}

TEST_CASE("lines that are wrong are named with what is wrong and what a line may be") {
  const std::string forms =
      "\n    fix: a line is {\"prompt\": …, \"completion\": …}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or "
      "{\"text\": …}";
  CHECK(fault_of("{\"prompt\": \"a\"") ==
        "broken JSON at column 14 of 14\n    fix: write one JSON object a line; line breaks inside of texts are \\n");
  CHECK(fault_of("[1]") == "the line is of type array, not an object" + forms);
  CHECK(fault_of("{\"question\": \"a\"}") == "none of the keys is known" + forms);
  CHECK(fault_of("{\"text\": \"a\", \"prompt\": \"b\", \"completion\": \"c\"}") ==
        "the line is of several kinds at once" + forms);
  CHECK(fault_of("{\"prompt\": \"a\"}") == "'completion' is missing" + forms);
  CHECK(fault_of("{\"prompt\": 1, \"completion\": \"c\"}") == "'prompt' is of type number, not a text" + forms);
  CHECK(fault_of("{\"prompt\": \"a\", \"completion\": \"\"}") ==
        "'completion' is empty\n    fix: give it a text, or take the line out");
  CHECK(fault_of("{\"text\": \"\"}") == "'text' is empty\n    fix: take the line out");
}

TEST_CASE("conversations that are wrong") {
  const Values turn{{"turn", chatml}};
  const auto user = R"({"messages": [{"role": "user", "content": "a"}]})";
  CHECK_THAT(fault_of(user), Contains("'messages' need a template, and the configuration has none\n    fix: set "
                                      "data.turn, such as"));
  CHECK_THAT(fault_of(user, turn), Contains("hold no message of the role 'assistant': nothing to learn\n    fix: add "
                                            "the answer, or take the line out"));
  CHECK_THAT(fault_of(R"({"messages": []})", turn), Contains("'messages' is not a list of messages"));
  CHECK_THAT(fault_of(R"({"messages": ["a"]})", turn), Contains("'messages[0]' is of type string, not an object"));
  CHECK_THAT(fault_of(R"({"messages": [{"content": "a"}]})", turn), Contains("'messages[0].role' is missing"));
  CHECK_THAT(fault_of(R"({"messages": [{"role": "user", "content": null}]})", turn),
             Contains("'messages[0].content' is of type null, not a text"));
  const Values assistant{{"assistant_turn", "{content}"}};
  CHECK(fault_of(user, assistant) ==
        "there is no template for the role 'user'\n    fix: set data.user_turn, or data.turn for every role");
  CHECK(fault_of(R"({"messages": [{"role": "tool", "content": "a"}]})", assistant) ==
        "there is no template for the role 'tool'\n    fix: set data.turn, which is for every role");
}

TEST_CASE("options and files that are wrong") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"text\": \"a\"}\n");
  const auto empty = folder.write("empty.jsonl", "\n \n");
  CHECK(faults({}) == std::vector<std::string>{"a.toml:1: neither data.train nor data.eval names a file\n    fix: set "
                                               "data.train to a file of JSON lines"});
  CHECK(faults({{"train", "/none.jsonl"}}) ==
        std::vector<std::string>{
            "a.toml:2: data.train: there is no file /none.jsonl\n    fix: name a file of JSON lines"});
  CHECK(faults({{"eval", empty}}) ==
        std::vector<std::string>{"a.toml:2: data.eval: " + empty + " holds no lines\n    fix: name a file with lines"});
  CHECK(faults({{"train", path}, {"train_samples", std::int64_t{2}}}) ==
        std::vector<std::string>{"a.toml:3: data.train_samples is 2, " + path +
                                 " holds 1 lines\n    fix: use 1 or less, or leave data.train_samples out for all of "
                                 "them"});
  CHECK(faults({{"train", path}, {"eval_samples", std::int64_t{1}}}) ==
        std::vector<std::string>{
            "a.toml:3: data.eval_samples is set, but data.eval names no file\n    fix: set data.eval"});
  CHECK(faults({{"train", path}, {"turn", "{role}"}, {"user_turn", "a"}}) ==
        std::vector<std::string>{"a.toml:3: data.turn is \"{role}\", which has no place for a message's text\n    fix: "
                                 "write {content} where it stands",
                                 "a.toml:4: data.user_turn is \"a\", which has no place for a message's text\n    fix: "
                                 "write {content} where it stands"});
  std::string many;
  for (int i = 0; i < 30; ++i) many += "{}\n";
  CHECK(faults({{"train", folder.write("many.jsonl", many)}}).size() == 10);  // enough to see what is wrong
}

TEST_CASE("only the first lines are read where that is asked for") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
  CHECK(opened({{"train", path}, {"train_samples", std::int64_t{2}}})->size() == 2);
  CHECK(JsonlData(options({{"train", path}, {"max_length", std::int64_t{7}}})).max_length() == 7);
}
