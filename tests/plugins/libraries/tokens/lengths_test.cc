// Lengths of samples, measured on several threads.
#include "tokens/lengths.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/errors.h"

namespace lengths_test {

using namespace capstan;

namespace {

// Sample i has i + 1 tokens, all of which bear loss, and a second sequence of two tokens.
class Growing final : public data::DataSource {
 public:
  Growing(std::int64_t size, std::int64_t broken) : size_(size), broken_(broken) {}
  std::int64_t size() const override { return size_; }
  data::Sample get(std::int64_t index) const override {
    if (index == broken_) throw Error(cat("sample ", index, " is broken"), "mend it", "here");
    data::Sample sample;
    sample.tokens.assign(static_cast<std::size_t>(index + 1), 7);
    sample.is_target.assign(sample.tokens.size(), true);
    sample.others.push_back({{1, 2}, {false, true}});
    return sample;
  }

 private:
  std::int64_t size_;
  std::int64_t broken_;
};

tokens::Measured few() {
  return {"f", "samples", 0, [] { return std::string("key"); }, {}, {}};
}

}  // namespace

TEST_CASE("the longest sequence counts, and targets of all of them") {
  const tokenizer::ByteTokenizer tokenizer;
  const auto lengths = tokens::lengths_of(Growing(1000, -1), tokenizer, few());
  REQUIRE(lengths.size() == 1000);
  CHECK(lengths[0].tokens == 2);
  CHECK(lengths[0].targets == 1);  // nothing predicts a sequence's first token
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    CHECK(lengths[i].tokens == i + 1);
    CHECK(lengths[i].targets == i + 1);
  }
  CHECK(tokens::lengths_of(Growing(0, -1), tokenizer, few()).empty());
}

TEST_CASE("what is wrong with a sample is thrown as the source says it") {
  const tokenizer::ByteTokenizer tokenizer;
  CHECK(test::error_of([&] { (void)tokens::lengths_of(Growing(5000, 4321), tokenizer, few()); }) ==
        "here: sample 4321 is broken\n    fix: mend it");
}

}  // namespace lengths_test
