#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <string>
#include <utility>

#include "plugins/commands/import-deepspeed/translate.h"

namespace refused_values_test {

TEST_CASE("a key that would change the training is not passed over: its other values are refused") {
  const std::pair<std::string, std::string> refused[] = {
      {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-6}}})",
       "scheduler.params.warmup_min_lr is 1e-06, which Capstan does not offer: the warm-up starts at 0"},
      {R"({"scheduler": {"type": "WarmupCosineLR", "params": {"warmup_min_ratio": 0.1}}})",
       "scheduler.params.warmup_min_ratio is 0.1, which Capstan does not offer"},
      {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "log"}}})",
       "scheduler.params.warmup_type is \"log\", which Capstan does not offer: the warm-up is linear"},
      {R"({"scheduler": {"type": "WarmupLR", "params": {"cos_min_ratio": 0.1}}})",
       "scheduler.params.cos_min_ratio is a parameter of WarmupCosineLR, not of WarmupLR"},
      {R"({"elasticity": {"enabled": true, "max_train_batch_size": 2000}})",
       "elasticity is enabled, which Capstan does not offer: batch sizes are those of [train]"},
      {R"({"autotuning": {"enabled": true}})", "autotuning is enabled, which Capstan does not offer"}};
  for (const auto& [json, words] : refused) {
    INFO(json);
    CHECK_THROWS_WITH(import_deepspeed::translate("ds.json", json), Contains("ds.json: ") && Contains(words));
  }
  // Hugging Face's "auto" is 0, and a table that is off asks for nothing.
  for (const char* json :
       {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_type": "linear"}}})",
        R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.0}}})",
        R"({"elasticity": {"enabled": false}, "autotuning": {"enabled": false}, "amp": {"enabled": false}})"})
    CHECK_NOTHROW(import_deepspeed::translate("ds.json", json));
}

}  // namespace refused_values_test
