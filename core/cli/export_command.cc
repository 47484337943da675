#include "cli/export_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/check_command.h"
#include "session/adapter_folder.h"
#include "session/job.h"
#include "session/model_folder.h"
#include "session/weights.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

std::optional<c10::ScalarType> dtype_of(const std::string& name) {
  if (name == "fp32") return c10::kFloat;
  if (name == "bf16") return c10::kBFloat16;
  if (name == "fp16") return c10::kHalf;
  return {};
}

// The run that a folder belongs to: itself, or what holds it (its weights, one of its checkpoints).
fs::path run_of(const fs::path& folder) {
  if (!is_folder(folder)) throw Error("there is no such folder", "name a run's folder", folder.string());
  const auto absolute = fs::weakly_canonical(folder);
  for (auto at = absolute; at != at.root_path(); at = at.parent_path()) {
    if (is_there(at / "config.toml")) return at;
  }
  throw Error("it holds no config.toml: this is no run's folder", "name the folder that `capstan run` printed",
              folder.string());
}

fs::path out_folder(const ExportArguments& arguments, const fs::path& run) {
  auto out = arguments.out.empty() ? run / (arguments.to == "peft" ? "adapter" : "model") : fs::path(arguments.out);
  if (is_there(out) && !(is_folder(out) && entries_of(out).empty())) {
    throw Error("it is there already, and nothing is written over it",
                "name another folder: --out FOLDER" +
                    std::string(arguments.out.empty() ? "; transformers loads this one as it is" : ""),
                out.string());
  }
  return out;
}

}  // namespace

int export_command(const ExportArguments& arguments, const launch::Environment& env) {
  const auto run = run_of(arguments.run);
  const auto out = out_folder(arguments, run);
  plugin::Host host(plugin_folders(env), false, trusts_writers(env));
  setup::JobRequest request;
  request.file = (run / "config.toml").string();
  request.hub = config::hub_cache(env);
  Diagnostics diagnostics;
  const auto job = session::prepare_model(request, host, diagnostics);
  diagnostics.throw_if_any();
  const auto units = assembly::pointers(job->model.units);
  const auto values = session::open_boxes(arguments.run);
  if (arguments.to == "peft") {
    if (arguments.merge) throw Error("--merge goes with --to hf", "leave --merge away, or write --to hf");
    if (!arguments.quantization.empty())
      throw Error("--quantization goes with --to hf", "leave --quantization away, or write --to hf");
    terminal::print(session::write_adapter_folder(job->plugins, units, *values, out) + "\n");
    return static_cast<int>(ExitCode::success);
  }
  if (arguments.merge && !arguments.quantization.empty()) {
    throw Error("--merge adds adapters into numbers, which --quantization would round again",
                "give one of the two; adapters go beside a quantized base: --to peft");
  }
  if (arguments.merge && session::adapters_of(units).empty())
    throw Error("--merge adds adapters into the model, and this run has none", "leave --merge away");
  session::ModelFolderOptions options;
  options.dtype = dtype_of(arguments.dtype);
  options.merged = arguments.merge;
  options.form = arguments.quantization;
  options.shard_bytes = static_cast<std::int64_t>(arguments.shard_gb * 1e9);
  const session::ModelToWrite model{job->plugins, job->tokenizer, *job->config.train};
  session::WrittenModel written;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    written = session::write_model_folder(model, units, *values, out, options, communicator);
  });
  terminal::print(session::written_text(written) + "\n");
  return static_cast<int>(ExitCode::success);
}

void add_export_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("export", "write a run's weights as a folder for other programs");
  const auto given = std::make_shared<ExportArguments>();
  command->add_option("run", given->run, "folder of a run, or of one of its checkpoints")->required();
  command->add_option("--to", given->to, "hf: a folder that transformers loads; peft: its adapters, as peft does")
      ->check(CLI::IsMember({"hf", "peft"}));
  command->add_flag("--merge", given->merge, "with hf: add a run's adapters into the model that they were trained for");
  command
      ->add_option("--quantization", given->quantization,
                   "with hf: bnb-nf4 writes the frozen model that strategy.nf4 kept in 4 bits, without adapters, as "
                   "transformers and bitsandbytes load it")
      ->check(CLI::IsMember({"bnb-nf4"}));
  command->add_option("--out", given->out, "folder to write; model, or adapter, in the run's folder when not given");
  command->add_option("--dtype", given->dtype, "auto: that of the model the run started from, else of its weights")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "fp16"}));
  const auto above_0 = [](const std::string& text) {
    const bool is_finite = text.find_first_of("nN") == std::string::npos;  // "nan", "inf" and their like
    return is_finite && CLI::PositiveNumber(text).empty() ? std::string() : text + " is no number above 0";
  };
  command->add_option("--shard-gb", given->shard_gb, "largest file, in GB (default 5)")
      ->check(CLI::Validator(above_0, "above 0"));
  choose_with(*command, chosen, [given](const Process& process) { return export_command(*given, process.env); });
}

}  // namespace capstan::cli
