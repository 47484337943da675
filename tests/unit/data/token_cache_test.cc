#include "data/token_cache.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>
#include <unistd.h>

#include "checkpoint/scratch.h"
#include "support/disk_mark.h"

namespace token_cache_test {

using namespace capstan;
using namespace capstan::data;

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
    if (index == 2) sample.begins = {2, 5};
    if (index < 3) return sample;  // the others have more sequences and fields than one, or only fields
    if (index == 3) sample.others = {{{5, 6}, {false, true}}, {{}, {}}};
    sample.fields = {std::vector<float>{0.1F, -1e30F}, std::vector<std::int64_t>{index - (std::int64_t{1} << 40)}};
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

// Reads all of it; what the reader is told of damage, or empty.
std::string said_of(const TokenCache& cache) {
  try {
    const auto opened = open_cached(std::make_shared<Samples>(), cache);
    for (std::int64_t i = 0; i < opened->size(); ++i) opened->get(i);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool is_built(const TokenCache& cache) { return std::filesystem::exists(cache.file) && said_of(cache).empty(); }

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
    CHECK(sample.begins == expected.begins);
    CHECK(sample.prompt_length == expected.prompt_length);
    CHECK(sample.id == expected.id);
    CHECK((sample.fields == expected.fields));
    REQUIRE(sample.others.size() == expected.others.size());
    for (std::size_t k = 0; k < sample.others.size(); ++k) {
      CHECK(sample.others[k].tokens == expected.others[k].tokens);
      CHECK(sample.others[k].is_target == expected.others[k].is_target);
    }
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

TEST_CASE("who reads, makes or verifies a cache says which, for the others that wait") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch.path(), "squad-train", "key");
  const auto file = cache.file.string();
  CHECK(test::is_marked("writing " + file, [&] {
    std::filesystem::remove(file);
    TokenCacheBuilder(source, cache).advance(whole);
  }));
  TokenCacheBuilder(source, cache).advance(whole);
  CHECK(test::is_marked("verifying " + file, [&] { TokenCacheBuilder(source, cache).advance(whole); }));
  const auto cached = open_cached(source, cache);
  CHECK(test::is_marked("reading " + file, [&] { cached->get(4); }));
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

TEST_CASE("a builder that fails leaves no file") {
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
                                                Contains("fix: set data.cache to a folder that you may write to"));
}

TEST_CASE("another key is another file, and a file for another key counts as none") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch.path(), "x", "key");
  CHECK(token_cache(scratch.path(), "x", "other").file != cache.file);
  TokenCacheBuilder(source, cache).advance(whole);
  CHECK_FALSE(is_built({cache.file, "other"}));
  CHECK_THROWS_WITH(open_cached(source, {cache.file, "other"}), Contains("it was made for other data"));
}

namespace {

// A file that is not what was written is noticed by whoever reads from it, named, and made again.
void check_damaged(const std::shared_ptr<Samples>& source, const TokenCache& cache, const std::string& damaged,
                   const std::string& whole_bytes) {
  write_file(cache.file, damaged);
  CHECK_FALSE(is_built(cache));
  CHECK_THAT(said_of(cache), Contains("this token cache is damaged: ") && Contains(cache.file.string()) &&
                                 Contains("start again: a run makes a damaged cache again") && !Contains("tokenizer"));
  TokenCacheBuilder builder(source, cache);
  CHECK(builder.advance(whole));
  CHECK(builder.tokenizes());
  CHECK_THAT(builder.damage(), Contains(cache.file.string() + ": this token cache is damaged: ") &&
                                   Contains("; it is made again") && !Contains("\n"));
  CHECK(read_file(cache.file) == whole_bytes);
}

}  // namespace

TEST_CASE("no flipped bit, missing or added byte of a token cache is taken for what was written") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch.path(), "x", "key");
  TokenCacheBuilder(source, cache).advance(whole);
  const auto bytes = read_file(cache.file);
  for (std::size_t at = 0; at < bytes.size(); ++at) {  // head, key, samples, table, the last byte
    INFO("bit of byte " << at << " of " << bytes.size());
    auto damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    check_damaged(source, cache, damaged, bytes);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    INFO("the first " << size << " of " << bytes.size() << " bytes");
    check_damaged(source, cache, bytes.substr(0, size), bytes);
  }
  for (const std::size_t more : {1, 8, 4096}) {
    INFO(more << " bytes more");
    check_damaged(source, cache, bytes + std::string(more, '\0'), bytes);
  }
}

TEST_CASE("a whole token cache is verified, a while at a time, without a word") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const auto cache = token_cache(scratch.path(), "x", "key");
  TokenCacheBuilder(source, cache).advance(whole);
  TokenCacheBuilder again(source, cache);
  CHECK(again.advance(whole));
  CHECK(again.done() == 5);
  CHECK_FALSE(again.tokenizes());
  CHECK(again.damage().empty());
  CHECK(again.advance(whole));
}

TEST_CASE("a damaged token cache that cannot be made again is still named as damaged") {
  const Scratch scratch;
  const auto source = std::make_shared<Samples>();
  const TokenCache cache{scratch / "x.tokens", "key"};
  write_file(cache.file, "damaged");
  TokenCacheBuilder builder(source, cache);
  std::filesystem::remove_all(scratch.path());
  write_file(scratch.path(), "a file, where a folder is wanted");
  CHECK_THROWS_WITH(builder.advance(whole), Contains("the token cache is damaged and cannot be made again: ") &&
                                                Contains("set data.cache to a folder that you may write to"));
}

TEST_CASE("a cache that somebody else could have written is made again") {
  const Scratch scratch;
  const auto cache = token_cache(scratch.path(), "numbers", "key");
  const auto samples = std::make_shared<Samples>();
  REQUIRE(TokenCacheBuilder(samples, cache).advance(whole));
  const auto damage = [&] {
    TokenCacheBuilder builder(samples, cache);
    REQUIRE(builder.advance(whole));
    return builder.damage();
  };
  CHECK(damage().empty());
  std::filesystem::permissions(cache.file, std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  CHECK_THAT(said_of(cache), Contains("others may have changed it: every user of this machine may write it"));
  CHECK_THAT(damage(), Contains("every user of this machine may write it; it is made again"));
  CHECK(damage().empty());
  if (::geteuid() != 0) return;  // only root can give files away
  REQUIRE(::chown(cache.file.c_str(), 12345, 12345) == 0);
  CHECK_THAT(damage(), Contains("its user 12345 is neither you nor the owner of its folder"));
  CHECK(is_built(cache));
}

}  // namespace token_cache_test
