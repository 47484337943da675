// Which forms a run can be written in. What is written: exports_test.cc and model_folder_test.cc.
#include <capstan/session/run_to_export.h>

#include <optional>

#include "job/halves.h"

namespace run_to_export_test {

using namespace capstan;
using session::ExportForm;

namespace {

plugin::Host& host() {
  static plugin::Host host;
  static const bool once =
      (host.add(testing::type<strategy::Strategy, halves::HalvesStrategy, halves::HalvesOptions>("strategy", "halves")),
       true);
  CHECK(once);
  return host;
}

std::optional<std::string> no_environment(const std::string&) { return {}; }

/// A run's folder as far as its configuration.
std::filesystem::path run_in(const Scratch& scratch, const std::string& tables) {
  scratch.write("run/config.toml",
                "[run]\ndevice = \"cpu\"\n[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 2\n"
                "seq_length = 24\nhidden_size = 16\nnum_heads = 2\nff_dim = 24\n[data]\nplugin = \"synthetic\"\n"
                "tokenizer = \"byte\"\n[train]\nmax_steps = 1\nglobal_batch = 1\nprecision = \"fp32\"\n" +
                    tables);
  return scratch / "run";
}

Diagnostic fault_of(const session::RunToExport& run, const ExportForm& form) {
  try {
    (void)run.folder_of(form);
  } catch (const Error& error) {
    return error.diagnostics().front();
  }
  return {};
}

}  // namespace

TEST_CASE("a run is written for other programs in the forms that it and its strategies have") {
  const Scratch scratch;
  const auto run = session::RunToExport::open(run_in(scratch, "[strategy.halves]\n"), no_environment, host());
  CHECK(run->folder_of(ExportForm{}) == "model");
  CHECK(run->folder_of(ExportForm{.quantization = "halves"}) == "model");
  CHECK(run->folder_of(ExportForm{.to = "csv"}) == "table");
  const auto unknown = fault_of(*run, ExportForm{.to = "nothing"});
  CHECK_THAT(unknown.what, Contains("\"nothing\""));
  CHECK_THAT(unknown.fix, Contains("choose --to hf or --to csv"));
  const auto other = fault_of(*run, ExportForm{.quantization = "other"});
  CHECK_THAT(other.what, Contains("\"other\""));
  CHECK_THAT(other.fix, Contains("or choose halves"));
}

TEST_CASE("what goes only with a Hugging Face folder, or only with adapters, is refused elsewhere") {
  const Scratch scratch;
  const auto run = session::RunToExport::open(run_in(scratch, "[strategy.halves]\n"), no_environment, host());
  CHECK_THAT(fault_of(*run, ExportForm{.to = "csv", .merge = true}).what, Contains("--merge goes with --to hf"));
  CHECK_THAT(fault_of(*run, ExportForm{.to = "csv", .quantization = "halves"}).what,
             Contains("--quantization goes with --to hf"));
  CHECK_THAT(fault_of(*run, ExportForm{.quantization = "halves", .merge = true}).fix, Contains("give one of the two"));
  CHECK_THAT(fault_of(*run, ExportForm{.merge = true}).what, Contains("this run has none"));
}

TEST_CASE("a run without the strategy that has a form cannot be written in it") {
  const Scratch scratch;
  const auto run = session::RunToExport::open(run_in(scratch, ""), no_environment, host());
  CHECK_THAT(fault_of(*run, ExportForm{.to = "csv"}).what, Contains("cannot be written as \"csv\""));
  CHECK_THAT(fault_of(*run, ExportForm{.quantization = "halves"}).fix, Contains("leave --quantization out"));
}

}  // namespace run_to_export_test
