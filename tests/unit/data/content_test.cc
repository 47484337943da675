// What training data is: the samples that are looked at, those without a target, and files' bytes.
#include "data/content.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <set>

#include "support/folder.h"

namespace content_test {

using namespace capstan;
using namespace capstan::data;

namespace {

Sample sample(std::vector<std::int64_t> tokens, std::vector<bool> is_target) {
  Sample made;
  made.tokens = std::move(tokens);
  made.is_target = std::move(is_target);
  made.id = "s" + std::to_string(made.tokens.empty() ? -1 : made.tokens.front());
  return made;
}

Sample plain(std::int64_t index) { return sample({index, 2, 3}, {false, false, true}); }

}  // namespace

TEST_CASE("a sample has a target if a token that is predicted bears loss") {
  CHECK(has_target(sample({1, 2}, {false, true})));
  CHECK_FALSE(has_target(sample({1, 2}, {true, false})));
  CHECK_FALSE(has_target(sample({1}, {true})));
  CHECK_FALSE(has_target(sample({}, {})));
  CHECK(has_target(sample({1, 2}, {false})));  // whose flags are not one a token: collate() says so
}

TEST_CASE("all of a few samples are looked at, and the same spread ones of many") {
  const auto indices = [](std::int64_t samples) {
    std::vector<std::int64_t> all;
    const auto look = look_at(samples, [&](std::int64_t index) {
      all.push_back(index);
      return plain(index);
    });
    CHECK(look.looked_at == static_cast<std::int64_t>(all.size()));
    return all;
  };
  CHECK(indices(0).empty());
  CHECK(indices(3) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(indices(256).size() == 256);
  const auto many = indices(1'000'000);
  CHECK(many == indices(1'000'000));
  CHECK(many.size() == 256);
  std::set<std::int64_t> tenths;
  for (const auto index : many) {
    CHECK(index >= 0);
    CHECK(index < 1'000'000);
    tenths.insert(index / 20'000);
  }
  CHECK(tenths.size() == 50);  // no fiftieth is left out
  const auto look = look_at(1000, [](std::int64_t) {
    return Sample{std::vector<std::int64_t>(100'000, 1), {}, 0, "", {}};
  });
  CHECK(look.looked_at == 3);
}

TEST_CASE("the sum is of tokens and targets, and a sample that cannot be made has a place in it") {
  const auto sum = [](auto get) { return look_at(5, get).sum; };
  const auto reference = sum(plain);
  CHECK(reference == sum(plain));
  CHECK(reference != sum([](std::int64_t i) { return i == 3 ? sample({i, 2, 4}, {false, false, true}) : plain(i); }));
  CHECK(reference != sum([](std::int64_t i) { return i == 3 ? sample({i, 2, 3}, {false, true, true}) : plain(i); }));
  CHECK(reference != sum([](std::int64_t i) { return plain(4 - i); }));
  CHECK(reference != sum([](std::int64_t i) { return i == 3 ? throw Error("broken", "") : plain(i); }));
  const auto blank = look_at(5, [](std::int64_t i) { return i % 2 == 1 ? sample({i, 2}, {true, false}) : plain(i); });
  CHECK(blank.without_target == 2);
  CHECK(blank.first_without_target == "s1");
}

TEST_CASE("other sequences and fields are part of the sum, and a sequence without a target leaves its sample without") {
  const auto sum = [](std::int64_t token, float value) {
    return look_at(2, [=](std::int64_t i) {
      auto made = sample({i, 2, 3}, {false, true, true});
      made.others = {{{i, token}, {false, i == 0}}};
      made.fields = {std::vector<float>{value}, std::vector<std::int64_t>{1}};
      return made;
    });
  };
  CHECK(sum(5, 1).sum == sum(5, 1).sum);
  CHECK(sum(5, 1).sum != sum(6, 1).sum);
  CHECK(sum(5, 1).sum != sum(5, 2).sum);
  CHECK(sum(5, 1).without_target == 1);
}

TEST_CASE("files count by their bytes, but for those of evaluation") {
  const test::Folder folder;
  const auto option = [](const char* key, config::Value value, bool is_path) {
    config::Resolved made;
    made.spec.key = key;
    made.spec.is_path = is_path;
    made.value = std::move(value);
    return made;
  };
  const auto a = folder.write("a", "abc");
  const auto b = folder.write("b", "abd");
  const auto sums = sums_of_files({option("train", a, true), option("eval", a, true), option("evaluation", b, true),
                                   option("name", a, false), option("more", std::vector<std::string>{a, b}, true),
                                   option("folder", folder.path().string(), true),
                                   option("gone", (folder / "gone").string(), true), option("none", {}, true)});
  CHECK(sums.size() == 2);
  CHECK(sums.at("train") == "44bc2cf5ad770999");  // what xxhsum prints
  CHECK(sums.at("more").starts_with("44bc2cf5ad770999 "));
  CHECK(sums.at("more").size() == 33);
}

}  // namespace content_test
