// Conversations by the model's own chat template.
#include "chat_template.h"

#include <capstan/base/files.h>
#include <capstan/base/log.h>

#include "support/errors.h"

namespace chat_template_test {

using namespace chat_template_cases;
using test::error_of;
using test::Folder;

namespace {

// A tokenizer that puts a begin token before texts and has "</>" as a special token.
class Marked final : public tokenizer::Tokenizer {
 public:
  explicit Marked(bool ends = true) : ends_(ends) {}
  std::string name() const override { return "marked"; }
  std::int64_t vocab_size() const override { return 400; }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> ids;
    while (!text.empty()) {
      const bool is_end = text.starts_with("</>");
      ids.push_back(is_end ? end : static_cast<unsigned char>(text.front()));
      text.remove_prefix(is_end ? 3 : 1);
    }
    return ids;
  }
  std::string decode(const std::vector<std::int64_t>& ids) const override {
    std::string text;
    for (const auto id : ids) text += id < 256 ? std::string(1, static_cast<char>(id)) : "";
    return text;
  }
  std::vector<std::int64_t> prefix_ids() const override { return {'^'}; }
  std::int64_t end_id() const override { return ends_ ? end : -1; }
  std::int64_t pad_id() const override { return -1; }

  static constexpr std::int64_t end = 300;

 private:
  bool ends_;
};

constexpr const char* two_turns =
    R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, )"
    R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "bc"}]})"
    "\n";

std::string logged(const Folder& folder, const Values& values, const std::shared_ptr<const tokenizer::Tokenizer>& by) {
  const auto log = (folder / cat("log", values.size())).string();
  log::configure(log, log::Level::error, 0);
  opened(folder, values, 1000, by);
  log::configure("", log::Level::warning, 0);
  return read_file(log);
}

}  // namespace

TEST_CASE("the assistant's turns bear loss from the generation prompt to what ends them") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", std::string(two_turns) + "{\"prompt\": \"p\", \"completion\": \"c\"}\n");
  CHECK(faults(folder, by_model()).empty());
  const auto source = opened(folder);
  REQUIRE(source->size() == 2);
  const auto sample = source->get(0);
  CHECK(shown(sample) == "^<user>q</>\n<assistant>{a</>}\n<user>r</>\n<assistant>{bc</>}\n");
  CHECK(sample.prompt_length ==
        static_cast<std::int64_t>(std::string("^<user>q</>\n<assistant>a</>\n<user>r</>\n<assistant>").size()));
  CHECK(sample.references == std::vector<std::string>{"bc"});
  const auto question = source->question(0, 900);
  CHECK(shown(question) == "^<user>q</>\n<assistant>{a</>}\n<user>r</>\n<assistant>");
  CHECK(source->answer_end("bc</>\n") == 2);
  CHECK(shown(source->get(1)) == "p{c.}");  // no conversation
  auto all = by_model();
  all.emplace_back("loss", std::string("sequence"));
  CHECK(shown(opened(folder, all)->get(0)).starts_with("{^<user>q"));
}

TEST_CASE("the begin token stands once, and no end token is added") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", two_turns);
  const auto source = opened(folder, by_model(), 1000, std::make_shared<Marked>());
  CHECK(shown(source->get(0)) == "^<user>q.\n<assistant>{a.}\n<user>r.\n<assistant>{bc.}\n");
  CHECK(source->end_ids() == std::vector<std::int64_t>{Marked::end});
  // Where a sample is cut it stays.
  auto cut = by_model();
  cut.emplace_back("too_long", std::string("cut"));
  CHECK(shown(opened(folder, cut, 30, std::make_shared<Marked>())->get(0)) == "^t>{a.}\n<user>r.\n<assistant>{bc.}\n");
  folder.write("user.jsonl", R"({"messages": [{"role": "user", "content": "0123456789"}, )"
                             R"({"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}]})"
                             "\n");
  cut.emplace_back("train", (folder / "user.jsonl").string());
  const auto unasked = opened(folder, cut, 30, std::make_shared<Marked>())->get(0);
  CHECK(shown(unasked) == "^6789.\n<assistant>{a.}\n<user>r.\n");
  CHECK(unasked.prompt_length == 0);
  CHECK_THAT(error_of([&] { opened(folder, by_model(), 30, std::make_shared<Marked>()); }),
             Contains("a.jsonl:1: the line has 48 tokens, max_length is 30"));
}

TEST_CASE("a message of weight 0 bears no loss") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}, )"
                          R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})"
                          "\n");
  CHECK(shown(opened(folder)->get(0)) == "^<assistant>a</>\n<user>q</>\n<assistant>{b</>}\n");
  auto all = by_model();
  all.emplace_back("loss", std::string("sequence"));
  CHECK_THAT(faults(folder, all).at(0), Contains("a.jsonl:1: a message has weight 0, and data.loss is \"sequence\""));
}

TEST_CASE("tools, calls, their results and reasoning are the template's to write") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  const std::string called =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": )"
      R"([{"id": "1", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}]}, )"
      R"({"role": "tool", "content": "42", "tool_call_id": "1"}, )"
      R"({"role": "assistant", "reasoning_content": "warm", "content": "It is 42"}], "tools": TOOLS})";
  const auto row = [&](const std::string& arguments, const std::string& tools) {
    auto text = called;
    text.replace(text.find("ARGUMENTS"), 9, arguments);
    return text.replace(text.find("TOOLS"), 5, tools) + "\n";
  };
  const std::string tools = R"([{"type": "function", "function": {"name": "f", "strict": null}}])";
  folder.write("a.jsonl", row(R"({"city": "Rome"})", tools) +
                              row(R"("{\"city\": \"Rome\"}")",
                                  R"("[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]")"));
  CHECK(faults(folder, by_model()).empty());
  const auto source = opened(folder);
  const auto* const expected =
      R"(^[tools [{"type": "function", "function": {"name": "f"}}]]<user>Hi</>
<assistant>{[call f {"city": "Rome"}]</>}
<tool>42</>
<assistant>{(think warm)It is 42</>}
)";
  CHECK(shown(source->get(0)) == expected);
  CHECK(shown(source->get(1)) == expected);
  // Without a template they are refused by name.
  CHECK_THAT(faults(folder, {{"turn", std::string("<{role}>{content}</>")}}).at(0),
             Contains("'tools' is not supported") && Contains("set data.chat_template = \"model\""));
}

TEST_CASE("ShareGPT's, Alpaca's and lists of prompt and completion are conversations too") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})"
                          "\n"
                          R"({"instruction": "i", "input": "j", "output": "o"})"
                          "\n"
                          R"({"prompt": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "q"}], )"
                          R"("completion": [{"role": "assistant", "content": "a"}]})"
                          "\n");
  CHECK(faults(folder, by_model()).empty());
  const auto source = opened(folder);
  CHECK(shown(source->get(0)) == "^<user>q</>\n<assistant>{a</>}\n");
  CHECK(shown(source->get(1)) == "^<user>i\n\nj</>\n<assistant>{o</>}\n");
  CHECK(shown(source->get(2)) == "^<assistant>x</>\n<user>q</>\n<assistant>{a</>}\n");
  CHECK(source->get(2).references == std::vector<std::string>{"a"});
}

TEST_CASE("a pair's two conversations are rendered, and only answers after the prompt bear loss") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write(
      "a.jsonl",
      R"({"prompt": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "q"}], )"
      R"("chosen": [{"role": "assistant", "content": "yes"}], "rejected": [{"role": "assistant", "content": "no"}]})"
      "\n"
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "yes"}], )"
      R"("rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "no"}]})"
      "\n");
  auto pairs = by_model();
  pairs.emplace_back("pairs", true);
  CHECK(faults(folder, pairs).empty());
  const auto source = opened(folder, pairs);
  const auto first = source->get(0);
  CHECK(shown(first) == "^<assistant>x</>\n<user>q</>\n<assistant>{yes</>}\n");
  CHECK(shown(first.others.at(0).tokens, first.others.at(0).is_target) ==
        "^<assistant>x</>\n<user>q</>\n<assistant>{no</>}\n");
  const auto second = source->get(1);
  CHECK(shown(second) == "^<user>q</>\n<assistant>{yes</>}\n");
  CHECK(shown(second.others.at(0).tokens, second.others.at(0).is_target) == "^<user>q</>\n<assistant>{no</>}\n");
}

TEST_CASE("variables come from the options and a row's own column, and the date from the options") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder,
              "{{ effort }} {{ count + 1 }} {{ strftime_now('%d %b %Y') }}\n{% for m in messages %}<{{ m.role }}>{{ "
              "m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  const std::string turn = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])";
  folder.write("a.jsonl", turn + "}\n" + turn + R"(, "chat_template_kwargs": {"effort": "high"}})" + "\n");
  auto values = by_model();
  values.emplace_back("template_variables", std::vector<std::string>{"effort = \"low\"", "count = 3"});
  values.emplace_back("template_date", std::string("2024-07-26"));
  const auto source = opened(folder, values);
  CHECK(shown(source->get(0)) == "low 4 26 Jul 2024\n<user>q</><assistant>{a</>}");
  CHECK(shown(source->get(1)) == "high 4 26 Jul 2024\n<user>q</><assistant>{a</>}");
  CHECK_THAT(source->content(), Contains("chat template ") && Contains(", date 2024-07-26"));
  // Today's, which is recorded, as another day's samples are others.
  values.pop_back();
  const auto today = opened(folder, values);
  CHECK_THAT(today->content(), Contains(", date 20") && !Contains("2024-07-26"));
}

TEST_CASE("what samples depend on is the template's bytes, not its name") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", two_turns);
  const auto first = opened(folder)->content();
  CHECK(!first.empty());
  CHECK(first.find("date") == std::string::npos);
  write_model(folder, "!" + std::string(chatml));
  const auto changed = opened(folder);
  CHECK(changed->content() != first);
  CHECK(shown(changed->get(0)).starts_with("!^"));
  // One of several.
  folder.write("model/additional_chat_templates/short.jinja", "#" + std::string(chatml));
  auto named = by_model();
  named.emplace_back("template_name", std::string("short"));
  CHECK(shown(opened(folder, named)->get(0)).starts_with("#^"));
  // A file or a folder in place of the tokenizer's.
  folder.write("other/chat_template.jinja", chatml);
  folder.write("own.jinja", chatml);
  CHECK(
      shown(opened(folder, {{"chat_template_file", (folder / "own.jinja").string()}})->get(0)).starts_with("^<user>"));
  CHECK(shown(opened(folder, {{"chat_template_file", (folder / "other").string()}})->get(0)).starts_with("<user>"));
  CHECK(opened(folder, {{"turn", std::string("<{role}>{content}</>")}})->content().empty());
}

TEST_CASE("a warning counts what a template drops, and one says that generation does not end where a turn does") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  const std::string row =
      R"({"messages": [{"role": "user", "name": "Ann", "content": "q"}, {"role": "assistant", "content": "a"}]})";
  folder.write("a.jsonl", std::string(two_turns) + row + "\n" + row + "\n");
  const auto text = logged(folder, by_model(), std::make_shared<Marked>(false));
  CHECK_THAT(text,
             Contains("a.jsonl: ") && Contains("chat_template.jinja does not write messages[].name in 2 rows (the "
                                               "first: line 2)"));
  CHECK_THAT(text, Contains("ends the assistant's turn with '</>', which is no token at which generation ends"));
  folder.write("a.jsonl", two_turns);
  auto more = by_model();
  more.emplace_back("train_samples", std::int64_t{1});
  const auto quiet = logged(folder, more, std::make_shared<Marked>());
  CHECK_THAT(quiet, !Contains("does not write") && !Contains("generation ends"));
}

TEST_CASE("only as many rows are rendered as are used, and later runs find them") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder,
              "{% if messages[0].content == 'bad' %}{{ raise_exception('no') }}{% endif %}" + std::string(chatml));
  folder.write("a.jsonl", std::string(two_turns) + R"({"messages": [{"role": "user", "content": "bad"}, )"
                                                   R"({"role": "assistant", "content": "a"}]})"
                                                   "\n");
  auto first = by_model();
  first.emplace_back("train_samples", std::int64_t{1});
  CHECK(opened(folder, first)->size() == 1);
  CHECK_THAT(error_of([&] { opened(folder); }), Contains("a.jsonl:2: ") && Contains("no"));
  // No Python is needed a second time.
  first.emplace_back("python", std::string("/none"));
  CHECK(shown(opened(folder, first)->get(0)).starts_with("^<user>q"));
}

}  // namespace chat_template_test
