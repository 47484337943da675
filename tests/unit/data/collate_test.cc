#include "data/collate.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <set>
#include <utility>

namespace collate_test {

using namespace capstan;
using data::collate;
using data::ignored_label;
using data::Sample;

namespace {

constexpr auto no = ignored_label;

Sample sample(std::vector<std::int64_t> tokens, std::vector<bool> is_target) {
  Sample made;
  made.tokens = std::move(tokens);
  made.is_target = std::move(is_target);
  made.id = "q1";
  return made;
}

}  // namespace

TEST_CASE("labels are the next token where that one is a target; padding and empty rows bear none") {
  const auto a = sample({10, 11, 12, 13, 14}, {false, false, false, true, true});
  const auto b = sample({20, 21, 22}, {false, true, true});
  const auto batch = collate({{&a, 7}, {nullptr, -1}, {&b, 9}}, {.pad_id = 99});
  CHECK(batch.rows == 3);
  CHECK(batch.cols == 4);
  CHECK(batch.tokens == std::vector<std::int64_t>{10, 11, 12, 13, 99, 99, 99, 99, 20, 21, 99, 99});
  CHECK(batch.labels == std::vector<std::int64_t>{no, no, 13, 14, no, no, no, no, 21, 22, no, no});
  CHECK(batch.lengths == std::vector<std::int64_t>{4, 0, 2});
  CHECK(batch.sample_ids == std::vector<std::int64_t>{7, -1, 9});
  CHECK(batch.target_tokens == 4);
  CHECK(batch.real_tokens == 6);
  CHECK(batch.padded_tokens() == 12);
}

TEST_CASE("the first token is never predicted, even when the whole sequence is a target") {
  const auto whole = sample({1, 2, 3}, {true, true, true});
  const auto batch = collate({{&whole, 0}}, {});
  CHECK(batch.labels == std::vector<std::int64_t>{2, 3});
  CHECK(batch.target_tokens == 2);
}

TEST_CASE("columns: rounded up to a multiple, or fixed") {
  const auto a = sample({1, 2, 3, 4, 5, 6}, std::vector<bool>(6, true));
  CHECK(collate({{&a, 0}}, {.multiple = 4}).cols == 8);
  CHECK(collate({{&a, 0}}, {.multiple = 5}).cols == 5);
  CHECK(collate({{&a, 0}}, {.fixed_length = 5}).cols == 5);
  CHECK(collate({{&a, 0}}, {.multiple = 4, .fixed_length = 7}).cols == 7);
  // A batch of nothing but empty rows still has a shape that a model can compute.
  const auto empty = collate({data::Row{}, data::Row{}}, {.pad_id = 3});
  CHECK(empty.cols == 1);
  CHECK(empty.tokens == std::vector<std::int64_t>{3, 3});
  CHECK(empty.target_tokens == 0);
  CHECK(collate({data::Row{}}, {.multiple = 8}).cols == 8);
}

TEST_CASE("a sample of one token has no position") {
  const auto one = sample({1}, {true});
  const auto batch = collate({{&one, 0}}, {});
  CHECK(batch.lengths == std::vector<std::int64_t>{0});
  CHECK(batch.real_tokens == 0);
}

TEST_CASE("bad samples are named") {
  const auto uneven = sample({1, 2, 3}, {true});
  CHECK_THROWS_WITH(
      collate({{&uneven, 0}}, {}),
      "sample 'q1' has 3 tokens but is_target has 1\n    fix: the data plugin must give one flag a token");
  const auto longer = sample({1, 2, 3, 4}, std::vector<bool>(4, true));
  CHECK_THROWS_WITH(collate({{&longer, 0}}, {.fixed_length = 2}),
                    "sample 'q1' needs 3 positions, the batch has a fixed length of 2\n"
                    "    fix: raise the fixed length, or lower data.max_length to 3");
}

TEST_CASE("padding falls back to the end id, then to 0") {
  class Fixed final : public tokenizer::Tokenizer {
   public:
    Fixed(std::int64_t end, std::int64_t pad) : end_(end), pad_(pad) {}
    std::string name() const override { return "fixed"; }
    std::int64_t vocab_size() const override { return 10; }
    std::vector<std::int64_t> encode(std::string_view) const override { return {}; }
    std::string decode(const std::vector<std::int64_t>&) const override { return {}; }
    std::int64_t end_id() const override { return end_; }
    std::int64_t pad_id() const override { return pad_; }

   private:
    std::int64_t end_, pad_;
  };
  CHECK(data::padding_id(Fixed(4, 5), 9) == 5);
  CHECK(data::padding_id(Fixed(4, -1), 9) == 4);
  CHECK(data::padding_id(Fixed(-1, -1), 9) == 0);
  CHECK(data::padding_id(Fixed(4, 5), 5) == 0);  // samples that no tokenizer makes, and a smaller vocabulary
}

TEST_CASE("packed samples stand one after another, the longest first, each where there is room") {
  const auto a = sample({10, 11, 12, 13}, {false, true, false, true});                      // 3 positions
  const auto b = sample({20, 21, 22, 23, 24, 25}, {false, false, true, true, true, true});  // 5
  const auto c = sample({30, 31, 32}, {true, true, true});                                  // 2
  const auto d = sample({40, 41, 42, 43, 44}, {false, false, false, false, true});          // 4
  const auto batch = data::pack({{&a, 7}, {&b, 8}, {nullptr, -1}, {&c, 9}, {&d, 5}}, {.pad_id = 99, .multiple = 4}, 7);
  CHECK(batch.rows == 2);
  CHECK(batch.cols == 8);
  CHECK(batch.lengths == std::vector<std::int64_t>{7, 7});
  CHECK(batch.tokens == std::vector<std::int64_t>{20, 21, 22, 23, 24, 30, 31, 99, 40, 41, 42, 43, 10, 11, 12, 99});
  CHECK(batch.labels == std::vector<std::int64_t>{no, 22, 23, 24, 25, 31, 32, no, no, no, no, 44, 11, no, 13, no});
  CHECK(batch.sample_ids == std::vector<std::int64_t>{8, 5});
  CHECK(batch.target_tokens == 9);
  CHECK(batch.real_tokens == 14);
  REQUIRE(batch.documents.size() == 4);
  const auto stands = [&](std::size_t i, std::int64_t row, std::int64_t begin, std::int64_t length, std::int64_t id) {
    const auto& document = batch.documents[i];
    return document.row == row && document.begin == begin && document.length == length && document.id == id;
  };
  CHECK(stands(0, 0, 0, 5, 8));
  CHECK(stands(1, 1, 0, 4, 5));
  CHECK(stands(2, 1, 4, 3, 7));
  CHECK(stands(3, 0, 5, 2, 9));
}

TEST_CASE("a sample's documents stand together where it is, and each is a sequence of its own") {
  auto a =
      sample({10, 11, 20, 21, 22, 30, 40}, {false, true, false, true, true, false, false});  // the last has no position
  a.begins = {2, 5, 6};
  const auto b = sample({50, 51, 52}, {false, true, true});
  const auto batch = data::pack({{&b, 3}, {&a, 4}}, {.pad_id = 99}, 8);
  CHECK(batch.tokens == std::vector<std::int64_t>{10, 11, 20, 21, 22, 30, 50, 51});
  CHECK(batch.labels == std::vector<std::int64_t>{11, no, 21, 22, no, no, 51, 52});
  CHECK(batch.real_samples == 4);
  CHECK(batch.samples == 4);
  REQUIRE(batch.documents.size() == 4);
  std::vector<std::int64_t> begins, lengths, sequences, ids;
  for (const auto& document : batch.documents) {
    begins.push_back(document.begin);
    lengths.push_back(document.length);
    sequences.push_back(document.sequence);
    ids.push_back(document.id);
  }
  CHECK(begins == std::vector<std::int64_t>{0, 2, 5, 6});
  CHECK(lengths == std::vector<std::int64_t>{2, 3, 1, 2});
  CHECK(sequences == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(ids[0] == 4);
  CHECK(ids[3] == 3);
  CHECK(std::set<std::int64_t>(ids.begin(), ids.end()).size() == 4);  // their dropout masks differ
}

TEST_CASE("masks that are drawn by id and position differ between a row's documents") {
  constexpr std::size_t documents = 600;
  auto a = sample(std::vector<std::int64_t>(2 * documents, 1), std::vector<bool>(2 * documents, true));
  for (std::size_t i = 1; i < documents; ++i) a.begins.push_back(static_cast<std::int64_t>(2 * i));
  const auto batch = data::pack({{&a, 12345}}, {}, 2 * documents);
  REQUIRE(batch.documents.size() == documents);
  // As LoRA's masks of experts' tokens count them (plugins/strategies/lora/forward.cc): 2^22 positions for each id.
  std::set<std::uint64_t> first_tokens;
  for (const auto& document : batch.documents) first_tokens.insert(static_cast<std::uint64_t>(document.id) << 22U);
  CHECK(first_tokens.size() == documents);
}

TEST_CASE("each of a sample's documents has the values of its sample") {
  using data::FieldSpec;
  const data::SampleForm form{.fields = {{"source", FieldSpec::Type::int64, FieldSpec::Per::sample},
                                         {"weight", FieldSpec::Type::float32, FieldSpec::Per::token}}};
  auto a = sample({10, 11, 20, 21, 30}, {false, true, false, true, false});
  a.begins = {2, 4};
  a.fields = {std::vector<std::int64_t>{7}, std::vector<float>{0, 1, 2, 3, 4}};
  auto b = sample({50, 51}, {false, true});
  b.fields = {std::vector<std::int64_t>{8}, std::vector<float>{5, 6}};
  const auto batch = data::pack({{&b, 0}, {&a, 1}}, {}, 5, form);
  CHECK(batch.samples == 3);
  CHECK((batch.fields[0].values == data::FieldValues(std::vector<std::int64_t>{7, 7, 8})));
  CHECK((batch.fields[1].values == data::FieldValues(std::vector<float>{1, 2, 3, 4, 6})));
}

TEST_CASE("documents that no batch can have are refused") {
  auto a = sample({1, 2, 3}, {false, true, true});
  for (const auto& begins : {std::vector<std::int64_t>{0}, {3}, {2, 1}, {1, 1}}) {
    a.begins = begins;
    CHECK_THROWS_WITH(data::pack({{&a, 0}}, {}, 8), Contains("Sample::begins in ascending order"));
  }
  a.begins = {1};
  a.others = {{{1, 2}, {false, true}}};
  CHECK_THROWS_WITH(data::pack({{&a, 0}}, {}, 8, {.sequences = 2}),
                    Contains("has several documents and several sequences"));
}

TEST_CASE("packed rows are as even as they can be, and no more of them than the first fit needs") {
  std::vector<data::Sample> samples;
  const auto rows_of = [&](const std::vector<std::int64_t>& lengths, std::int64_t capacity) {
    samples.clear();
    for (const auto length : lengths) {
      const auto tokens = static_cast<std::size_t>(length + 1);
      samples.push_back(sample(std::vector<std::int64_t>(tokens, 1), std::vector<bool>(tokens, true)));
    }
    std::vector<data::Row> rows;
    for (std::size_t i = 0; i < samples.size(); ++i) rows.push_back({&samples[i], static_cast<std::int64_t>(i)});
    return data::pack(rows, {.pad_id = 9}, capacity).lengths;
  };
  CHECK(rows_of({5, 4, 3, 2}, 10) == std::vector<std::int64_t>{7, 7});  // 9 and 5 by first fit
  CHECK(rows_of({2, 3, 4, 5}, 14) == std::vector<std::int64_t>{14});
  CHECK(rows_of({4, 4, 3, 3, 3}, 9) == std::vector<std::int64_t>{8, 9});  // 10 and 7 would not fit
}

TEST_CASE("packing: a sample that is longer than a row makes it longer; without samples there is an empty row") {
  const auto a = sample({1, 2, 3, 4}, std::vector<bool>(4, true));
  const auto b = sample({5, 6}, {false, true});
  const auto batch = data::pack({{&a, 0}, {&b, 1}}, {.pad_id = 9}, 1);
  CHECK(batch.rows == 2);
  CHECK(batch.tokens == std::vector<std::int64_t>{1, 2, 3, 5, 9, 9});
  const auto empty = data::pack({data::Row{}, data::Row{}}, {.pad_id = 9, .multiple = 2}, 4);
  CHECK(empty.rows == 1);
  CHECK(empty.cols == 2);
  CHECK(empty.documents.empty());
  CHECK(empty.target_tokens == 0);
}

TEST_CASE("a sample's sequences are rows one after another, whose ids differ; an empty place has as many") {
  auto pair = sample({10, 11, 12, 13}, {false, false, true, true});
  pair.others.push_back({{10, 11, 20}, {false, false, true}});
  const auto batch = collate({{nullptr, -1}, {&pair, 7}}, {.pad_id = 99}, {.sequences = 2, .fields = {}});
  CHECK(batch.rows == 4);
  CHECK(batch.lengths == std::vector<std::int64_t>{0, 0, 3, 2});
  CHECK(batch.sample_ids == std::vector<std::int64_t>{-1, -1, 14, 15});
  CHECK(batch.tokens == std::vector<std::int64_t>{99, 99, 99, 99, 99, 99, 10, 11, 12, 10, 11, 99});
  CHECK(batch.labels == std::vector<std::int64_t>{no, no, no, no, no, no, no, 12, 13, no, 20, no});
  CHECK(batch.per_sample == 2);
  CHECK(batch.samples == 2);
  CHECK(batch.real_samples == 1);
}

TEST_CASE("packing leaves empty places out, and says of each document which sequence it is") {
  auto a = sample({10, 11, 12}, {false, true, true});
  a.others.push_back({{10, 11, 12, 13, 14}, {false, false, true, true, true}});
  auto b = sample({20, 21, 22, 23}, {false, true, true, true});
  b.others.push_back({{20}, {false}});  // no position
  const auto batch = data::pack({{&a, 3}, {nullptr, -1}, {&b, 4}}, {.pad_id = 9}, 9, {.sequences = 2, .fields = {}});
  CHECK(batch.rows == 1);
  CHECK(batch.samples == 2);
  CHECK(batch.real_samples == 2);
  std::vector<std::pair<std::int64_t, std::int64_t>> sequences;  // with its id
  for (const auto& document : batch.documents) sequences.emplace_back(document.sequence, document.id);
  CHECK(sequences == std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 7}, {2, 8}, {0, 6}});
  const auto empty = data::pack({data::Row{}, data::Row{}}, {.pad_id = 9}, 4, {.sequences = 2, .fields = {}});
  CHECK(empty.rows == 2);
  CHECK(empty.samples == 1);
  CHECK(empty.real_samples == 0);
}

}  // namespace collate_test
