// Folders in 4 bits, of transformers with bitsandbytes and of Capstan, each read by the other.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <fstream>

#include "checkpoint/scratch.h"
#include "hf/door.h"
#include "job/assemble.h"
#include "nn/init_source.h"
#include "parity/python.h"
#include "parity/reference.h"
#include "support/job.h"

namespace four_bits_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

const fs::path& four_bit_folders() {
  static const MadeFolder made("four_bits.py", {"make"});
  return made.path();
}

// LoRA adapters begin with zeros: the model is its base.
job::Job four_bit_job(const std::string& folder) {
  const auto config = four_bit_folders() / "job.toml";
  std::ofstream(config) << "[run]\ndevice = \"cpu\"\n[model]\nplugin = \"llama\"\npath = \"" << folder
                        << "\"\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n[train]\nmax_steps = 1\n"
                           "global_batch = 1\nprecision = \"fp32\"\n[strategy.lora]\n[strategy.nf4]\n";
  setup::JobRequest request;
  request.file = config.string();
  return testing::job_of(request);
}

// How far Capstan's logits for this folder are from the reference's, as a share of the largest.
double distance(const std::string& folder, const std::string& reference) {
  const auto expected = parity::load(four_bit_folders() / "reference.safetensors");
  const auto& theirs = expected.at(reference);
  double apart = 0;
  const auto job = four_bit_job(folder);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    const auto ours = parity::logits_of(session, expected.at("ids"));
    REQUIRE(ours.sizes() == theirs.sizes());
    apart = ((ours - theirs).abs().max() / theirs.abs().max()).item<double>();
  });
  return apart;
}

std::string packed_by_us(const std::string& from, const std::string& name) {
  const auto job = four_bit_job(from);
  const auto to = four_bit_folders() / name;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                 job::pointers(job.model->units)};
    session::ExportForm options;
    options.quantization = "bnb-nf4";
    nn::InitSource adapters(7);
    hf::door().write(model, adapters, to, options, communicator);
  });
  return to.string();
}

}  // namespace

TEST_CASE("a folder that bitsandbytes packed gives its logits, and a model packed here nearly the same") {
  at::set_num_threads(1);
  CHECK(distance("packed", "packed") < 1e-5);  // as whole models in float32
  CHECK(distance("packed", "plain") > 1e-2);   // 4 bits are another model
  CHECK(distance("plain", "packed") < 1e-3);   // a magnitude may be one place of 256 apart (docs/nf4.md)
}

TEST_CASE("transformers loads what Capstan packed: the same codes, and of a packed folder the same bits") {
  const auto packed = (four_bit_folders() / "packed").string();
  run_python("four_bits.py", {"check", packed, packed_by_us("packed", "again"), packed_by_us("plain", "ours")});
  const auto theirs = parity::load(four_bit_folders() / "packed/model.safetensors"),
             again = parity::load(four_bit_folders() / "again/model.safetensors");
  for (const auto& [name, tensor] : theirs) {
    INFO(name);
    REQUIRE(again.contains(name));
    if (!name.ends_with("bitsandbytes__nf4")) CHECK(at::equal(tensor, again.at(name)));  // that one is JSON
  }
}

TEST_CASE("a folder with bitsandbytes' default, single quantization, is refused with what to do") {
  std::string text;
  try {
    const auto job = four_bit_job("single");
    comm::run_in_process(1, [&](comm::Communicator& communicator) { step::materialise(job, communicator); });
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK_THAT(text, Contains("single/model.safetensors") && Contains("without double quantization") &&
                       Contains("bnb_4bit_use_double_quant=True"));
}

}  // namespace four_bits_test
