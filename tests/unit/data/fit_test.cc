#include "data/fit.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

namespace fit_test {

using namespace capstan;

namespace {

data::Sample sample(std::vector<std::int64_t> tokens) {
  data::Sample made;
  made.tokens = std::move(tokens);
  made.id = "q7";
  return made;
}

}  // namespace

TEST_CASE("tokenizer and max_length are compared with the model before anything is read") {
  const tokenizer::ByteTokenizer tokenizer;
  Diagnostics fine;
  data::check_fit({258, 128}, &tokenizer, 129, "a.toml:1", "a.toml:2", fine);
  data::check_fit({1000, 128}, &tokenizer, 0, "a.toml:1", "a.toml:2", fine);
  data::check_fit({29, 128}, nullptr, 0, "a.toml:1", "a.toml:2", fine);  // samples that no tokenizer makes
  CHECK(fine.empty());
  Diagnostics bad;
  data::check_fit({200, 1024}, &tokenizer, 2048, "a.toml:1", "a.toml:2", bad);
  REQUIRE(bad.size() == 2);
  CHECK(bad.list()[0].text() ==
        "a.toml:1: the tokenizer 'byte' has 258 ids, the model's vocab_size is 200\n"
        "    fix: set the model's vocab_size to at least 258, or name the tokenizer that the model was made for");
  CHECK(bad.list()[1].text() ==
        "a.toml:2: max_length 2,048 is more than the model's 1,024 positions\n"
        "    fix: use max_length = 1024 or less, or a model with more positions");
}

TEST_CASE("samples are opened at max_length, or at the model's positions") {
  CHECK(data::sample_length({258, 128}, 0) == 128);
  CHECK(data::sample_length({258, 128}, 64) == 64);
}

TEST_CASE("a sample that the model cannot compute is named") {
  const data::ModelBounds model{10, 3};
  CHECK_NOTHROW(data::check_sample(model, sample({0, 9, 5, 5})));
  CHECK_THROWS_WITH(data::check_sample(model, sample({1, 2, 10})),
                    "token 2 of sample 'q7' is 10, the model's vocab_size is 10\n"
                    "    fix: use the tokenizer that the model was made for, or a larger vocab_size");
  CHECK_THROWS_WITH(data::check_sample(model, sample({-1})), Contains("token 0 of sample 'q7' is -1"));
  CHECK_THROWS_WITH(data::check_sample(model, sample({1, 1, 1, 1, 1})),
                    "sample 'q7' has 5 tokens, the model has 3 positions\n    fix: use data.max_length = 3 or less");
}

}  // namespace fit_test
