#include <capstan/strategy/claims.h>
#include <capstan_catch.h>

namespace claims_test {

using namespace capstan;
using strategy::Claims;
using strategy::ClaimsOf;

namespace {

ClaimsOf claims_of(const std::string& plugin, const std::string& where) { return {plugin, where, {}}; }

std::vector<std::string> judged(const std::vector<ClaimsOf>& all) {
  Diagnostics diagnostics;
  strategy::judge_claims(all, diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

}  // namespace

TEST_CASE("claims that do not meet are fine") {
  auto fsdp = claims_of("fsdp", "a.toml:3");
  fsdp.claims.exclusive("parameter storage");
  auto lora = claims_of("lora", "a.toml:5");
  lora.claims.shared("unit recompute");
  auto recompute = claims_of("recompute", "a.toml:7");
  recompute.claims.shared("unit recompute");
  CHECK(judged({}).empty());
  CHECK(judged({fsdp, lora, recompute}).empty());
}

TEST_CASE("two exclusive claims of one resource are one fault that names both and the resource") {
  auto fsdp = claims_of("fsdp", "a.toml:3");
  fsdp.claims.exclusive("parameter storage");
  auto zero = claims_of("zero", "a.toml:9");
  zero.claims.exclusive("parameter storage");
  const std::vector<std::string> expected{
      "a.toml:9: strategies 'fsdp' (a.toml:3) and 'zero' both claim parameter storage\n"
      "    fix: remove one of them, or set strategy.zero.enabled = false"};
  CHECK(judged({fsdp, zero}) == expected);
}

TEST_CASE("an exclusive claim meets a shared one in either order") {
  auto mine = claims_of("mine", "a.toml:1");
  mine.claims.exclusive("axis tp");
  auto yours = claims_of("yours", "a.toml:2");
  yours.claims.shared("axis tp");
  CHECK(judged({mine, yours}) ==
        std::vector<std::string>{"a.toml:2: strategies 'mine' (a.toml:1) and 'yours' both claim axis tp\n"
                                 "    fix: remove one of them, or set strategy.yours.enabled = false"});
  CHECK(judged({yours, mine}) ==
        std::vector<std::string>{"a.toml:2: strategies 'mine' (a.toml:1) and 'yours' both claim axis tp\n"
                                 "    fix: remove one of them, or set strategy.yours.enabled = false"});
}

TEST_CASE("every pair of three that claim the same is named once") {
  std::vector<ClaimsOf> all;
  for (const char* name : {"a", "b", "c"}) {
    all.push_back(claims_of(name, std::string("x.toml:") + name));
    all.back().claims.exclusive("optimizer rule");
  }
  const auto texts = judged(all);
  REQUIRE(texts.size() == 3);
  CHECK_THAT(texts[0], Contains("'a' (x.toml:a) and 'b' both claim optimizer rule"));
  CHECK_THAT(texts[1], Contains("'a' (x.toml:a) and 'c' both claim optimizer rule"));
  CHECK_THAT(texts[2], Contains("'b' (x.toml:b) and 'c' both claim optimizer rule"));
}

TEST_CASE("a requirement is met by another strategy only") {
  auto offload = claims_of("offload", "a.toml:4");
  offload.claims.needs("parameter storage", "add [strategy.fsdp]");
  const std::vector<std::string> unmet{
      "a.toml:4: strategy 'offload' needs another strategy that provides parameter storage\n    fix: add "
      "[strategy.fsdp]"};
  CHECK(judged({offload}) == unmet);

  auto itself = offload;
  itself.claims.shared("parameter storage");
  CHECK(judged({itself}) == unmet);

  auto exclusive = claims_of("fsdp", "a.toml:3");
  exclusive.claims.exclusive("parameter storage");
  CHECK(judged({offload, exclusive}).empty());
  auto shared = claims_of("fsdp", "a.toml:3");
  shared.claims.shared("parameter storage");
  CHECK(judged({offload, shared}).empty());
}

}  // namespace claims_test
