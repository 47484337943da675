// Templates, rows and Pythons that are wrong.
#include "chat_template.h"

#include <capstan/base/files.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "plugins/libraries/records/render_file.h"
#include "support/errors.h"

namespace chat_template_faults_test {

using namespace chat_template_cases;
using test::error_of;
using test::Folder;

namespace {

std::string row(const std::string& user) {
  return R"({"messages": [{"role": "user", "content": ")" + user +
         R"("}, {"role": "assistant", "content": "a"}]})"
         "\n";
}

// A program in place of Python, which may run it.
std::string program(const Folder& folder, const std::string& text) {
  auto path = folder.write("python", "#!/bin/sh\n" + text);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

Values with(const std::string& key, config::Value value) {
  auto values = by_model();
  values.emplace_back(key, std::move(value));
  return values;
}

// What is said where the worker may be silent for a second only.
std::string error_of_rendering(const Folder& folder, const std::string& python) {
  jsonl::RenderRequest request;
  request.source.folder = (folder / "model").string();
  request.source.python = python;
  request.source.patience = std::chrono::milliseconds(1500);
  const auto rows = std::make_shared<jsonl::MappedLines>((folder / "a.jsonl").string());
  request.rows = rows;
  request.count = rows->size();
  return error_of([&] { render_file(request, folder / "out.jsonl"); });
}

}  // namespace

TEST_CASE("rows that a template refuses are named, the first ten in one error") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder, "{% if messages[0].content == 'bad' %}{{ raise_exception('roles must alternate') }}{% endif %}" +
                          std::string(chatml));
  folder.write("a.jsonl", row("good") + row("bad") + "\n" + row("bad") + row("good"));
  const auto two = error_of([&] { opened(folder); });
  CHECK_THAT(two, Contains("a.jsonl:2: ") && Contains("also at " + (folder / "a.jsonl:4").string() + "\n") &&
                      Contains("roles must alternate") && Contains("fix: "));
  CHECK(std::filesystem::is_empty(folder / "derived") == false);  // its lock file
  std::string many;
  for (int i = 0; i < 30; ++i) many += row("bad");
  folder.write("a.jsonl", many);
  const auto ten = error_of([&] { opened(folder); });
  CHECK_THAT(ten, Contains("a.jsonl:1: ") && Contains(" and 6 more places\n"));
}

TEST_CASE("a template that is wrong, or that prints without an end") {
  if (!has_jinja()) return;
  const Folder folder;
  folder.write("a.jsonl", row("q"));
  write_model(folder, "a\n{% if %}");
  CHECK_THAT(error_of([&] { opened(folder); }), Contains("chat_template.jinja:2: "));
  write_model(folder,
              "{% if messages[0].content == 'huge' %}{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}{% "
              "endif %}" +
                  std::string(chatml));
  folder.write("a.jsonl", row("huge"));
  CHECK_THAT(error_of([&] { opened(folder); }), Contains("a.jsonl:1: ") && Contains("16 MiB"));
}

TEST_CASE("a template that loops is ended, and the row is named") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(
      folder,
      "{% if messages[0].content == 'loop' %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% "
      "endfor %}{% endif %}" +
          std::string(chatml));
  folder.write("a.jsonl", row("q") + row("q") + row("loop") + row("q"));
  const auto began = std::chrono::steady_clock::now();
  CHECK_THAT(error_of_rendering(folder, python()), Contains("a.jsonl:3: while ") &&
                                                       Contains("gave no sign of life for 1.5 s") &&
                                                       Contains("a loop without an end"));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
}

TEST_CASE("a Python that is not there, has no jinja2, or dies") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", row("q") + row("r"));
  CHECK_THAT(error_of([&] { opened(folder, with("python", std::string("/none/python3"))); }),
             Contains("cannot start /none/python3") && Contains("install python3 and jinja2"));
  const auto bare = program(folder, "exec '" + python() + "' -I -S \"$@\"\n");
  CHECK_THAT(error_of([&] { opened(folder, with("python", bare)); }),
             Contains("has no jinja2") && Contains("pip install"));
  const auto dies = program(folder, "read line\necho '{\"template\": \"T\", \"source\": \"1\"}'\nkill -9 $$\n");
  CHECK_THAT(error_of_rendering(folder, dies), Contains("a.jsonl:1: while T wrote this row, ") && Contains("SIGKILL"));
  const auto silent = program(folder, "exit 0\n");
  CHECK_THAT(error_of_rendering(folder, silent), Contains("rendered by Python, and ") && Contains("exit status 0"));
}

TEST_CASE("who opens a file at the same time waits for one rendering, and gets its faults") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  folder.write("a.jsonl", row("q"));
  const auto counting =
      program(folder, "echo run >> '" + (folder / "runs").string() + "'\nsleep 1\nexec '" + python() + "' \"$@\"\n");
  const auto values = with("python", counting);
  std::vector<std::string> texts(3);
  {
    std::vector<std::jthread> threads;
    for (auto& text : texts) {
      threads.emplace_back([&] {
        const auto error = error_of([&] { text = shown(opened(folder, values)->get(0)); });
        text.insert(0, error);
      });
    }
  }
  CHECK(texts == std::vector<std::string>(3, "^<user>q</>\n<assistant>{a</>}\n"));
  CHECK(read_file(folder / "runs") == "run\n");
}

TEST_CASE("many rows are rendered in parts, in their order") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder);
  std::string lines;
  for (int i = 0; i < 9000; ++i) {
    const auto name = cat("u", i);
    lines += i % 3 == 0 ? cat(R"({"prompt": ")", name, R"(", "completion": "c"})", "\n") : row(name);
  }
  folder.write("a.jsonl", lines);
  const auto source = opened(folder);
  REQUIRE(source->size() == 9000);
  for (std::int64_t i = 0; i < 9000; i += i < 8990 ? 37 : 1) {
    const auto text = shown(source->get(i));
    const auto expected = i % 3 == 0 ? cat("u", i, "{c.}") : cat("^<user>u", i, "</>\n<assistant>{a</>}\n");
    if (text != expected) CHECK(text == expected);
  }
  // One file is left, and its lock.
  const auto entries = entries_of(folder / "derived");
  CHECK(entries.size() == 2);
}

TEST_CASE("options that contradict each other or say nothing") {
  const Folder folder;
  folder.write("a.jsonl", row("q"));
  const auto only = [&](const Values& values) {
    const auto texts = faults(folder, values);
    REQUIRE(!texts.empty());
    return texts.front();
  };
  CHECK_THAT(only(with("turn", std::string("{content}"))),
             Contains("data.turn is set, and the model's own template too"));
  CHECK_THAT(only(with("user_turn", std::string("{content}"))), Contains("data.user_turn is set"));
  CHECK_THAT(only(with("template_variables", std::vector<std::string>{"enable_thinking"})),
             Contains("which is not \"NAME = VALUE\""));
  CHECK_THAT(only(with("template_variables", std::vector<std::string>{"a = low"})), Contains("\"a = low\""));
  CHECK_THAT(only(with("template_date", std::string("26.7.2024"))), Contains("which is no date"));
  CHECK_THAT(only({{"chat_template_file", (folder / "none.jinja").string()}}), Contains("there is no "));
  CHECK_THAT(only({{"turn", std::string("{content}")}, {"template_date", std::string("2024-07-26")}}),
             Contains("data.template_date is set, and no template reads it"));
  CHECK_THAT(only({}), Contains("messages need a template") && Contains("data.chat_template = \"model\""));
  CHECK_THAT(error_of([&] {
               jsonl::JsonlData(options(folder, by_model()))
                   .open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 100, 258});
             }),
             Contains("a.toml:2: the tokenizer was opened from no folder"));
}

TEST_CASE("columns of a row that no template could take") {
  const Folder folder;
  const auto fault = [&](const std::string& more) {
    folder.write("a.jsonl", R"({"messages": [{"role": "assistant", "content": "a"}], )" + more + "}\n");
    const auto texts = faults(folder, by_model());
    return texts.empty() ? std::string() : texts.front();
  };
  CHECK_THAT(fault(R"("tools": "f")"), Contains("a.jsonl:1: 'tools' is a text, and no JSON"));
  CHECK_THAT(fault(R"("tools": {"a": 1})"), Contains("'tools' is of type object, not a list"));
  CHECK_THAT(fault(R"("chat_template_kwargs": [1])"),
             Contains("'chat_template_kwargs' is of type array, not an object"));
  CHECK_THAT(fault(R"("functions": [1])"), Contains("'functions' is not supported"));
  CHECK(fault(R"("tools": [], "chat_template_kwargs": {}, "documents": null)").empty());
}

TEST_CASE("what the template would not take is named before it is asked") {
  if (!has_jinja()) return;
  const Folder folder;
  write_model(folder, "{% if loud %}!{% endif %}" + std::string(chatml));
  folder.write("a.jsonl", row("q"));
  const auto opened_with = [&](const std::string& variable) {
    return error_of([&] { opened(folder, with("template_variables", std::vector<std::string>{variable})); });
  };
  CHECK(opened_with("loud = true").empty());
  CHECK(opened_with(R"(bos_token = "")").empty());
  CHECK_THAT(opened_with("lout = true"),
             Contains("has \"lout = true\"") && Contains("reads no such variable") && Contains("loud"));
  CHECK_THAT(error_of([&] { opened(folder, with("template_date", std::string("2026-13-01"))); }),
             Contains("the template's date 2026-13-01 is no day"));
  // An automatic length is asked for before check() is.
  const jsonl::JsonlData broken(options(folder, with("template_variables", std::vector<std::string>{"loud = True"})));
  CHECK_THAT(error_of([&] {
               broken.lengths({data::Split::train,
                               std::make_shared<tokenizer::ByteTokenizer>(),
                               100,
                               258,
                               {},
                               (folder / "model").string()});
             }),
             Contains("which is not \"NAME = VALUE\""));
  folder.write("a.jsonl", R"({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]})");
  CHECK_THAT(faults(folder, by_model()).front(), Contains("a.jsonl:1: ") && Contains("'messages[0].content[0].text'"));
}

}  // namespace chat_template_faults_test
