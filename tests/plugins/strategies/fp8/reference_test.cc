// A run whose loss leaves the band of a reference ends, in words.
#include "plugins/strategies/fp8/reference.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/families.h"
#include "support/folder.h"

namespace reference_test {

using namespace capstan;

namespace {

std::string line_of(std::int64_t step, const std::string& loss) {
  return "{\"step\":" + std::to_string(step) + ",\"loss\":" + loss + ",\"grad_norm\":1.0}\n";
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a reference is read from metrics.jsonl, and a bad line is named") {
  const test::Folder folder;
  const auto file = folder.write("metrics.jsonl", line_of(0, "4.0") + line_of(2, "3.5") +
                                                      "{\"step\":3,\"split\":\"eval\",\"loss\":9.0}\n" +
                                                      line_of(3, "null") + line_of(4, "3.25") + "{\"step\":5,\"lo");
  const auto losses_of = [](const std::string& path) { return fp8::losses_of({path, 0.02, 3}); };
  CHECK(losses_of(file) == fp8::Losses{{0, 4.0}, {2, 3.5}, {4, 3.25}});
  const auto bad = folder.write("bad.jsonl", line_of(0, "4.0") + "step 1: 3.5\n");
  CHECK_THAT(message_of([&] { losses_of(bad); }), Contains("bad.jsonl:2") && Contains("not a JSON object"));
  const auto text = folder.write("text.jsonl", line_of(0, "\"4\""));
  CHECK_THAT(message_of([&] { losses_of(text); }), Contains("text.jsonl:1") && Contains("no number"));
  for (const char* loss : {"-0.5", "1e300", "1e999"}) {
    const auto far = folder.write("far.jsonl", line_of(0, loss));
    CHECK_THAT(message_of([&] { losses_of(far); }), Contains("far.jsonl:1") && Contains("fix: "));
  }
  const auto empty = folder.write("empty.jsonl", "");
  CHECK_THAT(message_of([&] { losses_of(empty); }), Contains("no step with a loss"));
  const auto deep = folder.write("deep.jsonl", line_of(0, std::string(100000, '[') + std::string(100000, ']')));
  CHECK_THAT(message_of([&] { losses_of(deep); }), Contains("deep.jsonl:1") && Contains("not a JSON object"));
}

TEST_CASE("a reference that could never be compared is refused, and one of any step's number takes no memory") {
  const test::Folder folder;
  const auto file = folder.write("short.jsonl", line_of(0, "4.0") + line_of(1, "null") + line_of(90000000000, "3.5"));
  CHECK(fp8::losses_of({file, 0.02, 2}) == fp8::Losses{{0, 4.0}, {90000000000, 3.5}});
  CHECK_THAT(message_of([&] {
               fp8::losses_of({file, 0.02, 50});
             }),
             Contains("short.jsonl: it has 2 steps with a loss, and strategy.fp8.window is 50") &&
                 Contains("at most 2, or name a longer run's"));
}

TEST_CASE("means over a window are compared, and nothing else stops a run") {
  fp8::LossBand band({"bf16.jsonl", 0.1, 3}, {{0, 4}, {1, 4}, {3, 4}, {4, 4}, {5, 4}});
  CHECK_NOTHROW(band.loss_known(0, 9));    // the window is not full
  CHECK_NOTHROW(band.loss_known(1, 1));    // … nor now
  CHECK_NOTHROW(band.loss_known(2, 100));  // the reference lacks it
  CHECK_NOTHROW(band.loss_known(3, 3));    // (9 + 1 + 3) / 3 is within 4.4
  CHECK_NOTHROW(band.loss_known(4, 9.1));  // (1 + 3 + 9.1) / 3
  CHECK_NOTHROW(band.loss_known(9, 100));  // beyond its end
  CHECK_THAT(message_of([&] { band.loss_known(5, 4.5); }),
             Contains("after step 5 the mean loss of 3 steps is 5.5333") &&
                 Contains("reference's is 4.0000 there: 38.3 % above it") && Contains("allows 10 %") &&
                 Contains("bf16.jsonl") && Contains("without strategy.fp8"));
}

TEST_CASE("a run's own losses are within any band, those of a better run are not") {
  const test::Folder folder;
  testing::Setting setting{.world = 2, .steps = 4};
  const std::string sizes = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\n";
  const auto with = [&](const std::string& file) {
    setting.config =
        testing::family_config({"llama", sizes}) + "[strategy.fp8]\nwindow = 2\nreference = \"" + file + "\"\n";
    return testing::train(setting);
  };
  setting.config = testing::family_config({"llama", sizes}) + "[strategy.fp8]\n";
  const auto losses = testing::train(setting).losses;
  std::string same, better;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    same += line_of(static_cast<std::int64_t>(i), std::to_string(losses[i]));
    better += line_of(static_cast<std::int64_t>(i), std::to_string(losses[i] * (i < 2 ? 1 : 0.9)));
  }
  CHECK(with(folder.write("same.jsonl", same)).losses == losses);
  const auto message = message_of([&] { with(folder.write("better.jsonl", better)); });
  CHECK_THAT(message, Contains("after step 2 the mean loss of 2 steps is") && Contains("better.jsonl"));
  CHECK_THAT(message_of([&] { with((folder.path() / "missing.jsonl").string()); }),
             Contains("missing.jsonl") && Contains("strategy.fp8.reference") &&
                 Contains("fix: name the metrics.jsonl of a run in bf16"));
}

}  // namespace reference_test
