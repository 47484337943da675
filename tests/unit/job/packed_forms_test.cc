#include "job/packed_forms.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "support/errors.h"

namespace packed_forms_test {

using namespace capstan;

TEST_CASE("a folder of quantized weights is decoded, read by a strategy, or refused by its method's name") {
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
            "from, or one in a form of docs/model-files.md, or of bitsandbytes (strategy.nf4)");
  CHECK_THAT(fault(R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}})"),
             Contains("quantized (bitsandbytes in 8 bits)"));
  CHECK(forms == 0);
  // These are decoded where no strategy keeps them.
  CHECK(fault(R"({"quantization_config": {"quant_method": "bitsandbytes"}})").empty());
  CHECK(fault(R"({"quantization_config": {"quant_method": "fp8"}})").empty());
  for (const std::string fmt : {"e4m3", "float8_e4m3fn"})
    CHECK(fault(R"({"quantization_config": {"quant_method": "fp8", "fmt": ")" + fmt + "\"}}").empty());
  CHECK_FALSE(fault(R"({"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}})").empty());
  CHECK(forms == 0);
}

}  // namespace packed_forms_test
