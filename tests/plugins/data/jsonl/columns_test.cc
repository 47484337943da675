// Forms and names of columns that other programs' files have.
#include "plugins/libraries/records/jsonl_data.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"
#include "support/options.h"

namespace columns_test {

using namespace capstan;
using namespace jsonl;
using test::Folder;
using Values = testing::OptionValues;

namespace {

const Values turn{{"turn", std::string("<{role}>{content}</>")}};

JsonlData data_of(const Folder& folder, const std::string& lines, const Values& more) {
  Values values{{"train", folder.write("a.jsonl", lines + "\n")}};
  values.insert(values.end(), more.begin(), more.end());
  return JsonlData(testing::options_of<JsonlOptions>("data", values));
}

std::string faults(const std::string& lines, const Values& more) {
  const Folder folder;
  Diagnostics diagnostics;
  data_of(folder, lines, more).check(diagnostics);
  std::string all;
  for (const auto& one : diagnostics.list()) all += one.text() + "\n";
  return all;
}

// A sample's text, with what bears loss in brackets.
std::string sample(const std::string& line, const Values& more) {
  const Folder folder;
  const auto source =
      data_of(folder, line, more).open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 500, 258});
  const auto one = source->get(0);
  std::string text;
  bool is_inside = false;
  for (std::size_t i = 0; i < one.tokens.size(); ++i) {
    if (one.is_target[i] != is_inside) text += is_inside ? "]" : "[";
    is_inside = one.is_target[i];
    text += one.tokens[i] < 256 ? std::string(1, static_cast<char>(one.tokens[i])) : std::string("$");
  }
  return text + (is_inside ? "]" : "");
}

Values columns(std::vector<std::string> texts, Values more = {}) {
  more.emplace_back("columns", std::move(texts));
  return more;
}

}  // namespace

TEST_CASE("ShareGPT's conversations are messages with other names") {
  CHECK(
      sample(
          R"({"conversations":[{"from":"system","value":"S"},{"from":"human","value":"Hi"},{"from":"gpt","value":"Yo"}]})",
          turn) == "<system>S</><user>Hi</><assistant>[Yo</>]");
  CHECK(sample(R"({"conversations":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}]})", turn) ==
        "<user>Hi</><assistant>[Yo</>]");
  CHECK(sample(R"({"conversations":[{"from":"user","value":"Hi"},{"from":"assistant","value":"Yo","weight":0},)"
               R"({"from":"gpt","value":"No"}]})",
               turn) == "<user>Hi</><assistant>Yo</><assistant>[No</>]");
  CHECK_THAT(faults(R"({"conversations":[{"from":"human","value":"Hi"},{"from":"tool","value":"4"}]})", turn),
             Contains("'conversations[1].from' is 'tool', which is none of human, user, gpt, assistant and system"));
  CHECK_THAT(faults(R"({"conversations":[{"from":"human","role":"user","value":"Hi"}]})", turn),
             Contains("'conversations[0]' has both 'from' and 'role'"));
}

TEST_CASE("Alpaca's columns are a prompt and its answer, or two messages where there is a template") {
  const std::string whole = R"({"instruction":"Add","input":"2+2","output":"4"})";
  CHECK(sample(whole, {}) == "Add\n\n2+2\n\n[4$]");
  CHECK(sample(whole, turn) == "<user>Add\n\n2+2</><assistant>[4</>]");
  CHECK(sample(R"({"instruction":"Add","input":"","output":"4"})", {}) == "Add\n\n[4$]");
  CHECK(sample(R"({"instruction":"Add","input":null,"output":"4"})", turn) == "<user>Add</><assistant>[4</>]");
  CHECK(sample(R"({"instruction":"Add","output":"4","text":"all of it"})", {}) == "[all of it$]");
  CHECK_THAT(faults(R"({"instruction":"Add","output":""})", {}), Contains("'output' is empty"));
  CHECK_THAT(faults(R"({"instruction":"Add"})", {}), Contains("'output' is missing"));
}

TEST_CASE("an answer to an instruction ends where the template ends the assistant's turn") {
  const Folder folder;
  const auto source = data_of(folder, R"({"instruction":"Add","output":"4"})", turn)
                          .open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 500, 258});
  CHECK(source->answer_end("four</>") == 4);
}

TEST_CASE("data.columns says which columns are read") {
  const std::string line = R"({"question":"2+2=","answer":"4","prompt":"another"})";
  const auto both = columns({"prompt = question", "completion=answer"});
  CHECK(sample(line, both) == "2+2=[4$]");
  CHECK(faults(line, both).empty());
  CHECK(sample(R"({"chat":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Yo"}]})",
               columns({"messages = chat"}, turn)) == "<user>Hi</><assistant>[Yo</>]");
  CHECK_THAT(faults(R"({"question":"2+2="})", both), Contains("no row of") && Contains("reads 'answer' as completion"));
  CHECK_THAT(faults(R"({"question":"2+2=","answer":4})", both), Contains("'answer' is of type number, not a text"));
  CHECK_THAT(faults(line, {}), Contains("'completion' is missing"));
}

TEST_CASE("what is no mapping of a column is refused") {
  const auto fault = [](const std::string& text) {
    return test::error_of([&] {
      Diagnostics diagnostics;
      const Columns made({"id = key", text}, "data.columns", "a.toml:3", diagnostics);
      diagnostics.throw_if_any();
    });
  };
  CHECK_THAT(fault("question"), Contains("data.columns has \"question\", which is not \"KEY = COLUMN\""));
  CHECK_THAT(fault("promt = question"), Contains("no form has the key 'promt'") && Contains("did you mean 'prompt'?"));
  CHECK_THAT(fault("id = other"), Contains("its key or its column is said before"));
}

TEST_CASE("two forms in one line are refused, and so are lists of unequal length") {
  CHECK_THAT(faults(R"({"prompt":"a","completion":"b","instruction":"c","output":"d"})", {}),
             Contains("the line is of several kinds at once"));
  CHECK(sample(R"({"messages":{"role":["user","assistant"],"content":["Hi","Yo"]}})", turn) ==
        "<user>Hi</><assistant>[Yo</>]");
  CHECK_THAT(faults(R"({"messages":{"role":["user","assistant"],"content":["Hi"]}})", turn),
             Contains("'messages.content' has 1 item, and 'messages.role' 2"));
}

}  // namespace columns_test
