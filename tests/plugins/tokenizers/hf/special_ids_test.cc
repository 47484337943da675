#include <capstan/base/error.h>
#include <capstan_catch.h>

#include "support/tokenizer_files.h"

namespace special_ids_test {

using namespace capstan;

namespace {

// A model folder with the SentencePiece-style tokenizer (10 ids) and these other files.
std::shared_ptr<const tokenizer::Tokenizer> beside(const std::map<std::string, std::string>& files) {
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", sentencepiece_file().dump());
  for (const auto& [name, content] : files) write_file(scratch / name, content);
  return open_tokenizer("auto", scratch.path().string());
}

}  // namespace

TEST_CASE("a tokenizer by itself ends and pads nothing") {
  const auto tokenizer = beside({});
  CHECK(tokenizer->end_id() == -1);
  CHECK(tokenizer->pad_id() == -1);
  CHECK_FALSE(tokenizer->is_end(-1));
  CHECK_FALSE(tokenizer->is_end(2));
}

TEST_CASE("the tokenizer's end token is what training uses, generation ends at any that the folder names") {
  const std::string config = R"({"eos_token_id": 5, "pad_token_id": 6})";
  const std::string generation = R"({"eos_token_id": [7, 2, 8], "pad_token_id": -1})";
  auto tokenizer = beside({{"config.json", config}});
  CHECK(tokenizer->end_id() == 5);
  CHECK(tokenizer->pad_id() == 6);
  tokenizer = beside({{"config.json", config}, {"generation_config.json", generation}});
  CHECK(tokenizer->end_id() == 7);
  CHECK(tokenizer->is_end(8));
  CHECK_FALSE(tokenizer->is_end(5));  // the newer file is the one that counts
  CHECK(tokenizer->pad_id() == 6);
  tokenizer = beside({{"config.json", config},
                      {"generation_config.json", generation},
                      {"tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "pad_token": "<unk>"})"}});
  CHECK(tokenizer->end_id() == 2);
  CHECK(tokenizer->is_end(7));
  CHECK(tokenizer->pad_id() == 0);
}

TEST_CASE("end and padding ids that the tokenizer does not have are refused") {
  CHECK_THROWS_WITH(beside({{"config.json", R"({"eos_token_id": 10})"}}),
                    Contains("config.json: eos_token_id is 10, the tokenizer has 10 ids"));
  CHECK_THROWS_WITH(beside({{"generation_config.json", R"({"pad_token_id": "<pad>"})"}}),
                    Contains("generation_config.json: pad_token_id is \"<pad>\", the tokenizer has 10 ids"));
  CHECK_THROWS_WITH(beside({{"tokenizer_config.json", R"({"eos_token": "<eos>"})"}}),
                    Contains("tokenizer_config.json: eos_token is \"<eos>\", which the tokenizer does not have"));
  CHECK_THROWS_WITH(beside({{"config.json", "[1"}}), Contains("config.json: it is not JSON"));
}

}  // namespace special_ids_test
