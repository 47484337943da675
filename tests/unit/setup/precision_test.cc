#include "setup/precision.h"

#include <capstan_catch.h>

#include "job/assemble.h"
#include "support/small_run.h"

namespace precision_test {

using namespace capstan;
using job::precision_of;
using setup::loss_scaling_of;

namespace {

config::Options<setup::TrainOptions> train_options(std::vector<config::Entry> entries) {
  Diagnostics diagnostics;
  int line = 10;
  for (auto& entry : entries) entry.origin = {config::Origin::Layer::file, "a.toml", line++};
  config::Options<setup::TrainOptions> options({"train", {}, std::move(entries)}, diagnostics);
  diagnostics.throw_if_any();
  return options;
}

config::Entry set(const std::string& key, config::Value value) { return {key, std::move(value), {}, {}}; }
config::Value text(const char* value) { return std::string(value); }

std::vector<std::string> faults(std::vector<config::Entry> entries, const std::string& device = "cpu") {
  Diagnostics diagnostics;
  setup::check_precision(train_options(std::move(entries)), device, diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

using Faults = std::vector<std::string>;

}  // namespace

TEST_CASE("dtypes of each precision") {
  struct Row {
    const char* name;
    c10::ScalarType compute, master, reduce;
  };
  for (const auto& row :
       {Row{"fp32", at::kFloat, at::kFloat, at::kFloat}, Row{"bf16", at::kBFloat16, at::kFloat, at::kFloat},
        Row{"fp16", at::kHalf, at::kFloat, at::kFloat}, Row{"bf16_pure", at::kBFloat16, at::kBFloat16, at::kBFloat16},
        Row{"fp64", at::kDouble, at::kDouble, at::kDouble}}) {
    INFO(row.name);
    const c10::Device device(c10::kCUDA, 3);
    const auto precision = precision_of(row.name, device);
    CHECK(precision.compute == row.compute);
    CHECK(precision.master == row.master);
    CHECK(precision.reduce == row.reduce);
    CHECK(precision.device == device);
  }
}

TEST_CASE("what train.loss_scale means") {
  setup::TrainOptions options;
  const auto scaling = [&](const std::string& precision, const std::string& asked) {
    options.precision = precision;
    options.loss_scale = asked;
    return loss_scaling_of(options);
  };
  options.loss_scale_init = 256;
  options.loss_scale_window = 7;
  options.loss_scale_min = 4;
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp64"}) CHECK_FALSE(scaling(precision, "auto")->on);
  CHECK_FALSE(scaling("fp16", "none")->on);
  for (const auto& found : {scaling("fp16", "auto"), scaling("fp64", "dynamic")}) {
    REQUIRE(found);
    CHECK(found->on);
    CHECK(found->dynamic);
    CHECK(found->initial == 256);
    CHECK(found->window == 7);
    CHECK(found->min == 4);
  }
  const auto fixed = scaling("fp32", "1024");
  REQUIRE(fixed);
  CHECK(fixed->on);
  CHECK_FALSE(fixed->dynamic);
  CHECK(fixed->initial == 1024);
  CHECK(scaling("fp32", "0.5")->initial == 0.5);
  for (const char* wrong : {"", "0", "-2", "1k", "inf", "nan", "static"}) CHECK_FALSE(scaling("fp32", wrong));
}

TEST_CASE("faults of precision and loss scale, with their line and a fix") {
  CHECK(faults({set("precision", text("bf16"))}).empty());
  CHECK(faults({set("precision", text("fp16"))}, "cuda").empty());
  CHECK(faults({set("precision", text("fp16"))}) ==
        Faults{"a.toml:10: train.precision is \"fp16\": fp16 compute without a GPU\n"
               "    fix: use \"bf16\" or \"fp32\" here; to check a configuration for a machine with GPUs, set "
               "run.device = \"cuda\""});
  CHECK(faults({set("loss_scale", text("1k"))}) ==
        Faults{"a.toml:10: train.loss_scale is \"1k\"\n"
               "    fix: give \"auto\", \"none\", \"dynamic\" or a number above 0, such as \"1024\""});
  CHECK(faults({set("loss_scale", text("dynamic")), set("loss_scale_init", 8.0), set("loss_scale_min", 16.0)}) ==
        Faults{"a.toml:12: train.loss_scale_min 16 is above train.loss_scale_init 8\n"
               "    fix: lower the one or raise the other"});
  CHECK(faults({set("loss_scale_window", std::int64_t{5})}).empty());  // there for when precision is fp16
  CHECK(faults({set("loss_scale", text("1024")), set("loss_scale_init", 8.0), set("loss_scale_min", 2.0),
                set("loss_scale_window", std::int64_t{5})})
            .size() == 3);
  CHECK(faults({set("loss_scale", text("none")), set("loss_scale_window", std::int64_t{5})}) ==
        Faults{"a.toml:11: train.loss_scale_window has no effect: train.loss_scale is \"none\"\n"
               "    fix: remove it, or set train.loss_scale = \"dynamic\""});
}

TEST_CASE("a job with fp16 on the CPU is refused while it is prepared") {
  const auto file = testing::small_config();
  CHECK_THROWS_WITH(testing::prepare_small(file, {"train.precision=fp16"}, 1, 0),
                    Contains("fp16 compute without a GPU"));
}

TEST_CASE("bf16_pure computes as bf16 does, and keeps masters and gradients in bf16 too") {
  const int world = GENERATE(1, 2);
  const auto mixed = testing::run_small(world, {"train.precision=bf16"}, 1);
  const auto pure = testing::run_small(world, {"train.precision=bf16_pure"}, 8);
  CHECK(pure.losses.front() == mixed.losses.front());  // the same rounded weights
  for (const auto& [name, weight] : pure.weights) {
    INFO(name);
    CHECK(weight.scalar_type() == at::kBFloat16);
    CHECK(mixed.weights.at(name).scalar_type() == at::kFloat);
    const auto& gradient = pure.gradients.at(name);
    CHECK(gradient.scalar_type() == at::kBFloat16);
    // Sums over ranks are taken in float32 and rounded once here, not there.
    CHECK(at::equal(gradient, mixed.gradients.at(name).to(at::kBFloat16)));
  }
  CHECK(pure.losses.back() < pure.losses.front());
}

}  // namespace precision_test
