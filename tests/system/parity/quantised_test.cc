// Folders in codes are read as the numbers that transformers and bitsandbytes make of them, bit by bit, and are written
// as numbers (quantised.py).
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "hf/door.h"
#include "job/assemble.h"
#include "parity/models.h"

namespace quantised_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

const fs::path& folders() {
  static const MadeFolder made("quantised.py", {});
  return made.path();
}

at::Tensor values(layout::Source& source, const layout::Param& record, const layout::Box& box) {
  auto out = at::empty(box.size, at::kFloat);
  source.fill(record, box, out);
  return out;
}

// A part of a matrix that begins and ends inside of blocks.
layout::Box inner(const layout::Param& record) {
  auto box = layout::Box::whole(record.shape);
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    box.offset[d] = std::min<std::int64_t>(5, record.shape[d] - 1);
    box.size[d] = std::max<std::int64_t>(1, record.shape[d] - 2 * box.offset[d]);
  }
  return box;
}

}  // namespace

TEST_CASE("matrices in FP8 and in 4 bits are read as their numbers, bit by bit, and exported as numbers") {
  std::vector<std::string> pairs{"check"};
  const Scratch scratch;
  for (const auto* name : {"blocks", "ragged", "matrices", "nf4", "nf4-single", "fp4"}) {
    INFO(name);
    const auto folder = folders() / name, numbers = folders() / (std::string(name) + "-numbers");
    const auto job = parity::prepare("llama", folder, "fp32");
    CHECK_THAT(job.plugins.model->note, Contains("which are decoded as they are read"));
    const auto map = job.plugins.model->object->file_map();
    const auto read = hf::door().open({.path = folder, .map = map});
    const auto expected = hf::door().open({.path = numbers, .map = map});
    for (const auto* record : job::records_of(job.model->own)) {
      INFO(record->name);
      for (const auto& box : {layout::Box::whole(record->shape), inner(*record)})
        CHECK(at::equal(values(*read, *record, box), values(*expected, *record, box)));
    }
    const auto to = scratch / name;
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                   job::pointers(job.model->units)};
      hf::door().write(model, *read, to, {}, communicator);
    });
    CHECK_FALSE(Json::parse(read_file(to / "config.json")).contains("quantization_config"));
    pairs.insert(pairs.end(), {numbers.string(), to.string(), "same"});
  }
  run_python("export.py", pairs);
}

TEST_CASE("other ways to quantize are refused by name") {
  const Scratch scratch;
  fs::copy(folders() / "blocks-numbers", scratch / "other");
  auto config = Json::parse(read_file(scratch / "other/config.json"));
  const auto fault = [&](const Json& how) -> std::string {
    config["quantization_config"] = how;
    write_file(scratch / "other/config.json", config.dump());
    try {
      parity::prepare("llama", scratch / "other", "fp32");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  CHECK_THAT(fault({{"quant_method", "gptq"}, {"bits", 4}}),
             Contains("config.json: its weights are quantized (gptq), which is not supported") &&
                 Contains("take the model that it was quantized from, or one in a form of docs"));
  CHECK_THAT(fault({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}),
             Contains("quantized (bitsandbytes in 8 bits)"));
  CHECK_THAT(fault({{"quant_method", "fp8"}, {"fmt", "e5m2"}}), Contains("quantized (fp8)"));
}

}  // namespace quantised_test
