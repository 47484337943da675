#include "job/packed_forms.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "support/errors.h"

namespace packed_forms_test {

using namespace capstan;

TEST_CASE("a folder of quantized weights is taken as a strategy that is installed reads it, or refused by its name") {
  const Scratch scratch;
  plugin::Host host;
  std::size_t forms = 0;
  const auto fault = [&](const std::string& json) {
    write_file(scratch / "config.json", json);
    return test::error_of([&] { forms = job::forms_of_folder(scratch.path().string(), {}, host).size(); });
  };
  CHECK(fault(R"({"quantization_config": {"quant_method": "gptq"}})") ==
        (scratch / "config.json").string() +
            ": its weights are quantized (gptq), which is not supported\n    fix: take the model that it was quantized "
            "from, or one that was quantized by bitsandbytes (strategy.nf4)");
  CHECK(forms == 0);
  CHECK(fault(R"({"quantization_config": {"quant_method": "bitsandbytes"}})").empty());
  CHECK(forms == 1);
}

}  // namespace packed_forms_test
