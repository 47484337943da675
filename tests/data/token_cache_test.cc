#include "data/token_cache.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"

using namespace capstan;
using namespace capstan::data;
using Catch::Matchers::Contains;

namespace {

constexpr std::chrono::milliseconds whole{60'000};

// Samples of every shape; counts how often it is asked.
class Samples final : public DataSource {
 public:
  std::int64_t size() const override { return 5; }
  Sample get(std::int64_t index) const override {
    ++asked;
    if (index == fails_at) throw Error("sample 3 is wrong");
    Sample sample;
    for (std::int64_t t = 0; t < index * 3; ++t) {
      sample.tokens.push_back(t * 100'000'000);
      sample.is_target.push_back(t % 2 == 1);
    }
    sample.prompt_length = index;
    sample.id = std::string(static_cast<std::size_t>(index), 'q');
    sample.references.assign(static_cast<std::size_t>(index), "référence");
    return sample;
  }
  Sample question(std::int64_t index, std::int64_t most) const override {
    Sample sample;
    sample.tokens = {index, most};
    return sample;
  }
  monitor::Values score(const Sample&, const std::string&) const override { return {{"f1", 50.0}}; }
  std::size_t answer_end(std::string_view text) const override { return text.size() + 1; }
  std::vector<std::int64_t> end_ids() const override { return {7}; }
  mutable int asked = 0;
  std::int64_t fails_at = -1;
};

}  // namespace

TEST_CASE("a token cache gives the source's samples and asks it only once") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch / "a/b", "squad-train", "key");
  CHECK(cache.file.filename().string().starts_with("squad-train-"));
  CHECK_FALSE(is_built(cache));
  TokenCacheBuilder builder(source, cache);
  CHECK(builder.advance(whole));
  CHECK(builder.done() == 5);
  CHECK(is_built(cache));
  const auto cached = open_cached(source, cache);
  CHECK(cached->size() == 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto sample = cached->get(i);
    const auto expected = Samples().get(i);
    CHECK(sample.tokens == expected.tokens);
    CHECK(sample.is_target == expected.is_target);
    CHECK(sample.prompt_length == expected.prompt_length);
    CHECK(sample.id == expected.id);
    CHECK(sample.references == expected.references);
  }
  CHECK(cached->score({}, "").at(0).second == 50.0);
  // What is asked, and where answers end, is the source's to say.
  CHECK(cached->question(3, 17).tokens == std::vector<std::int64_t>{3, 17});
  CHECK(cached->answer_end("ab") == 3);
  CHECK(cached->end_ids() == std::vector<std::int64_t>{7});
  CHECK(TokenCacheBuilder(source, cache).advance(whole));  // there already
  CHECK(source->asked == 5);
}

TEST_CASE("a cache is built a while at a time, and appears when it is whole") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch.path(), "x", "key");
  TokenCacheBuilder builder(source, cache);
  int calls = 0;
  for (; !builder.advance(std::chrono::milliseconds(0)) && calls < 5; ++calls) {
    CHECK_FALSE(is_built(cache));
    CHECK(builder.done() == 0);
  }
  CHECK(calls == 5);
  CHECK(builder.advance(whole));
  CHECK(is_built(cache));
}

TEST_CASE("a builder that fails leaves nothing behind") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  source->fails_at = 3;
  {
    TokenCacheBuilder builder(source, token_cache(scratch.path(), "x", "key"));
    CHECK_THROWS_WITH(builder.advance(whole), "sample 3 is wrong");
  }
  CHECK(std::filesystem::is_empty(scratch.path()));
  write_file(scratch / "file", "");
  TokenCacheBuilder blocked(source, token_cache(scratch / "file", "x", "key"));
  CHECK_THROWS_WITH(blocked.advance(whole), Contains("cannot write the token cache: ") &&
                                                Contains("fix: free some space, or set data.cache to another folder"));
}

TEST_CASE("another key is another file, and a file for another key or a broken one counts as none") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch.path(), "x", "key");
  CHECK(token_cache(scratch.path(), "x", "other").file != cache.file);
  TokenCacheBuilder(source, cache).advance(whole);
  const auto bytes = read_file(cache.file);
  CHECK_FALSE(is_built({cache.file, "other"}));
  for (const auto size : {std::size_t{0}, std::size_t{20}, bytes.size() - 1}) {
    write_file(cache.file, bytes.substr(0, size));
    CHECK_FALSE(is_built(cache));
    CHECK_THROWS_WITH(open_cached(source, cache), Contains("this token cache is broken") && Contains("remove it"));
  }
  CHECK(TokenCacheBuilder(source, cache).advance(whole));
  CHECK(read_file(cache.file) == bytes);
  auto damaged = bytes;
  damaged[32 + 3 + 20] = '\x7f';  // the second sample's number of tokens (the first is 20 bytes behind the key)
  write_file(cache.file, damaged);
  const auto opened = open_cached(source, cache);
  CHECK(opened->get(0).tokens.empty());
  CHECK_THROWS_WITH(opened->get(1), Contains("this token cache is broken"));
}
