
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstring>

#include "checkpoint/scratch.h"
#include "parity/python.h"
#include "support/tokenizer_files.h"

namespace tokenizers_test {

using namespace capstan;

namespace {

using Ids = std::vector<std::int64_t>;

// Reads what tokenizer_fuzz.py writes.
class Cases {
 public:
  explicit Cases(std::string bytes) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ == bytes_.size(); }
  std::string text() {
    const auto size = number();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  Ids ids() {
    Ids out(number());
    for (auto& id : out) id = number();
    return out;
  }

 private:
  std::uint32_t number() {
    std::uint32_t value = 0;
    CAPSTAN_ASSERT(at_ + sizeof value <= bytes_.size());
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

// Beginnings and ends, which are looked at anyway.
Ids flat(const tokenizer::Encoded& encoded, bool unknown) {
  Ids out;
  CHECK(encoded.ranges.size() == encoded.ids.size());
  for (const auto& range : encoded.ranges) {
    CHECK(range.begin <= range.end);
    if (!unknown) out.insert(out.end(), {static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end)});
  }
  return out;
}

void compare(const std::string& family, int count, int seed) {
  const Scratch scratch;
  run_python("tokenizer_fuzz.py", {family, std::to_string(count), std::to_string(seed), scratch.path().string()},
             parity_python_4());
  const auto tokenizer = open_tokenizer((scratch / "tokenizer.json").string());
  Cases cases(read_file(scratch / "cases.bin"));
  int compared = 0;
  int differing = 0;
  for (; !cases.done(); ++compared) {
    const auto text = cases.text();
    const auto plain = cases.ids();
    auto full = tokenizer->prefix_ids();
    const auto ids = tokenizer->encode(text);
    full.insert(full.end(), ids.begin(), ids.end());
    const auto suffix = tokenizer->suffix_ids();
    full.insert(full.end(), suffix.begin(), suffix.end());
    const auto expected_full = cases.ids();
    const auto given = cases.ids();
    const auto decoded = cases.text();
    const auto ordinary = cases.ids();
    const auto expected_ranges = cases.ids();  // none where a normal form changes the text
    const auto ranges = flat(tokenizer->encode_with_ranges(text), expected_ranges.empty());
    if (ids == plain && full == expected_full && tokenizer->decode(given) == decoded &&
        tokenizer->encode_ordinary(text) == ordinary && ranges == expected_ranges) {
      continue;
    }
    if (++differing > 3) continue;
    INFO(family << ", case " << compared << ": " << text);
    CHECK(ids == plain);
    CHECK(full == expected_full);
    CHECK(tokenizer->decode(given) == decoded);
    CHECK(tokenizer->encode_ordinary(text) == ordinary);
    CHECK(ranges == expected_ranges);
  }
  INFO(family);
  CHECK(compared == count);
  CHECK(differing == 0);
}

// tokenizer_files.py's.
const std::vector<std::string> made_families{"gpt2",   "gpt2_spaced", "bloom",   "llama3",
                                             "llama2", "mixtral",     "unknown", "fused_unknown"};
// published_tokenizers.py's.
const std::vector<std::string> published_families{
    "qwen2",     "qwen2_more",     "qwen35",       "gemma",  "llama_legacy", "mistral_metaspace",
    "deepseek3", "deepseek_coder", "deepseek_llm", "smollm", "neox",         "falcon",
    "gpt4o",     "tekken",         "cl100k",       "aya",    "superbpe",     "bailing",
    "exaone",    "kimi",           "words",        "nfd",    "nfkc",         "nfkd",
    "replaced"};

}  // namespace

TEST_CASE("tokenizers: ids and texts of random texts are those of the tokenizers package", "[tokenizer]") {
  for (const auto& family : made_families) compare(family, 1500, 1);
}

TEST_CASE("tokenizers: the same for the files of today's models", "[tokenizer]") {
  for (const auto& family : published_families) compare(family, 600, 3);
}

TEST_CASE("tokenizers: files beside a tokenizer.json mean what transformers 5 makes of them", "[tokenizer]") {
  const Scratch scratch;
  run_python("tokenizer_folders.py", {"150", "1", scratch.path().string()});
  const auto made = Json::parse(read_file(scratch / "cases.json"));
  const auto id_or_none = [](const Json& id) { return id.is_null() ? -1 : id.get<std::int64_t>(); };
  std::size_t folder = 0;
  for (const auto& expected : made.at("cases")) {
    INFO("folder " << folder);
    const auto tokenizer = open_tokenizer((scratch / std::to_string(folder++)).string());
    CHECK(tokenizer->end_id() == id_or_none(expected.at("end")));
    CHECK(tokenizer->pad_id() == id_or_none(expected.at("pad")));
    for (std::size_t i = 0; i < made.at("texts").size(); ++i) {
      const auto ids = tokenizer->encode(made.at("texts").at(i).get<std::string>());
      auto full = tokenizer->prefix_ids();
      full.insert(full.end(), ids.begin(), ids.end());
      CHECK(ids == expected.at("plain").at(i).get<Ids>());
      CHECK(full == expected.at("full").at(i).get<Ids>());
      CHECK(tokenizer->decode(full) == expected.at("decoded").at(i).get<std::string>());
    }
  }
  CHECK(folder == 150);
}

// 100,000 texts a family take some minutes, nearly all of it in Python: test_parity "[full]".
TEST_CASE("tokenizers: the same for 100,000 texts of each family", "[.][full][tokenizer]") {
  for (const auto& family : made_families) compare(family, 100'000, 2);
  for (const auto& family : published_families) compare(family, 100'000, 4);
}

TEST_CASE("tokenizers: the benchmark runs, and finds as many ids as the package", "[tokenizer]") {
  const auto data = cat(CAPSTAN_SOURCE_DIR, "/configs/data/mini_squad_train.json");
  run_python("../../../tools/bench/tokenizer_speed.py",
             {data, "--build", CAPSTAN_BINARY_DIR, "--size", "900", "--texts", "20"}, parity_python_4());
}

}  // namespace tokenizers_test
