// Documents as rows: each token is read once and in order, and predicted once unless it is a document's first.
#include <capstan/base/paths.h>
#include <capstan/base/philox.h>
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <map>
#include <set>

#include "stream_files.h"

namespace stream_test {

using namespace capstan;
using namespace stream_files;
using streams::TokenType;
using test::Folder;

namespace {

// Documents of many lengths, of 1 to `most` tokens, whose tokens number all of them.
std::vector<Ids> documents_of(std::size_t count, std::uint64_t most, std::uint64_t seed) {
  std::vector<Ids> documents;
  std::int64_t token = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto length = 1 + mix_bits(seed + i) % (i % 7 == 0 ? most : most / 8 + 1);
    documents.push_back(counted_from(token, static_cast<std::size_t>(length)));
    token += static_cast<std::int64_t>(length);
  }
  return documents;
}

std::int64_t tokens_of(const std::vector<Ids>& documents) {
  std::int64_t tokens = 0;
  for (const auto& document : documents) tokens += static_cast<std::int64_t>(document.size());
  return tokens;
}

// How often each token is predicted.
std::map<std::int64_t, int> predictions_of(const std::vector<data::Sample>& samples) {
  std::map<std::int64_t, int> predicted;
  for (const auto& sample : samples) {
    for (std::size_t t = 1; t < sample.tokens.size(); ++t) predicted[sample.tokens[t]] += sample.is_target[t] ? 1 : 0;
  }
  return predicted;
}

// Each token but documents' first ones is predicted once.
void check_predictions(const std::vector<data::Sample>& samples, const std::vector<Ids>& documents) {
  const auto predicted = predictions_of(samples);
  std::int64_t wrong = 0;
  for (const auto& document : documents) {
    for (const auto token : document) {
      const auto found = predicted.find(token);
      const int times = found == predicted.end() ? 0 : found->second;
      if (times != (token == document.front() ? 0 : 1)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

// Where the tokens of a sample's documents begin, the first one too.
Ids begins_of(const data::Sample& sample) {
  Ids begins{0};
  begins.insert(begins.end(), sample.begins.begin(), sample.begins.end());
  return begins;
}

}  // namespace

TEST_CASE("concat: rows cut the stream, and say where documents begin") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}, {}, {4, 5, 6, 7}, {8, 9}});
  const auto samples = samples_of(data_of(folder, path), 5);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].tokens == Ids{1, 2, 3, 4, 5});
  CHECK(samples[0].begins == Ids{3});
  CHECK(samples[0].is_target == std::vector<bool>{false, true, true, false, true});
  CHECK(samples[1].tokens == Ids{5, 6, 7, 8, 9});
  CHECK(samples[1].begins == Ids{3});
  CHECK(samples[1].id == "row 1");
  CHECK(samples[1].prompt_length == 0);
  for (const auto& name : {path + ".bin", path + ".idx"}) CHECK(samples_of(data_of(folder, name), 5).size() == 2);
  CHECK(samples_of(data_of(folder, path, {{"train_samples", 1}}), 5).size() == 1);
}

TEST_CASE("attend = row: a row is one text, whose documents' first tokens are predicted too") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  for (const auto& sample : samples_of(data_of(folder, path, {{"attend", "row"}}), 5)) {
    CHECK(sample.begins.empty());
    CHECK(sample.is_target == std::vector<bool>{false, true, true, true, true});
  }
}

TEST_CASE("concat: over an epoch each token is read once and in order, and predicted once") {
  const Folder folder;
  const auto documents = documents_of(400, 90, 5);
  const auto path = write_pair(folder, documents, TokenType::int32);
  for (const std::int64_t length : {2, 7, 33, 64, 100'000}) {
    INFO(length);
    const auto samples = samples_of(data_of(folder, path), length, 100'000);
    Ids read;
    std::set<std::int64_t> begins{0};
    for (const auto& sample : samples) {
      for (const auto begin : sample.begins) begins.insert(sample.tokens[static_cast<std::size_t>(begin)]);
      read.insert(read.end(), sample.tokens.begin(), sample.tokens.end() - 1);
      CHECK(static_cast<std::int64_t>(sample.tokens.size()) <= length);
      if (&sample != &samples.back()) CHECK(static_cast<std::int64_t>(sample.tokens.size()) == length);
    }
    read.push_back(samples.back().tokens.back());
    CHECK(read == counted_from(0, static_cast<std::size_t>(tokens_of(documents))));
    for (const auto& document : documents) {
      const auto at = document.front();
      // A document that begins where a row does needs no border there.
      if (at % (length - 1) != 0) CHECK(begins.contains(at));
    }
    check_predictions(samples, documents);
  }
}

TEST_CASE("best_fit: only documents longer than a row are cut, and few places stay empty") {
  const Folder folder;
  const auto documents = documents_of(3000, 200, 11);
  const auto path = write_pair(folder, documents, TokenType::int32);
  constexpr std::int64_t length = 128;
  const auto samples = samples_of(data_of(folder, path, {{"fill", "best_fit"}, {"window", 1000}}), length, 1'000'000);
  std::map<std::int64_t, std::size_t> pieces;  // by their first tokens
  for (const auto& sample : samples) {
    REQUIRE(static_cast<std::int64_t>(sample.tokens.size()) <= length);
    auto begins = begins_of(sample);
    begins.push_back(static_cast<std::int64_t>(sample.tokens.size()));
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      pieces[sample.tokens[static_cast<std::size_t>(begins[i])]] = static_cast<std::size_t>(begins[i + 1] - begins[i]);
  }
  for (const auto& document : documents) {
    const auto found = pieces.find(document.front());
    REQUIRE(found != pieces.end());
    CHECK(found->second == std::min<std::size_t>(document.size(), length));
  }
  check_predictions(samples, documents);
  const auto places = static_cast<double>(samples.size()) * length;
  const auto waste = 1 - static_cast<double>(tokens_of(documents)) / places;
  INFO("waste " << waste << ", rows " << samples.size());
  CHECK(waste < 0.01);
  // In the order of the documents as they are, without choosing, far more would be empty.
  std::int64_t rows = 1, taken = 0;
  for (const auto& document : documents) {
    const auto size = static_cast<std::int64_t>(document.size()) % length;
    if (taken + size > length) {
      ++rows;
      taken = 0;
    }
    taken += size;
    rows += static_cast<std::int64_t>(document.size()) / length;
  }
  CHECK(1 - static_cast<double>(tokens_of(documents)) / (static_cast<double>(rows) * length) > 0.03);
}

TEST_CASE("best_fit finds the fullest row with room, and its rows are made once") {
  const Folder folder;
  const auto path =
      write_pair(folder, {counted_from(0, 6), counted_from(10, 7), counted_from(20, 3), counted_from(30, 4)});
  const auto samples = samples_of(data_of(folder, path, {{"fill", "best_fit"}}), 10);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].tokens == Ids{0, 1, 2, 3, 4, 5, 30, 31, 32, 33});
  CHECK(samples[0].begins == Ids{6});
  CHECK(samples[1].tokens == Ids{10, 11, 12, 13, 14, 15, 16, 20, 21, 22});
  const auto made = entries_of(folder / "derived");
  CHECK(samples_of(data_of(folder, path, {{"fill", "best_fit"}}), 10).size() == 2);
  CHECK(entries_of(folder / "derived") == made);
  write_pair(folder, {counted_from(0, 9), counted_from(10, 9)});
  CHECK(samples_of(data_of(folder, path, {{"fill", "best_fit"}}), 10)[0].tokens == counted_from(0, 9));
}

TEST_CASE("every type of ids is read") {
  const Folder folder;
  for (const auto& name : streams::type_names()) {
    INFO(name);
    const auto type = *streams::type_named(name);
    const Ids ids{1, 2, 120, 4, 5};
    folder.write("flat.bin", bytes_of(ids, type));
    CHECK(samples_of(data_of(folder, (folder / "flat.bin").string(), {{"dtype", name}}), 5)[0].tokens == ids);
    if (type == TokenType::uint32) continue;  // Megatron has none
    CHECK(samples_of(data_of(folder, write_pair(folder, {ids}, type)), 5)[0].tokens == ids);
  }
}

TEST_CASE("flat files: llm.c's say their type, and an id ends documents") {
  const Folder folder;
  std::string head(1024, '\0');
  for (const auto& [at, value] : {std::pair(0, 20240520), std::pair(4, 1), std::pair(8, 5)})
    head.replace(static_cast<std::size_t>(at), 4, bytes_of({value}, TokenType::int32));
  folder.write("fineweb.bin", head + bytes_of({1, 2, 9, 3, 4}));
  const auto file = (folder / "fineweb.bin").string();
  const auto samples = samples_of(data_of(folder, file, {{"end_id", 9}}), 5);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].tokens == Ids{1, 2, 9, 3, 4});
  CHECK(samples[0].begins == Ids{3});
  CHECK(samples_of(data_of(folder, file), 5)[0].begins.empty());
  CHECK(samples_of(data_of(folder, file, {{"end_id", 9}, {"fill", "best_fit"}}), 3)[1].tokens == Ids{3, 4});
}

TEST_CASE("append_end puts the tokenizer's end token after each document, whole or cut") {
  const Folder folder;
  const auto end = tokenizer::ByteTokenizer().end_id();
  const auto path = write_pair(folder, {{1, 2, 3}, {}, {4, 5}});
  auto data = data_of(folder, path, {{"append_end", true}});
  CHECK(data.uses_tokenizer());
  CHECK_FALSE(data_of(folder, path).uses_tokenizer());
  for (const std::int64_t length : {2, 3, 4, 9}) {
    Ids read;
    const auto samples = samples_of(data, length);
    for (const auto& sample : samples) read.insert(read.end(), sample.tokens.begin(), sample.tokens.end() - 1);
    read.push_back(samples.back().tokens.back());
    CHECK(read == Ids{1, 2, 3, end, end, 4, 5, end});
  }
  const auto whole = samples_of(data, 9)[0];
  CHECK(whole.begins == Ids{4, 5});
  write_pair(folder, {{1, end}, {2, 3}});
  CHECK_THROWS_WITH(opened(data, 4),
                    Contains("end with the end token, ") && Contains(" already") && Contains("take it out"));
}

TEST_CASE("texts are tokenized once, with an end token each, as the command writes them") {
  const Folder folder;
  folder.write("texts.jsonl", "{\"text\": \"abc\"}\n\n{\"text\": \"\", \"id\": 1}\n{\"text\": \"de\"}\n");
  const auto end = tokenizer::ByteTokenizer().end_id();
  const auto data = data_of(folder, (folder / "texts.jsonl").string());
  CHECK(data.uses_tokenizer());
  const auto samples = samples_of(data, 20);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].tokens == Ids{'a', 'b', 'c', end, 'd', 'e', end});
  CHECK(samples[0].begins == Ids{4});
  const auto made = entries_of(folder / "derived");
  CHECK(samples_of(data, 4).size() == 2);
  CHECK(entries_of(folder / "derived") == made);
  const auto without = data_of(folder, (folder / "texts.jsonl").string(), {{"append_end", false}});
  CHECK(samples_of(without, 20)[0].tokens == Ids{'a', 'b', 'c', 'd', 'e'});
  folder.write("plain.txt", "abc\n\nde\n\n\n\n");
  const auto plain = (folder / "plain.txt").string();
  CHECK(samples_of(data_of(folder, plain, {{"separator", "\n\n"}}), 20)[0].tokens == samples[0].tokens);
  CHECK(samples_of(data_of(folder, plain), 20)[0].begins.empty());
}

TEST_CASE("token caches and resumes know Megatron's pair by its index and its size") {
  const Folder folder;
  const auto path = write_pair(folder, {{1, 2, 3}, {4, 5}});
  const auto first = opened(data_of(folder, path), 9)->content();
  CHECK(opened(data_of(folder, path), 9)->content() == first);
  write_pair(folder, {{1, 2}, {3, 4, 5}});
  CHECK(opened(data_of(folder, path), 9)->content() != first);
}

TEST_CASE("best_fit with attend = row: a document's rest begins with a token that was predicted already") {
  const Folder folder;
  const auto path = write_pair(folder, {counted_from(1, 12), counted_from(20, 3), counted_from(30, 4)});
  const auto samples = samples_of(data_of(folder, path, {{"fill", "best_fit"}, {"attend", "row"}}), 8);
  for (const auto& [token, times] : predictions_of(samples)) {
    INFO(token);
    CHECK(times <= 1);
  }
}

TEST_CASE("the source keeps what every source promises, and evaluates on files of their own") {
  const Folder folder;
  const auto path = write_pair(folder, documents_of(50, 40, 3));
  const auto eval = write_pair(folder, {{1, 2, 3, 4}}, TokenType::uint16, "held_out");
  auto data = data_of(folder, path, {{"eval", eval}, {"eval_files", std::vector<std::string>{eval + ".bin"}}});
  CHECK(data.evaluates());
  CHECK(data.evaluation_sets() == std::vector<std::string>{"held_out"});
  data::SplitRequest request{data::Split::train, std::make_shared<tokenizer::ByteTokenizer>(), 33, 2000};
  CHECK(testing::data_breaches(*data.open(request), request, data.form()) == "");
  request.split = data::Split::eval;
  CHECK(data.open(request)->get(0).tokens == Ids{1, 2, 3, 4});
  request.set = "held_out";
  CHECK(data.open(request)->size() == 1);
  CHECK(data_of(folder, path).open({data::Split::eval, request.tokenizer, 33, 2000}) == nullptr);
}

}  // namespace stream_test
