#include "tokens/same_tokens.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace same_tokens_test {

namespace {

const test::Folder& folders() {
  static const test::Folder made;
  return made;
}

std::string folder(const std::string& name, const std::string& tokenizer) {
  (void)folders().write(name + "/tokenizer.json", tokenizer);
  return (folders() / name).string();
}

}  // namespace

TEST_CASE("tokenizers are the same if every id means the same, wherever it stands in the file") {
  const auto one =
      folder("one", R"({"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 2, "content": "<s>"}]})");
  const auto same = folder("same", R"({"version": 1, "model": {"vocab": {"b": 1, "a": 0, "<s>": 2}}})");
  const auto other = folder("other", R"({"model": {"vocab": {"a": 0, "c": 1, "<s>": 2}}})");
  const auto more = folder("more", R"({"model": {"vocab": {"a": 0, "b": 1, "<s>": 2, "d": 3}}})");
  CHECK(tokens::difference(one, one).empty());
  CHECK(tokens::difference(one, same).empty());
  CHECK(tokens::difference(one, other) == "id 1 is 'b' in " + one + " and 'c' in " + other);
  CHECK(tokens::difference(one, more) == "id 3 is no token in " + one + " and 'd' in " + more);
}

TEST_CASE("a vocabulary of scores is a list in the order of ids") {
  const auto one = folder("list", R"({"model": {"vocab": [["a", -1.5], ["b", -2]]}})");
  const auto same = folder("object", R"({"model": {"vocab": {"a": 0, "b": 1}}})");
  CHECK(tokens::difference(one, same).empty());
}

TEST_CASE("where there are no tokenizer.json, nothing can be said; one that is broken is named") {
  const auto one = folder("alone", R"({"model": {"vocab": {"a": 0}}})");
  CHECK(tokens::difference(one, "").empty());
  CHECK(tokens::difference("", one).empty());
  CHECK(tokens::difference(one, (folders() / "nowhere").string()).empty());
  CHECK_THROWS_AS(tokens::difference(one, folder("broken", "{")), capstan::Error);
  CHECK_FALSE(tokens::difference(one, folder("strange", R"([1, {"added_tokens": 3}])")).empty());
}

}  // namespace same_tokens_test
