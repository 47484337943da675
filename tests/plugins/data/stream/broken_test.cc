// What is said of damaged files and of options that cannot be meant.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "stream_files.h"

namespace broken_test {

using namespace capstan;
using namespace stream_files;
using streams::TokenType;
using test::Folder;

namespace {

std::vector<std::string> faults(const stream::StreamData& data) {
  Diagnostics diagnostics;
  data.check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

std::string only_fault(const stream::StreamData& data) {
  const auto texts = faults(data);
  REQUIRE(texts.size() == 1);
  return texts[0];
}

// The pair with some bytes of its index replaced.
std::string with_index(const Folder& folder, std::size_t at, const std::string& bytes) {
  auto path = write_pair(folder, {{1, 2, 3}, {4, 5}});
  auto index = read_file(path + ".idx");
  index.replace(at, bytes.size(), bytes);
  write_file(path + ".idx", index);
  return path;
}

std::string number(std::int64_t value, TokenType type) { return bytes_of({value}, type); }

}  // namespace

TEST_CASE("an index that is cut off anywhere is refused, and so is a longer one") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}, {4, 5}});
  const auto index = read_file(path + ".idx");
  REQUIRE(faults(data_of(folder, path)).empty());
  for (std::size_t size = 0; size < index.size(); ++size) {
    INFO(size);
    write_file(path + ".idx", index.substr(0, size));
    const auto fault = only_fault(data_of(folder, path));
    CHECK_THAT(fault, Catch::Matchers::StartsWith(path + ".idx: "));
    CHECK_THAT(fault, Contains("it is cut off at byte " + std::to_string(size)));
    CHECK_THAT(fault, Contains("write both files again"));
  }
  write_file(path + ".idx", index + "abc");
  CHECK_THAT(only_fault(data_of(folder, path)), Contains("it has 3 bytes more than its head promises"));
  write_file(path + ".idx", index + "ab");  // a mode for each sequence, as multimodal files have
  CHECK(faults(data_of(folder, path)).empty());
}

TEST_CASE("an index that says something else is named with the byte") {
  const Folder folder;
  const auto said = [&](std::size_t at, const std::string& bytes) {
    return only_fault(data_of(folder, with_index(folder, at, bytes)));
  };
  CHECK_THAT(said(0, "TNTIDX"), Contains("an index of fairseq's older format"));
  CHECK_THAT(said(0, "x"), Contains("it is no index of Megatron's, which begins with MMIDIDX"));
  CHECK_THAT(said(9, number(2, TokenType::int64)), Contains("byte 9 says version 2"));
  CHECK_THAT(said(17, "\x07"), Contains("byte 17 says that tokens are of type 7, floating point numbers"));
  CHECK_THAT(said(17, "\x09"), Contains("type 9, and the types are 1 to 8"));
  CHECK_THAT(said(18, number(1 << 30, TokenType::int64)), Contains("promises 1073741824 sequences"));
  CHECK_THAT(said(18, number(-1, TokenType::int64)), Contains("it is cut off"));
  CHECK_THAT(said(34, number(-3, TokenType::int32)), Contains("byte 34: sequence 0 has the length -3"));
  CHECK_THAT(said(50, number(4, TokenType::int64)),
             Contains("byte 50: sequence 1 begins at byte 4 of the tokens, and those before it end at byte 6"));
  CHECK_THAT(said(58, number(1, TokenType::int64)), Contains("byte 58: document 0 begins at sequence 1 of 2"));
  CHECK_THAT(said(66, number(9, TokenType::int64)), Contains("byte 66: document 1 begins at sequence 9 of 2"));
  CHECK_THAT(said(74, number(1, TokenType::int64)), Contains("byte 74: its documents end at sequence 1 of 2"));
}

TEST_CASE("tokens that are cut off, missing or without their index are named") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}, {4, 5}});
  write_file(path + ".bin", read_file(path + ".bin").substr(0, 9));
  const auto cut = only_fault(data_of(folder, path));
  CHECK_THAT(cut, Catch::Matchers::StartsWith(path + ".bin: it has 9 bytes, and its index " + path + ".idx is of 10"));
  std::filesystem::remove(path + ".idx");
  for (const auto& name : {path, path + ".bin"}) {
    const auto fault = only_fault(data_of(folder, name));
    CHECK_THAT(fault, Catch::Matchers::StartsWith(cat(path, ".idx: there is no such file beside ", path, ".bin")));
    CHECK_THAT(fault, Contains("of a flat file of ids say data.dtype"));
  }
  std::filesystem::remove(path + ".bin");
  CHECK_THAT(only_fault(data_of(folder, path)), Contains("data.train: there is no file " + path));
}

TEST_CASE("ids that the model does not have are named with their byte, the first and last ones before the first step") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}, {4, 5000}});
  CHECK_THROWS_WITH(
      opened(data_of(folder, path), 4),
      Catch::Matchers::StartsWith(path + ".bin: token 4 at byte 8 is 5000, the model's vocab_size is 1000"));
  folder.write("flat.bin", bytes_of({1, -2, 3}, TokenType::int16));
  CHECK_THROWS_WITH(opened(data_of(folder, (folder / "flat.bin").string(), {{"dtype", "int16"}}), 4),
                    Contains("token 1 at byte 2 is -2"));
  std::vector<Ids> many{Ids(200'000, 1)};
  many[0][100'000] = 1000;
  const auto source = opened(data_of(folder, write_pair(folder, many)), 1000);
  CHECK_NOTHROW(source->get(0));
  CHECK_THROWS_WITH(source->get(100), Contains("token 100000 at byte 200000 is 1000"));
}

TEST_CASE("flat files without a type, of another size, or empty are refused") {
  const Folder folder;
  const auto file = folder.write("flat.bin", "abcde");
  CHECK_THAT(only_fault(data_of(folder, file, {{"dtype", "uint16"}})),
             Contains("it has 5 bytes, which are no whole tokens of uint16"));
  folder.write("flat.bin", "");
  CHECK_THAT(only_fault(data_of(folder, file, {{"dtype", "uint16"}})), Contains("it is empty"));
  std::string head(1024, '\0');
  head.replace(0, 4, number(20240520, TokenType::int32)).replace(4, 4, number(1, TokenType::int32));
  head.replace(8, 4, number(3, TokenType::int32));
  folder.write("flat.bin", head + bytes_of({1, 2}));
  CHECK_THAT(only_fault(data_of(folder, file)), Contains("its head says 3 tokens at byte 8, and 2 follow"));
  CHECK_THAT(only_fault(data_of(folder, write_pair(folder, {}))), Contains("it holds no documents"));
  CHECK_THROWS_WITH(opened(data_of(folder, write_pair(folder, {{1}})), 4), Contains("holds no rows"));
}

TEST_CASE("broken texts are named with file and line") {
  const Folder folder;
  const auto file = folder.write("texts.jsonl", "{\"text\": \"a\"}\n{\"content\": \"b\"}\n");
  CHECK_THROWS_WITH(opened(data_of(folder, file), 4),
                    Catch::Matchers::StartsWith(file + ":2: there is no text under 'text'") && Contains("data.text"));
  folder.write("texts.jsonl", "{\"content\": \"a\"}\n{\"content\"");
  CHECK_THROWS_WITH(opened(data_of(folder, file, {{"text", "content"}}), 4),
                    Catch::Matchers::StartsWith(file + ":2: not a JSON object"));
  folder.write("texts.jsonl", "\n\n");
  CHECK_THROWS_WITH(opened(data_of(folder, file), 4), Catch::Matchers::StartsWith(file + ": it holds no text"));
  folder.write("texts.jsonl", "");
  CHECK_THAT(only_fault(data_of(folder, file)), Contains("it is empty"));
  const auto wide = folder.write("wide.txt", std::string("\xFF\xFE"
                                                         "a\0b\0",
                                                         6));
  CHECK_THROWS_WITH(opened(data_of(folder, wide), 4), Contains("UTF-16"));
}

TEST_CASE("options that have no effect are refused") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}});
  const auto flat = folder.write("flat.bin", bytes_of({1, 2}));
  const auto text = folder.write("a.txt", "abc");
  const auto said = [&](const std::string& file, Values values) {
    return only_fault(data_of(folder, file, std::move(values)));
  };
  CHECK_THAT(said(path, {{"end_id", 3}}), Catch::Matchers::StartsWith("a.toml:2: data.end_id has no effect"));
  CHECK_THAT(said(path, {{"text", "content"}}), Contains("data.text has no effect: no file is one of texts"));
  CHECK_THAT(said(path, {{"separator", "\n"}}), Contains("data.separator has no effect"));
  CHECK_THAT(said(path, {{"window", 5}}), Contains("data.window has no effect: data.fill is \"concat\""));
  CHECK_THAT(said(flat, {{"dtype", "uint16"}, {"append_end", true}}), Contains("data.append_end has no effect"));
  CHECK_THAT(said(text, {{"dtype", "uint16"}}), Contains("data.dtype has no effect"));
}

}  // namespace broken_test
