// docs/data.md begins with a table of what people have and the lines of TOML for it: each line opens what it says.
#include "config/plugin_table.h"
#include "config/toml_reader.h"
#include "setup/options.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstdlib>

#include "support/folder.h"

namespace table_of_docs_test {

using namespace capstan;
using test::Folder;

namespace {

const std::string python_folder = CAPSTAN_SOURCE_DIR "/.deps/venv5";

// The code in the second cells of the first table, `a`, `b` as lines.
std::vector<std::string> cells() {
  std::vector<std::string> found;
  for (const auto& line : split(read_file(CAPSTAN_SOURCE_DIR "/docs/data.md"), '\n')) {
    if (!line.starts_with("| ")) {
      if (!found.empty()) break;
      continue;
    }
    const auto parts = split(line.substr(line.rfind(" | ")), '`');
    std::string toml;
    for (std::size_t i = 1; i < parts.size(); i += 2) toml += parts[i] + "\n";
    if (toml.find('=') != toml.npos) found.push_back(toml);
  }
  return found;
}

// A folder with all that the table's lines name.
void write_files(const Folder& folder) {
  folder.write("train.jsonl", "{\"text\": \"a\"}\n{\"instruction\": \"b\", \"input\": \"c\", \"output\": \"d\"}\n");
  folder.write("eval.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  folder.write("chat.jsonl",
               R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
               "\n");
  folder.write("model/chat_template.jinja",
               "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
               "{% if add_generation_prompt %}<assistant>{% endif %}");
  folder.write("qa.jsonl", "{\"question\": \"a\", \"answer\": \"b\"}\n");
  folder.write("pairs.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n");
  folder.write("answers.jsonl", R"({"prompt": "a", "completion": "b", "label": true})"
                                "\n"
                                R"({"prompt": "c", "completion": "d", "label": false})"
                                "\n");
  folder.write("texts.jsonl", "{\"text\": \"a\"}\n");
  folder.write("squad.json", R"({"data": [{"paragraphs": [{"context": "A b", "qas": [)"
                             R"({"id": "1", "question": "b?", "answers": [{"text": "b", "answer_start": 2}]}]}]}]})");
  const std::string script = R"(
import os, struct, sys
import pyarrow as pa, pyarrow.parquet as pq
os.chdir(sys.argv[1])
snapshot = 'hub/datasets--org--name/snapshots/main/data'
os.makedirs(snapshot)
os.mkdir('folder')
for name in ('train.parquet', 'folder/train-0.parquet', snapshot + '/train-0.parquet', snapshot + '/validation-0.parquet'):
    pq.write_table(pa.table({'text': [name]}), name)
for name in ('corpus.bin', 'tokens.bin'):
    open(name, 'wb').write(struct.pack('<4H', 1, 2, 256, 4))
open('corpus.idx', 'wb').write(b'MMIDIDX\0\0' + struct.pack('<QBQQiqqq', 1, 8, 1, 2, 4, 0, 0, 1))
row = {'id': '1', 'title': 't', 'context': 'A b', 'question': 'b?', 'answers': {'text': ['b'], 'answer_start': [2]}}
pq.write_table(pa.Table.from_pylist([row]), 'squad.parquet')
squad = 'hub/datasets--rajpurkar--squad/snapshots/main/plain_text'
os.makedirs(squad)
for split in ('train', 'validation'):
    pq.write_table(pa.Table.from_pylist([row]), f'{squad}/{split}-0.parquet')
)";
  const auto ended = run_program({.arguments = {python_folder + "/bin/python3", "-c", script, folder.path().string()}});
  INFO(ended.errors);
  REQUIRE(ended.succeeded());
}

// The faults of a table [data] with these lines, and whether its splits can be opened.
std::string said_of(const Folder& folder, const std::string& toml, plugin::Host& host) {
  Diagnostics diagnostics;
  config::Section section;
  section.path = "data";
  std::string name;
  const auto file = (folder / "c.toml").string();
  for (const auto& item : config::parse_toml(toml, file, diagnostics)) {
    if (item.path.back() == "plugin") {
      name = std::get<std::string>(item.value.value());
    } else if (item.path.back() != "packing") {  // core's
      section.entries.push_back({item.path.back(), item.value.value(), {config::Origin::Layer::file, file, 1}});
    }
  }
  (void)config::take(section, config::Options<setup::DataOptions>::schema());  // the core's
  const auto data = std::static_pointer_cast<data::Data>(host.load("data", name).make(section, diagnostics));
  data->check(diagnostics);
  std::string texts;
  for (const auto& one : diagnostics.list()) texts += one.text() + "\n";
  if (!texts.empty()) return texts;
  const auto tokenizer = std::make_shared<tokenizer::ByteTokenizer>();
  const auto source = data->open({data::Split::train, tokenizer, 500, 258, {}, (folder / "model").string()});
  CHECK((source && source->size() > 0));
  return texts;
}

}  // namespace

TEST_CASE("each line of the table in docs/data.md opens what it says") {
  if (!is_file(python_folder + "/bin/python3")) {
    WARN("skipped: no pyarrow here; tools/setup --parity installs it");
    return;
  }
  const Folder folder;
  write_files(folder);
  ::setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  ::setenv("VIRTUAL_ENV", python_folder.c_str(), 1);
  plugin::Host host;
  const auto all = cells();
  CHECK(all.size() >= 9);
  for (const auto& toml : all) {
    INFO(toml);
    CHECK(said_of(folder, toml, host).empty());
  }
  for (const auto* name : {"HF_HUB_CACHE", "XDG_CACHE_HOME", "VIRTUAL_ENV"}) ::unsetenv(name);
}

}  // namespace table_of_docs_test
