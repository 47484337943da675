#include "plugins/libraries/records/jsonl_data.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include <algorithm>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

using namespace capstan;
using namespace jsonl;
using test::error_of;
using test::Folder;

namespace {

using Values = testing::OptionValues;

const std::string chatml = "<{role}>{content}</>";

config::Options<JsonlOptions> options(const Values& values) {
  return testing::options_of<JsonlOptions>("data", values);
}

std::vector<std::string> faults(const Values& values) {
  Diagnostics diagnostics;
  JsonlData(options(values)).check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

// Bytes, but "[end]" is a special token, and "ab" and ":a" are one token each.
class PiecesTokenizer final : public tokenizer::Tokenizer {
 public:
  explicit PiecesTokenizer(bool begins = false) : begins_(begins) {}
  std::string name() const override { return "pieces"; }
  std::int64_t vocab_size() const override { return 400; }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> ids;
    while (!text.empty()) {
      const auto found =
          std::find_if(pieces.begin(), pieces.end(), [&](const auto& piece) { return text.starts_with(piece.first); });
      ids.push_back(found != pieces.end() ? found->second : static_cast<unsigned char>(text.front()));
      text.remove_prefix(found != pieces.end() ? found->first.size() : 1);
    }
    return ids;
  }
  std::string decode(const std::vector<std::int64_t>& ids) const override {
    std::string text;
    for (const auto id : ids) {
      if (id < 256) text += static_cast<char>(id);
      for (const auto& [piece, its] : pieces) text += id == its && its != special ? piece : "";
    }
    return text;
  }
  std::vector<std::int64_t> prefix_ids() const override {
    return begins_ ? std::vector<std::int64_t>{303} : std::vector<std::int64_t>{};
  }
  std::int64_t end_id() const override { return -1; }
  std::int64_t pad_id() const override { return -1; }

  static constexpr std::int64_t special = 300;

 private:
  const std::vector<std::pair<std::string, std::int64_t>> pieces{{"[end]", special}, {"ab", 301}, {":a", 302}};
  bool begins_;
};

std::shared_ptr<data::DataSource> opened(
    const Values& values, std::int64_t max_length = 100, data::Split split = data::Split::train,
    const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer = std::make_shared<tokenizer::ByteTokenizer>()) {
  return JsonlData(options(values)).open({split, tokenizer, max_length, 258});
}

std::shared_ptr<data::DataSource> opened_in_pieces(const Values& values, bool begins = false) {
  return opened(values, 100, data::Split::train, std::make_shared<PiecesTokenizer>(begins));
}

// The sample's text, with what bears loss in brackets and the end token as '.'.
std::string shown(const data::Sample& sample) {
  const tokenizer::ByteTokenizer tokenizer;
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

// The one fault of a file with this line after a good one, without "FILE:2: ".
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

TEST_CASE("a line without an id gets one that is no other line's number") {
  const Folder folder;
  const auto path = folder.write(
      "a.jsonl", "{\"text\": \"a\", \"id\": \"3\"}\n\n{\"text\": \"b\"}\n{\"text\": \"c\", \"id\": null}\n");
  const auto source = opened({{"train", path}});
  CHECK(source->get(0).id + ", " + source->get(1).id + ", " + source->get(2).id == "3, line 3, line 4");
}

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
  CHECK(first.id == "line 1");
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
  // All of them, before any is read.
  const auto refused = error_of([&] { opened(values, 8); });
  CHECK_THAT(
      refused,
      Contains(path + ":1: the line has 13 tokens, max_length is 8\n    fix: raise data.max_length, take the line "
                      "out, or set data.too_long = \"cut\"") &&
          Contains(path + ":2: the line has 11 tokens") && Contains(path + ":3: the line has 12 tokens"));
  auto cut = values;
  cut.emplace_back("too_long", "cut");
  CHECK(error_of([&] { opened(cut, 8); }) == path +
                                                 ":3: the last answer by itself has 11 tokens, max_length is 8\n    "
                                                 "fix: raise data.max_length to 11 or more, or "
                                                 "take the line out");
  cut.emplace_back("train_samples", std::int64_t{2});
  const auto sample = opened(cut, 8)->get(0);
  CHECK(shown(sample) == "56789[ab.]");
  CHECK(sample.prompt_length == 5);
  CHECK(shown(opened(cut, 8)->get(1)) == "[01234567]");
}

TEST_CASE("the first ten of many lines that are too long are named, with templates' tokens counted") {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 13; ++i) {
    lines += R"({"messages": [{"role": "assistant", "content": "a"}]})"
             "\n";
  }
  const auto path = folder.write("a.jsonl", lines);
  const auto refused = error_of([&] { opened({{"train", path}, {"turn", std::string(90, 't') + "{content}"}}, 80); });
  CHECK_THAT(refused, Contains(path + ":1: the line has 91 tokens") && Contains(path + ":10: ") &&
                          Contains("(and 3 more such lines)") && !Contains(path + ":11: "));
}

TEST_CASE("an answer ends where the template ends the assistant's turn") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", R"({"messages": [{"role": "user", "content": "q"}, )"
                                            R"({"role": "assistant", "content": "a"}]})"
                                            "\n");
  const auto end_of = [&](const std::string& turn, const std::string& text) {
    const auto source = opened({{"train", path}, {"turn", turn}});
    CHECK(source->end_ids().empty());
    return source->answer_end(text);
  };
  const auto none = std::string::npos;
  const std::string chat = "<|im_start|>{role}\n{content}<|im_end|>\n";
  CHECK(end_of(chat, "So<|im_end|>\nYo") == 2);
  CHECK(end_of(chat, "So<|im_end|>") == 2);  // the white space after it need not have come
  CHECK(end_of(chat, "So\nYo<|im_end") == none);
  CHECK(end_of("{role}: {content} </{role}>", "user </user> </assistant>") == 13);
  // Only white space: a line break is an end, a space is in many answers.
  CHECK(end_of("{role}: {content}\n", "So\nuser: ") == 2);
  CHECK(end_of("{role}: {content}\n\n", "a\nb\n\nuser: ") == 3);
  CHECK(end_of("{role}: {content} ", "So long") == none);
  CHECK(end_of("{role}: {content}", "So\n") == none);
  // The assistant's own template counts.
  const auto own = opened({{"train", path}, {"turn", "{content}|"}, {"assistant_turn", "{content}#"}});
  CHECK(own->answer_end("a|b#") == 3);
}

TEST_CASE("a special token that ends the assistant's turn ends an answer, though it has no text") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", R"({"text": "t"})"
                                            "\n"
                                            R"({"messages": [{"role": "assistant", "content": "a"}]})"
                                            "\n");
  const std::vector<std::int64_t> special{PiecesTokenizer::special};
  const auto source = opened_in_pieces({{"train", path}, {"turn", "{content}\n[end]\n"}});
  CHECK(source->end_ids() == special);
  CHECK(source->answer_end("anything at all\n") == std::string::npos);
  // Text before it comes first.
  const auto both = opened_in_pieces({{"train", path}, {"turn", "{content} ## [end]"}});
  CHECK(both->end_ids() == special);
  CHECK(both->answer_end("a ##") == 2);
}

TEST_CASE("only in a file with conversations does a template end answers") {
  const Folder folder;
  const auto path =
      folder.write("a.jsonl", "{\"prompt\": \"\\\"messages\\\"\", \"completion\": \"one\\ntwo\"}\n{\"text\": \"b\"}\n");
  const auto source = opened_in_pieces({{"train", path}, {"turn", "{content}\n"}});
  CHECK(source->answer_end("one\ntwo") == std::string::npos);
  CHECK(opened_in_pieces({{"train", path}, {"turn", "{content}[end]"}})->end_ids().empty());
}

TEST_CASE("what is asked is a sample's prompt") {
  const Folder folder;
  const auto path = folder.write("a.jsonl", "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n{\"text\": \"a\"}\n");
  const auto source = opened({{"train", path}}, 8);
  const auto question = source->question(0, 1);  // nothing is to be cut, whatever room there is
  CHECK(shown(question) == "2+2=");
  CHECK(question.prompt_length == 4);
  CHECK(question.id == "line 1");
  CHECK(question.references == std::vector<std::string>{"4"});
  CHECK(source->question(1, 8).prompt_length == 0);
}

TEST_CASE("a prompt that is cut does not show how long the answer is") {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"prompt\": \"0123456789\", \"completion\": \"a\"}\n"
                                 "{\"prompt\": \"0123456789\", \"completion\": \"abcde\"}\n"
                                 "{\"prompt\": \"0123\", \"completion\": \"abcd\"}\n");
  const Values values{{"train", path}, {"too_long", "cut"}};
  const auto source = opened(values, 8);
  CHECK(shown(source->question(0, 6)) == "456789");
  CHECK(shown(source->question(1, 6)) == "456789");
  CHECK(shown(source->question(0, 20)) == "23456789");  // max_length
  CHECK(shown(source->question(2, 6)) == "0123");
  CHECK(
      error_of([&] { source->question(1, 0); }) ==
      path +
          ":2: besides an answer there is room for 0 tokens: none of a prompt\n    fix: lower train.max_new_tokens, or "
          "raise data.max_length");
}

TEST_CASE("a prompt that its answer would swallow is tokenised apart") {
  const Folder folder;
  const auto path = folder.write("a.jsonl",
                                 "{\"prompt\": \"a\", \"completion\": \"bc\"}\n"
                                 "{\"prompt\": \"q:\", \"completion\": \"a\"}\n"
                                 "{\"prompt\": \"\", \"completion\": \"ab\"}\n");
  for (const bool begins : {false, true}) {
    INFO(begins);
    const auto source = opened_in_pieces({{"train", path}}, begins);
    const std::int64_t more = begins ? 1 : 0;
    std::vector<std::int64_t> expected{'a', 'b', 'c'};
    if (begins) expected.insert(expected.begin(), 303);
    const auto apart = source->get(0);
    CHECK(apart.tokens == expected);
    CHECK(apart.prompt_length == 1 + more);
    CHECK(std::count(apart.is_target.begin(), apart.is_target.end(), true) == 2);
    CHECK(source->question(0, 100).prompt_length == 1 + more);
    // Where something of it is left, all is one text.
    CHECK(source->get(1).tokens.back() == 302);
    CHECK(source->get(1).prompt_length == 1 + more);
    CHECK(source->get(2).prompt_length == more);
    CHECK(source->get(2).references == std::vector<std::string>{"ab"});
  }
}

TEST_CASE("lines that are wrong are named with what is wrong and what a line may be") {
  const std::string forms =
      R"(
    fix: a line is {"prompt": …, "completion": …}, {"messages": [{"role": …, "content": …}, …]}, {"text": …}, )"
      R"({"conversations": [{"from": …, "value": …}, …]} or {"instruction": …, "output": …}; data.columns names other columns)";
  CHECK(fault_of(R"({"prompt": "a")") == R"(broken JSON: it ends before its JSON does, at column 15
    fix: write one JSON object a line, in UTF-8; line breaks inside of texts are \n)");
  CHECK(fault_of("[1]") == "the line is of type array, not an object" + forms);
  CHECK(fault_of("{\"topic\": \"a\"}") == "none of the keys is known" + forms);
  CHECK(fault_of(R"({"text":"a","prompt":"b","completion":"c"})") ==
        "the line is of several kinds at once: text, and prompt and completion" + forms);
  CHECK(fault_of("{\"prompt\": \"a\"}") == "'completion' is missing" + forms);
  CHECK(fault_of("{\"prompt\": 1, \"completion\": \"c\"}") == "'prompt' is of type number, not a text" + forms);
  CHECK(fault_of("{\"prompt\": \"a\", \"completion\": \"\"}") ==
        "'completion' is empty\n    fix: give it a text, or take the line out");
  CHECK(fault_of("{\"text\": \"\"}") == "'text' is empty\n    fix: take the line out");
}

TEST_CASE("conversations that are wrong") {
  const Values turn{{"turn", chatml}};
  const auto user = R"({"messages": [{"role": "user", "content": "a"}]})";
  CHECK_THAT(fault_of(user), Contains("messages need a template, and the configuration has none\n    fix: set "
                                      "data.chat_template = \"model\" for the model's own, or data.turn, such as"));
  CHECK_THAT(fault_of(user, turn), Contains("hold no message of the role 'assistant': nothing to learn\n    fix: add "
                                            "the answer, or take the line out"));
  CHECK_THAT(fault_of(R"({"messages": []})", turn), Contains("'messages' is not a list of messages"));
  CHECK_THAT(fault_of(R"({"messages": ["a"]})", turn), Contains("'messages[0]' is of type string, not an object"));
  CHECK_THAT(fault_of(R"({"messages": [{"content": "a"}]})", turn), Contains("'messages[0].role' is missing"));
  CHECK_THAT(fault_of(R"({"messages": [{"role": "user", "content": null}]})", turn),
             Contains("'messages[0].content' is missing"));
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
                                 " holds 1 line\n    fix: use 1 or less, or leave data.train_samples out for all of "
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
