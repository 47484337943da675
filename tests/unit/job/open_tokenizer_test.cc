// A tokenizer that a plugin brings: what the stages make of [tokenizer].
#include <capstan_catch.h>

#include "job/tokenizer_job.h"

namespace open_tokenizer_test {

using namespace capstan;
using tokenizer_job::Prepared;
using tokenizer_job::prepared;

namespace {

std::string only_fault(const Prepared& prepared) {
  REQUIRE(prepared.faults.size() == 1);
  CHECK_FALSE(prepared.job);
  return prepared.faults.front();
}

}  // namespace

TEST_CASE("[tokenizer] names a plugin, whose tokenizer a run uses") {
  const test::Folder folder;
  const auto out = prepared(folder, "[tokenizer]\nplugin = \"shift\"\nfirst = 5\n");
  CHECK(out.faults.empty());
  REQUIRE(out.job);
  const auto& tokenizer = *out.job->samples.tokenizer.object;
  using Ids = std::vector<std::int64_t>;
  CHECK(tokenizer.name() == "shifted");
  CHECK(tokenizer.vocab_size() == 205);
  CHECK(tokenizer.encode("a") == Ids{102});
  CHECK(tokenizer.decode({102}) == "a");
  CHECK(tokenizer.prefix_ids() == Ids{7});
  CHECK(tokenizer.suffix_ids() == Ids{8});
  CHECK(tokenizer.end_id() == 1);
  CHECK(tokenizer.is_end(2));
  CHECK(tokenizer.pad_id() == 0);
  CHECK_THROWS_WITH(tokenizer.encode(""),
                    Contains("there is nothing to encode") && Contains("while plugin 'shift' was in phase encode"));
  // The resolved configuration says the same again.
  const auto text = config::to_toml(out.job->tables());
  CHECK_THAT(text, Contains("[tokenizer]\nplugin = \"shift\"  # ") && Contains("first = 5  # "));
  CHECK_THAT(text, Contains("tokenizer = \"auto\"\n"));
}

TEST_CASE("what is wrong with [tokenizer] is said with its place") {
  const test::Folder folder;
  const auto file = (folder / "a.toml").string();
  const auto table = [](const std::string& rest) { return "[tokenizer]\nplugin = \"shift\"\n" + rest; };
  CHECK(only_fault(prepared(folder, table(""), "tokenizer = \"byte\"\n")) ==
        file + ":5: data.tokenizer and [tokenizer] (" + file +
            ":11) both say which tokenizer to use\n    fix: keep one: data.tokenizer for a tokenizer.json, [tokenizer] "
            "for a plugin");
  CHECK_THAT(only_fault(prepared(folder, table("frist = 1\n"))),
             Contains(file + ":12: unknown option tokenizer.frist") && Contains("did you mean 'first'?"));
  CHECK_THAT(only_fault(prepared(folder, "[tokenizer]\nfirst = 1\n")), Contains("tokenizer.plugin"));
  CHECK_THAT(only_fault(prepared(folder, "[tokenizer]\nplugin = \"shfit\"\n")),
             Contains(file + ":11: there is no tokenizer plugin 'shfit'; looked for"));
  CHECK_THAT(
      only_fault(prepared(folder, table("first = 8\n"))),
      Contains(file + ":11: the vocabulary is empty\n    fix: fill it\n    while plugin 'shift' was in phase open"));
  CHECK_THAT(only_fault(prepared(folder, table("first = 9\n"))),
             Contains("tokenizer plugin 'shift' opened no tokenizer"));
}

}  // namespace open_tokenizer_test
