// Tables of every kind as samples, and what is said of broken ones. Python writes the files; without pyarrow it is
// skipped.
#include "plugins/data/parquet/parquet.h"
#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "support/folder.h"
#include "support/options.h"

namespace parquet_test {

using namespace capstan;
using Catch::Matchers::StartsWith;
using parquet::ParquetData;
using parquet::ParquetOptions;
using test::Folder;
using Values = testing::OptionValues;

namespace {

// The parity tests' Python, whose pyarrow tools/setup --parity installs, else the one of PATH.
std::string python() {
  const std::string pinned = CAPSTAN_SOURCE_DIR "/.deps/venv5/bin/python3";
  return is_file(pinned) ? pinned : "python3";
}

// Says so where it is not: then a case has nothing to read.
bool has_pyarrow() {
  static const auto found = run_program({.arguments = {python(), "-c", "import pyarrow.parquet, yaml"}});
  if (!found.succeeded()) WARN("skipped: no pyarrow here; tools/setup --parity installs it");
  return found.succeeded();
}

// Runs Python in a folder, with pyarrow as pa and parquet as pq.
void write_by_python(const Folder& folder, const std::string& script) {
  const auto ended =
      run_program({.arguments = {python(), "-c",
                                 cat("import os\nos.chdir('", folder.path().string(), "')\n",
                                     "import pyarrow as pa, pyarrow.parquet as pq, json, gzip, datetime\n", script)}});
  INFO(ended.errors);
  REQUIRE(ended.succeeded());
}

ParquetData data_of(const Folder& folder, Values values) {
  values.emplace_back("derived", (folder / "derived").string());
  if (values.front().first != "python") values.emplace_back("python", python());
  return ParquetData(testing::options_of<ParquetOptions>("data", values));
}

ParquetData train_on(const Folder& folder, const std::string& file, Values more = {}) {
  more.emplace_back("train", (folder / file).string());
  return data_of(folder, std::move(more));
}

std::vector<std::string> faults(const ParquetData& data) {
  Diagnostics diagnostics;
  data.check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

std::string only_fault(const ParquetData& data) {
  const auto texts = faults(data);
  REQUIRE(texts.size() == 1);
  return texts[0];
}

std::vector<std::string> texts_of(const ParquetData& data, data::Split split = data::Split::train) {
  const auto source = data.open({split, std::make_shared<tokenizer::ByteTokenizer>(), 500, 258});
  REQUIRE(source);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    std::string text;
    for (const auto id : source->get(i).tokens) {
      if (id < 256) text += static_cast<char>(id);
    }
    texts.push_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("rows of Parquet are samples, row group after row group, in any order") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(
      folder,
      "t = pa.table({'prompt': ['a%d=' % i for i in range(3000)], 'completion': [str(i) for i in range(3000)]})\n"
      "pq.write_table(t, 'a.parquet', row_group_size=700)\n");
  const auto data = train_on(folder, "a.parquet");
  CHECK(faults(data).empty());
  const auto texts = texts_of(data);
  REQUIRE(texts.size() == 3000);
  CHECK(texts[0] == "a0=0");
  CHECK(texts[2999] == "a2999=2999");
  CHECK(texts[700] == "a700=700");
}

TEST_CASE("a folder, an Arrow file, a stream and compressed texts give the same rows") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder, R"(
rows = [{'text': 'one'}, {'text': 'two'}, {'text': 'thr\u00e9e'}]
t = pa.Table.from_pylist(rows)
os.mkdir('d')
pq.write_table(t.slice(0, 2), 'd/train-00000-of-00002.parquet')
pq.write_table(t.slice(2), 'd/train-00001-of-00002.parquet')
with pa.OSFile('a.arrow', 'wb') as f, pa.ipc.new_file(f, t.schema) as w: w.write_table(t)
with pa.OSFile('s.arrow', 'wb') as f, pa.ipc.new_stream(f, t.schema) as w: w.write_table(t)
text = ''.join(json.dumps(r) + '\n' for r in rows).encode()
gzip.open('a.jsonl.gz', 'wb').write(text)
with pa.CompressedOutputStream('a.jsonl.zst', 'zstd') as f: f.write(text)
open('a.json', 'w').write(json.dumps(rows))
open('a.csv', 'w').write('text\none\n"two"\nthr\u00e9e\n')
)");
  for (const auto* file : {"d", "a.arrow", "s.arrow", "a.jsonl.gz", "a.jsonl.zst", "a.json", "a.csv"}) {
    INFO(file);
    CHECK(texts_of(train_on(folder, file)) == Texts{"one", "two", "thr\u00e9e"});
  }
}

TEST_CASE("types that tables have become what JSON has") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder, R"(
message = pa.struct([('role', pa.large_string()), ('content', pa.string()), ('tool_calls', pa.list_(pa.string()))])
t = pa.table({
  'messages': pa.array([[{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Yo'}]] * 2, pa.large_list(message)),
  'text': pa.array([None, None], pa.string()),
  'id': pa.array(['x', 'y']).dictionary_encode(),
  'when': pa.array([datetime.datetime(2026, 1, 2), None]),
  'score': pa.array([1.5, float('nan')]),
})
pq.write_table(t, 'a.parquet')
)");
  const auto data = train_on(folder, "a.parquet", {{"turn", std::string("<{role}>{content}")}});
  CHECK(faults(data).empty());
  CHECK(texts_of(data) == Texts(2, "<user>Hi<assistant>Yo"));
  const auto lines = entries_of(folder / "derived");
  for (const auto& entry : lines) {
    if (entry.extension() != ".jsonl") continue;
    const auto text = read_file(entry);
    CHECK_THAT(text, Contains(R"("id":"x","when":"2026-01-02T00:00:00","score":1.5})"));
    CHECK_THAT(text, Contains(R"("id":"y"})"));
    CHECK_THAT(text, !Contains("tool_calls"));
  }
}

TEST_CASE("decoded rows are found again, and made again when the table changes") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder, "pq.write_table(pa.table({'text': ['old']}), 'a.parquet')");
  CHECK(texts_of(train_on(folder, "a.parquet")) == Texts{"old"});
  const auto made = entries_of(folder / "derived").size();
  CHECK(texts_of(train_on(folder, "a.parquet")) == Texts{"old"});
  CHECK(entries_of(folder / "derived").size() == made);
  write_by_python(folder, "pq.write_table(pa.table({'text': ['new']}), 'a.parquet')");
  CHECK(texts_of(train_on(folder, "a.parquet")) == Texts{"new"});
}

TEST_CASE("what is wrong in a row is said with its file and its row there") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder,
                  "os.mkdir('d')\n"
                  "pq.write_table(pa.table({'text': ['a', 'b']}), 'd/train-0.parquet')\n"
                  "pq.write_table(pa.table({'text': ['', 'c', '']}), 'd/train-1.parquet')\n");
  const auto texts = faults(train_on(folder, "d"));
  REQUIRE(texts.size() == 2);
  const auto second = (folder / "d/train-1.parquet").string();
  CHECK_THAT(texts[0], StartsWith(second + " row 1: 'text' is empty"));
  CHECK_THAT(texts[1], StartsWith(second + " row 3: 'text' is empty"));
  write_by_python(folder, "pq.write_table(pa.table({'text': [1, 2]}), 'n.parquet')");
  CHECK_THAT(faults(train_on(folder, "n.parquet")).front(),
             StartsWith((folder / "n.parquet").string() + " row 1: 'text' is of type number, not a text"));
}

TEST_CASE("a column that is no text is named, and may be left out") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder,
                  "pq.write_table(pa.table({'text': ['a'], 'image': pa.array([{'bytes': b'x'}])}), 'a.parquet')");
  CHECK_THAT(only_fault(train_on(folder, "a.parquet")),
             StartsWith((folder / "a.parquet").string() + ": the column 'image.bytes' is of type binary") &&
                 Contains("set data.leave_out = [\"image\"]"));
  CHECK(texts_of(train_on(folder, "a.parquet", {{"leave_out", std::vector<std::string>{"image"}}})) == Texts{"a"});
}

TEST_CASE("a damaged file is one fault with its name") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(
      folder,
      "pq.write_table(pa.table({'text': ['a' * 1000] * 1000}), 'a.parquet', compression='none', use_dictionary=False)\n"
      "b = bytearray(open('a.parquet', 'rb').read())\n"
      "open('cut.parquet', 'wb').write(b[:500])\n"
      "open('text.parquet', 'wb').write(b'no table at all')\n"
      "open('bad.jsonl.gz', 'wb').write(b'no gzip')\n"
      "m = len(b) // 2\n"
      "b[m:m + 8] = b'\\xff' * 8\nopen('utf8.parquet', 'wb').write(b)\n");
  for (const auto* file : {"cut.parquet", "text.parquet"}) {
    CHECK_THAT(only_fault(train_on(folder, file)),
               StartsWith((folder / file).string() + ": it is no Parquet file that can be read: ") &&
                   Contains("fetch it again"));
  }
  CHECK_THAT(only_fault(train_on(folder, "bad.jsonl.gz")), Contains("it is no gzip file that can be read"));
  CHECK_THAT(only_fault(train_on(folder, "utf8.parquet")),
             StartsWith((folder / "utf8.parquet").string()) && Contains("'text'"));
}

TEST_CASE("files that are not there, and folders of several splits, are faults of the option") {
  if (!has_pyarrow()) return;
  const Folder folder;
  CHECK_THAT(only_fault(train_on(folder, "none.parquet")),
             StartsWith("a.toml:") && Contains("data.train: there is no file"));
  write_by_python(folder,
                  "os.mkdir('d')\nos.mkdir('e')\n"
                  "for s in ('train', 'test'): pq.write_table(pa.table({'text': [s]}), f'd/{s}-0.parquet')\n");
  CHECK_THAT(only_fault(train_on(folder, "d")), Contains("holds files of several splits") && Contains("data.dataset"));
  CHECK_THAT(only_fault(train_on(folder, "e")), Contains("holds no table"));
}

TEST_CASE("a dataset in the hub's cache is found by its name, with the splits of its README") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder, R"(
root = 'hub/datasets--org--name'
os.makedirs(root + '/refs'); os.makedirs(root + '/snapshots/abc/plain/sub')
open(root + '/refs/main', 'w').write('abc')
os.chdir(root + '/snapshots/abc')
for s in ('one', 'two', 'three'): pq.write_table(pa.table({'text': [s]}), f'plain/part-{s}.parquet')
open('README.md', 'w').write('''---
configs:
- config_name: plain
  data_files:
  - split: train
    path: [plain/part-one.parquet, "plain/part-thr*"]
  - split: validation
    path: plain/part-two*
---
# text
''')
)");
  ::setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  const auto of = [&](const std::string& name, const std::string& split, Values more = {}) {
    more.insert(more.end(), {{"dataset", name}, {"train_split", split}});
    return data_of(folder, std::move(more));
  };
  const auto content = [](const ParquetData& data) {
    return data.open({data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 500, 258})->content();
  };
  CHECK(texts_of(of("org/name@abc", "validation", {{"config", std::string("plain")}})) == Texts{"two"});
  CHECK(texts_of(of((folder / "hub/datasets--org--name/snapshots/abc").string(), "train")) == Texts{"one", "three"});
  CHECK(content(of("org/name@abc", "train")).empty());  // the options say it
  CHECK(texts_of(of("org/name", "train")) == Texts{"one", "three"});
  CHECK(content(of("org/name", "train")) == "commit abc of org/name");
  CHECK_THAT(only_fault(of("org/name", "test")),
             Contains("there are no files of the split 'test'; splits with files here: train, validation"));
  CHECK_THAT(only_fault(of("org/name", "train", {{"config", std::string("fancy")}})),
             Contains("there is no configuration 'fancy': there are plain"));
  CHECK_THAT(only_fault(of("org/other", "train")), Contains("hf download --repo-type dataset org/other"));
  CHECK_THAT(only_fault(of("org/name@v2", "train")),
             Contains("hf download --repo-type dataset org/name --revision v2"));
  ::unsetenv("HF_HUB_CACHE");
}

TEST_CASE("a table's conversations are written by the model's own template") {
  if (!has_pyarrow()) return;
  const Folder folder;
  write_by_python(folder, R"(
calls = [{'type': 'function', 'function': {'name': 'f', 'arguments': '{"a": 1}'}}]
rows = [{'messages': [{'role': 'user', 'content': 'q', 'tool_calls': None},
                      {'role': 'assistant', 'content': 'a', 'tool_calls': calls}], 'tools': '[{"name": "f"}]'}]
pq.write_table(pa.Table.from_pylist(rows), 'a.parquet')
)");
  folder.write(
      "model/chat_template.jinja",
      "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if 'tool_calls' in m %}{% for c in "
      "m.tool_calls %}[{{ c.function.name }}]{% endfor %}{% endif %}</>{% endfor %}{% if add_generation_prompt "
      "%}<assistant>{% endif %}");
  const Values values{{"chat_template", std::string("model")}};
  const auto data = train_on(folder, "a.parquet", values);
  CHECK(faults(data).empty());
  const auto source = data.open(
      {data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 500, 258, {}, (folder / "model").string()});
  const auto sample = source->get(0);
  CHECK(std::string(sample.tokens.begin(), sample.tokens.end()) == R"([{"name": "f"}]<user>q</><assistant>a[f]</>)");
  CHECK(std::count(sample.is_target.begin(), sample.is_target.end(), true) == 7);
}

TEST_CASE("options that contradict each other are refused") {
  const Folder folder;
  folder.write("a.csv", "text\na\n");
  CHECK_THAT(faults(train_on(folder, "a.csv", {{"dataset", std::string("squad")}})).front(),
             Contains("data.dataset is set, and a file too"));
  CHECK_THAT(faults(train_on(folder, "a.csv", {{"eval_split", std::string("test")}})).front(),
             Contains("data.eval_split is set, and data.dataset is not"));
}

TEST_CASE("a Python that is not there, has no pyarrow, dies or hangs is one fault within seconds") {
  const Folder folder;
  folder.write("a.parquet", "PAR1");
  const auto with = [&](const std::string& text) {
    const auto program = folder.write("python", "#!/bin/sh\n" + text + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return only_fault(data_of(folder, {{"python", program}, {"train", (folder / "a.parquet").string()}}));
  };
  CHECK_THAT(
      only_fault(data_of(folder, {{"python", (folder / "none").string()}, {"train", (folder / "a.parquet").string()}})),
      Contains("it is read by Python: cannot start") && Contains("data.python"));
  CHECK_THAT(with("exec python3 -S -c \"import sys; sys.modules['pyarrow'] = None; exec(sys.argv[1])\" \"$2\""),
             Contains("has no pyarrow that can be used") && Contains("-m pip install pyarrow"));
  CHECK_THAT(with("echo dying >&2; kill -KILL $$"), StartsWith((folder / "a.parquet").string()) &&
                                                        Contains("was ended by signal 9") &&
                                                        Contains("it said: dying"));
  CHECK_THAT(with("echo '{}'; exit 1"), Contains("ended with exit status 1"));
  CHECK_THAT(with("yes | head -c 100000000"), Contains("ended with exit status 0"));
  const tables::Python hangs{(folder / "python").string(), std::chrono::milliseconds(300)};
  folder.write("python", "#!/bin/sh\nsleep 100\n");
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(tables::ask_python(hangs, "", Json::object(), "a.parquet"),
                    Contains("gave no sign of life for 0.3 s and was ended"));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
}

}  // namespace parquet_test
