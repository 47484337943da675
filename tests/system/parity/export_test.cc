// Model folders that Capstan writes, as transformers sees them: loaded without a warning, the same logits, the same
// bytes in and out.
#include <capstan/checkpoint/folder_source.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <regex>

#include "config/to_toml.h"
#include "hf/door.h"
#include "job/assemble.h"
#include "parity/models.h"

namespace export_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

// The model of a job written by some ranks, with the values of a folder.
hf::WrittenModel write(const job::Job& job, const fs::path& values, const fs::path& to,
                       const session::ExportForm& options, int ranks = 1) {
  hf::WrittenModel written;
  comm::run_in_process(ranks, [&](comm::Communicator& communicator) {
    const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                 job::pointers(job.model->units)};
    const auto source = checkpoint::open_folder(values, job.plugins.model->object->file_map());
    const auto one = hf::door().write(model, *source, to, options, communicator);
    if (communicator.world().rank == 0) written = one;
  });
  return written;
}

// The same options without the folder that gave them.
job::Job without_path(const job::Job& job, const fs::path& file) {
  const auto text = std::regex_replace(config::to_toml(job.tables()), std::regex("\npath = [^\n]*"), "");
  std::ofstream(file) << text;
  setup::JobRequest request;
  request.file = file.string();
  auto out = testing::job_of(request);
  CHECK_FALSE(out.plugins.model_options->path);
  return out;
}

// What is to be compared in one run of Python, which takes seconds to start.
class Pairs {
 public:
  fs::path folder(const std::string& name) const { return scratch_ / name; }
  void add(const fs::path& original, const fs::path& exported, const std::string& dtype) {
    arguments_.insert(arguments_.end(), {original.string(), exported.string(), dtype});
  }
  void check() const { run_python("export.py", arguments_); }

 private:
  Scratch scratch_;
  std::vector<std::string> arguments_{"check"};
};

}  // namespace

TEST_CASE(
    "models of every family go in and out by the byte, load without a warning, and are written from options only where "
    "they came from no folder",
    "[transformers4]") {
  Pairs pairs;
  for (const auto& one : parity::cases) {
    const auto original = parity::folders() / one.name;
    const auto read = parity::prepare(one, "fp32");
    const auto written = write(read, original, pairs.folder(one.name), {});
    CHECK(written.files == 1);
    CHECK(written.dtype == "float32");
    CHECK_FALSE(written.has_tokenizer);
    pairs.add(original, written.folder, "same");
    if (one.is_inside) continue;  // options say nothing of what is around it
    const auto from_options = pairs.folder(one.name + "-from-options");
    const auto job = without_path(read, pairs.folder(one.name + ".toml"));
    pairs.add(original, write(job, original, from_options, {}).folder, "float32");
  }
  pairs.check();
}

TEST_CASE("models as they are published go in and out by the byte, and several ranks write several files",
          "[transformers4]") {
  Pairs pairs;
  run_python("export.py", {"variants", parity::folders().string(), pairs.folder("published").string()});
  for (const auto& [name, plugin] : {std::pair{"bloom", "bloom"},
                                     {"gpt2", "gpt"},
                                     {"gpt2-head", "gpt"},
                                     {"llama", "llama"},
                                     {"mixtral", "mixtral"},
                                     {"qwen2.5", "llama"}}) {
    INFO(name);
    const auto original = pairs.folder("published") / name;
    const bool has_tokenizer = fs::exists(original / "tokenizer.json");
    const auto job = parity::prepare(plugin, original, "fp32", has_tokenizer ? "auto" : "byte");
    const auto same = write(job, original, pairs.folder(std::string(name) + "-same"), {.shard_bytes = 60'000}, 3);
    CHECK(same.files > 3);
    CHECK(same.has_tokenizer == has_tokenizer);
    pairs.add(original, same.folder, "same");
    const auto half =
        write(job, original, pairs.folder(std::string(name) + "-bf16"), {.dtype = "bf16", .shard_bytes = 60'000}, 2);
    CHECK(half.dtype == "bfloat16");
    pairs.add(original, half.folder, "bfloat16");
  }
  pairs.check();
}

}  // namespace export_test
