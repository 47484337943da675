#include <capstan/session/split_view.h>

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/folder.h"
#include "testing/tiny.h"

namespace split_view_test {

using namespace capstan;

namespace {

plugin::Host& host() {
  static plugin::Host host;
  static const bool once = (host.add(testing::tiny_model()), host.add(testing::tiny_data()), true);
  CHECK(once);
  return host;
}

std::optional<std::string> no_environment(const std::string&) { return {}; }

std::string config_of(const test::Folder& folder) {
  return folder.write("a.toml",
                      "[run]\nhost_memory = 1000\n[model]\nplugin = \"tiny\"\n[data]\nplugin = \"tiny\"\n"
                      "samples = 9\n[train]\nmax_steps = 1\nglobal_batch = 1\n");
}

}  // namespace

TEST_CASE("samples are seen as rows that are padded to the longest, and packed where the configuration packs") {
  const test::Folder folder;
  const auto file = config_of(folder);
  const auto opened = session::SplitView::open(file, {}, data::Split::train, no_environment, host());
  const auto& view = *opened;
  REQUIRE(view.size() == 9);
  std::vector<data::Sample> samples;
  std::int64_t tokens = 0, longest = 0;
  for (std::int64_t i = 0; i < view.size(); ++i) {
    samples.push_back(view.sample(i));
    const auto positions = static_cast<std::int64_t>(samples.back().tokens.size()) - 1;  // the last is only predicted
    tokens += positions;
    longest = std::max(longest, positions);
  }
  const auto batch = view.batch(samples);
  CHECK(batch.rows == 9);
  CHECK(batch.cols >= longest);
  CHECK(batch.real_tokens == tokens);
  CHECK_FALSE(view.packed(samples));
  const auto packing =
      session::SplitView::open(file, {"data.packing=true"}, data::Split::train, no_environment, host());
  const auto packed = packing->packed(samples);
  REQUIRE(packed);
  CHECK(packed->rows < batch.rows);
  CHECK(packed->real_tokens == batch.real_tokens);
  CHECK(packed->target_tokens == batch.target_tokens);
}

TEST_CASE("a split without data is refused with the other, and a configuration's faults are thrown") {
  const test::Folder folder;
  const auto file = config_of(folder);
  try {
    (void)session::SplitView::open(file, {}, data::Split::eval, no_environment, host());
    FAIL("there is a view of nothing");
  } catch (const Error& error) {
    CHECK_THAT(error.diagnostics().front().what, Contains("'eval'"));
    CHECK_THAT(error.diagnostics().front().fix, Contains("set data.eval") && Contains("--split train"));
  }
  CHECK_THROWS_WITH(session::SplitView::open(file, {"optimizer.lr=-1"}, data::Split::train, no_environment, host()),
                    Contains("optimizer.lr"));
}

}  // namespace split_view_test
