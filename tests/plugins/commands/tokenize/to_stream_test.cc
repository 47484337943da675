// Files of text as Megatron's .bin and .idx, read again by a few lines of numpy that follow the format's description.
#include "plugins/commands/tokenize/to_stream.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/command.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "streams/token_file.h"
#include "support/folder.h"
#include "support/tokenizer_files.h"

namespace to_stream_test {

using namespace capstan;
using test::Folder;
using Ids = std::vector<std::int64_t>;

namespace {

// Runs the command without a process of its own; its exit code.
int run(const std::vector<std::string>& arguments) {
  static plugin::Host host;
  Diagnostics faults;
  const auto made = host.load("command", "tokenize").make({}, faults);
  const auto environment = [](const std::string&) { return std::optional<std::string>(); };
  return std::static_pointer_cast<command::Command>(made)->run({"tokenize", "", arguments, environment, host});
}

int to_stream(const std::string& tokenizer, const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> arguments{tokenizer, "--to", "stream", "--out", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments);
}

std::vector<Ids> documents_of(const std::string& out) {
  const auto file = streams::TokenFile::megatron(out);
  std::vector<Ids> documents;
  for (std::int64_t i = 0; i < file.index()->documents(); ++i) {
    const auto begin = file.index()->begin(i);
    file.read(begin, file.index()->begin(i + 1) - begin, documents.emplace_back());
  }
  return documents;
}

// 3 MB of lines, so that several threads have several batches each.
std::string many_lines() {
  std::string lines;
  for (int i = 0; i < 30'000; ++i)
    lines += R"({"text": "ab a b)" + std::string(static_cast<std::size_t>(i % 170), 'a') + "\"}\n";
  return lines;
}

}  // namespace

TEST_CASE("documents are written with what the tokenizer puts before a text and its end token") {
  const Folder folder;
  folder.write("model/tokenizer.json", sentencepiece_file().dump());
  folder.write("model/tokenizer_config.json", R"({"eos_token": "</s>"})");
  const auto model = (folder / "model").string();
  const auto file =
      folder.write("a.jsonl", "{\"text\": \"ab\\u00e9\"}\n\n{\"text\": \" \"}\n{\"text\": \"a\", \"more\": 1}");
  CHECK(to_stream(model, (folder / "with").string(), {file}) == 0);
  CHECK(documents_of((folder / "with").string()) == std::vector<Ids>{{1, 9, 3, 4, 2}, {1, 5, 6, 2}});
  CHECK(to_stream(model, (folder / "bare.bin").string(), {file, "--no-begin", "--no-end"}) == 0);
  CHECK(documents_of((folder / "bare").string()) == std::vector<Ids>{{9, 3, 4}, {5, 6}});
  const auto plain = folder.write("b.txt", "ab|a||");
  CHECK(to_stream(model, (folder / "both").string(), {file, plain, "--separator", "|", "--no-begin", "--no-end"}) == 0);
  CHECK(documents_of((folder / "both").string()) == std::vector<Ids>{{9, 3, 4}, {5, 6}, {9}, {5, 6}});
  folder.write("c.toml", "[model]\nplugin = \"llama\"\npath = \"model\"\n");
  CHECK(to_stream((folder / "c.toml").string(), (folder / "by_configuration").string(), {file}) == 0);
  CHECK(read_file(folder / "by_configuration.bin") == read_file(folder / "with.bin"));
}

TEST_CASE("any number of threads writes the same, in the texts' order, and numpy reads it") {
  const Folder folder;
  const auto file = folder.write("a.jsonl", many_lines());
  for (const std::string threads : {"1", "2", "7"}) {
    CHECK(to_stream("byte", (folder / threads).string(), {file, "--threads", threads}) == 0);
    CHECK(read_file(folder / (threads + ".bin")) == read_file(folder / "1.bin"));
    CHECK(read_file(folder / (threads + ".idx")) == read_file(folder / "1.idx"));
  }
  const std::string script = R"(
import json, sys
import numpy as np
prefix, texts, end = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(prefix + '.idx', 'rb') as index:
    assert index.read(9) == b'MMIDIDX\x00\x00'
    assert int(np.frombuffer(index.read(8), '<u8')[0]) == 1
    dtype = {1: 'u1', 2: 'i1', 3: '<i2', 4: '<i4', 5: '<i8', 8: '<u2'}[index.read(1)[0]]
    sequences, documents = map(int, np.frombuffer(index.read(16), '<u8'))
    lengths = np.frombuffer(index.read(4 * sequences), '<i4')
    pointers = np.frombuffer(index.read(8 * sequences), '<i8')
    indices = np.frombuffer(index.read(8 * documents), '<i8')
    assert index.read() == b'' and dtype == '<u2'
tokens = np.memmap(prefix + '.bin', dtype, 'r')
assert list(indices) == list(range(sequences + 1))
assert lengths.sum() == len(tokens)
lines = [json.loads(line)['text'] for line in open(texts)]
assert len(lines) == sequences
for text, pointer, length in zip(lines, pointers, lengths):
    first = pointer // 2
    assert list(tokens[first:first + length]) == list(text.encode()) + [end]
)";
  const std::string pinned = CAPSTAN_SOURCE_DIR "/.deps/venv5/bin/python3";
  const auto python = is_file(pinned) ? pinned : std::string("python3");
  if (!run_program({.arguments = {python, "-c", "import numpy"}}).succeeded()) {
    WARN("skipped: no numpy here; tools/setup --parity installs it");
    return;
  }
  const auto end = std::to_string(open_tokenizer("byte")->end_id());
  const auto ended = run_program({.arguments = {python, "-c", script, (folder / "7").string(), file, end}});
  INFO(ended.errors);
  CHECK(ended.succeeded());
}

TEST_CASE("what goes wrong is said once, and leaves no file") {
  const Folder folder;
  const auto file = folder.write("a.jsonl", many_lines() + "{\"text\": 1}\n" + many_lines());
  const auto out = (folder / "out").string();
  CHECK_THROWS_WITH(to_stream("byte", out, {file}), Contains(file + ":30001: there is no text under 'text'"));
  CHECK_THROWS_WITH(to_stream("byte", out, {file, "--text", "content"}),
                    Contains(":1: there is no text under 'content'"));
  CHECK_THROWS_WITH(to_stream("byte", out, {folder.write("b.jsonl", "\n")}), Contains("there is no text"));
  CHECK_THROWS_WITH(to_stream("byte", out, {(folder / "none.jsonl").string()}), Contains("none.jsonl"));
  CHECK_THROWS_WITH(to_stream("byte", out, {}), Contains("--to stream needs files"));
  folder.write("model/tokenizer.json", byte_level_file().dump());
  const auto text = folder.write("c.jsonl", "{\"text\": \"ab\"}\n");
  CHECK_THROWS_WITH(to_stream((folder / "model").string(), out, {text}), Contains("has no end token"));
  for (const auto& entry : entries_of(folder.path())) CHECK(entry.stem() != "out");
  CHECK(to_stream("byte", out, {text}) == 0);
  CHECK_THROWS_WITH(to_stream("byte", out, {text}), Contains("out.bin: it is there already"));
  CHECK(is_file(out + ".idx"));
  CHECK(entries_of(folder.path()).size() == 6);
}

}  // namespace to_stream_test
