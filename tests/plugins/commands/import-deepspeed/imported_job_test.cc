// What import-deepspeed prints is a configuration that `check` accepts; what Capstan would refuse is refused in the
// JSON's own words.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "job/settle.h"
#include "plugins/commands/import-deepspeed/translate.h"
#include "support/folder.h"

namespace imported_job_test {

using namespace capstan;

namespace {

std::vector<std::string> texts(const Diagnostics& diagnostics) {
  std::vector<std::string> out;
  for (const auto& one : diagnostics.list()) out.push_back(one.text());
  return out;
}

// The model, the data and what an imported file leaves open, as a user has them.
constexpr const char* own = R"(extends = "imported.toml"
[run]
device = "cuda"
host_memory = 100
[model]
plugin = "gpt"
[data]
plugin = "synthetic"
[train]
epochs = 1
)";

// What `check` says of an imported configuration on two ranks with a GPU each.
std::vector<std::string> check(const std::string& toml) {
  static plugin::Host host;
  const test::Folder folder;
  folder.write("imported.toml", toml);
  setup::JobRequest request;
  request.file = folder.write("a.toml", own);
  request.world_size = 2;
  Diagnostics diagnostics;
  job::make_job(request, host, diagnostics);
  return texts(diagnostics);
}

// A part of a JSON, and what is said where it is refused.
struct Part {
  std::string json;
  std::string refused = {};
};

const std::vector<Part> precisions{
    {R"("steps_per_print": 1)"},
    {R"("fp16": {"enabled": true})"},
    {R"("fp16": {"enabled": true, "loss_scale": 0})"},
    {R"("fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 500,
        "min_loss_scale": 1})"},
    {R"("fp16": {"enabled": true, "loss_scale": 128})"},
    {R"("fp16": {"enabled": true, "loss_scale": 128, "initial_scale_power": 12, "loss_scale_window": 500,
        "min_loss_scale": 2})"},
    {R"("fp16": {"enabled": true, "loss_scale": "auto", "initial_scale_power": "auto", "min_loss_scale": "auto"})"},
    {R"("fp16": {"enabled": "auto", "loss_scale": 128, "loss_scale_window": 1000}, "bf16": {"enabled": "auto"})"},
    {R"("fp16": {"enabled": false, "loss_scale": 128, "loss_scale_window": 1000}, "bf16": {"enabled": true})"},
    {R"("fp16": {"enabled": true, "min_loss_scale": 0})", "fp16.min_loss_scale is 0, expected above 0"},
    {R"("fp16": {"enabled": true, "initial_scale_power": 4, "min_loss_scale": 32})",
     "fp16.min_loss_scale is 32, above the first scale, 16"}};

const std::vector<Part> optimizers{
    {R"("gradient_clipping": 1.0)"},
    {R"("optimizer": {"type": "AdamW"})"},
    {R"("optimizer": {"type": "AdamW", "params": {"lr": 5e-5, "betas": [0.9, 0.999], "eps": 1e-8}})"},
    {R"("optimizer": {"type": "Lion", "params": {"lr": 5e-5, "betas": [0.9, 0.98], "eps": 1e-8}})"},
    {R"("optimizer": {"type": "AdamW", "params": {"betas": [0.9]}})", "optimizer.params.betas is [0.9]"},
    {R"("optimizer": {"type": "AdamW", "params": {"betas": [0.9, 1.0]}})", "optimizer.params.betas is [0.9,1.0]"},
    {R"("optimizer": {"type": "AdamW", "params": {"eps": 0}})", "optimizer.params.eps is 0, expected above 0"}};

const std::vector<Part> schedulers{
    {R"("wall_clock_breakdown": false)"},
    {R"("scheduler": {"type": "WarmupLR"})"},
    {R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}})"},
    {R"("scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 20, "warmup_type": "linear"}})"},
    {R"("scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 20, "warmup_num_steps": 5}})"}};

const std::vector<Part> stages{
    {R"("communication_data_type": "FP32")"},
    {R"("communication_data_type": "fp16", "zero_optimization": {"stage": 2})"},
    {R"("communication_data_type": "fp8")", "communication_data_type is \"fp8\" (one of: fp32, fp16, bf16)"},
    {R"("zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu", "ratio": 0.5}})"},
    {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"ratio": 0.5}})"},
    {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none", "ratio": 0.5}})"},
    {R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true},
        "offload_param": {"device": "cpu"}})"},
    {R"("zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_params": true})"},
    {R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}})",
     "zero_optimization.offload_param.device offloads the parameters and not the optimizer, which Capstan does not "
     "offer (add \"offload_optimizer\": {\"device\": \"cpu\"}, or remove offload_param)"},
    {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 1.5}})",
     "zero_optimization.offload_optimizer.ratio is 1.5, expected above 0 and at most 1"},
    {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0}})",
     "zero_optimization.offload_optimizer.ratio is 0, expected above 0 and at most 1"}};

// Each part of one kind that is not refused, together with each of another.
void check_pairs(const std::vector<Part>& some, const std::vector<Part>& others) {
  for (const auto& one : some) {
    for (const auto& other : others) {
      if (!one.refused.empty() || !other.refused.empty()) continue;
      const auto json = cat("{", one.json, ", ", other.json, "}");
      const auto imported = import_deepspeed::translate("ds.json", json);
      INFO(json << "\n" << imported.toml);
      CHECK(join(check(imported.toml), "\n") == "");
    }
  }
}

}  // namespace

TEST_CASE("check accepts what import-deepspeed prints") {
  check_pairs(precisions, stages);
  check_pairs(precisions, schedulers);
  check_pairs(optimizers, schedulers);
  check_pairs(optimizers, stages);
}

TEST_CASE("the configuration that imported files are checked with judges them") {
  CHECK_THAT(join(check("[train]\nprecision = \"fp16\"\nloss_scale = \"128\"\nloss_scale_window = 1000\n")),
             Contains("train.loss_scale_window has no effect"));
  CHECK_THAT(join(check("[strategy.zero]\nstage = 3\noffload_param = \"cpu\"\n")),
             Contains("offload_param = \"cpu\" without offload_optimizer"));
}

TEST_CASE("what check would refuse of an imported file is refused in the JSON's words") {
  for (const auto& parts : {precisions, optimizers, schedulers, stages}) {
    for (const auto& part : parts) {
      if (part.refused.empty()) continue;
      INFO(part.json);
      std::vector<std::string> faults;
      try {
        import_deepspeed::translate("ds.json", cat("{", part.json, "}"));
      } catch (const Error& error) {
        for (const auto& fault : error.diagnostics())
          faults.push_back(cat(fault.where, ": ", fault.what, " (", fault.fix, ")"));
      }
      REQUIRE(faults.size() == 1);
      CHECK_THAT(faults.front(), Contains("ds.json: " + part.refused));
    }
  }
}

}  // namespace imported_job_test
