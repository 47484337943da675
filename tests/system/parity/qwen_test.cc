// An original Qwen 2.5 folder, as it is published but tiny: the program trains it, and transformers loads what is left.
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "parity/models.h"
#include "parity/reference.h"
#include "step/session.h"

namespace qwen_test {

using namespace capstan;
namespace fs = std::filesystem;
using Ids = std::vector<std::int64_t>;

namespace {

Ids flat(const at::Tensor& ids) {
  const auto* begin = ids.const_data_ptr<std::int64_t>();
  return {begin, begin + ids.numel()};
}

// The logits of the text that export.py has, and its ids: transformers' and ours from the same folder.
void compare_logits(const fs::path& folder, const fs::path& scratch) {
  run_python("export.py", {"logits", folder.string(), (scratch / "logits.safetensors").string()});
  const auto reference = parity::load(scratch / "logits.safetensors");
  const auto job = parity::prepare("llama", folder, "fp32", "auto");
  const auto& tokenizer = *job.samples.tokenizer.object;
  CHECK(tokenizer.encode("Where is Paris? In the north, 48 degrees.") == flat(reference.at("ids")));
  CHECK(tokenizer.is_end(tokenizer.encode("<|im_end|>").front()));
  CHECK(tokenizer.is_end(tokenizer.encode("<|endoftext|>").front()));
  CHECK(tokenizer.end_id() == tokenizer.encode("<|im_end|>").front());
  CHECK(tokenizer.pad_id() == tokenizer.encode("<|endoftext|>").front());
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    const auto ours = parity::logits_of(session, reference.at("ids"));
    const auto& theirs = reference.at("logits");
    CHECK((ours - theirs).abs().max().item<double>() <= 1e-5 * theirs.abs().max().item<double>());
  });
}

std::string config_text(const fs::path& folder) {
  return cat("[run]\nname = \"qwen\"\ndir = \"runs\"\ndevice = \"cpu\"\n[model]\nplugin = \"llama\"\npath = \"",
             folder.string(), "\"\n[data]\nplugin = \"squad\"\ntrain = \"", CAPSTAN_SOURCE_DIR,
             "/configs/data/mini_squad_train.json\"\nmax_length = 200\n[train]\nmax_steps = 3\nglobal_batch = 4\n"
             "micro_batch = 2\nprecision = \"bf16\"\n[optimizer]\nlr = 1e-2\n");
}

}  // namespace

TEST_CASE("an original Qwen 2.5 folder trains, and transformers loads the model that the run leaves") {
  const Scratch scratch;
  const auto original = scratch / "Qwen2.5-0.5B-Instruct";
  run_python("export.py", {"qwen", original.string()});
  compare_logits(original, scratch.path());

  const auto config = scratch.write("qwen.toml", config_text(original));
  run_program(fs::path(CAPSTAN_BINARY_DIR) / "bin/capstan", {"run", config, "-n", "2"});
  const auto left = scratch / "runs/qwen/model";
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    INFO(name);
    CHECK(read_file(left / name) == read_file(original / name));
  }
  compare_logits(left, scratch.path());
  CHECK(read_file(left / "model.safetensors") != read_file(original / "model.safetensors"));
}

}  // namespace qwen_test
