#include "commands/export_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/plugin_folders.h"
#include "session/adapter_state.h"
#include "session/exports.h"
#include "session/job.h"
#include "session/model_folder.h"
#include "session/weights.h"

namespace capstan::commands {
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

// `usual`: its name in the run's folder.
fs::path out_folder(const ExportArguments& arguments, const fs::path& run, const std::string& usual) {
  auto out = arguments.out.empty() ? run / usual : fs::path(arguments.out);
  if (is_there(out) && !(is_folder(out) && entries_of(out).empty())) {
    throw Error("it is there already, and nothing is written over it",
                "name another folder: --out FOLDER" +
                    (arguments.out.empty()
                         ? cat("; ", arguments.to == "hf" ? "transformers" : arguments.to, " loads this one as it is")
                         : ""),
                out.string());
  }
  return out;
}

// "it is strategy.fsdp that DOES so: ", of the first installed strategy that has what the run's own have not.
template <class Has>
std::string who(plugin::Host& host, const std::string& does, const Has& has) {
  for (const auto& [table, strategy] : assembly::installed_strategies(host)) {
    if (has(*strategy)) return cat("it is ", table, " that ", does, " so: ");
  }
  return {};
}

int export_as(const ExportArguments& arguments, const fs::path& run, const session::ModelJob& job, plugin::Host& host) {
  const auto exports = session::exports_of(job.plugins.strategies);
  const auto is_meant = [&](const auto& one) { return one.exporter->name() == arguments.to; };
  const auto found = std::find_if(exports.begin(), exports.end(), is_meant);
  if (found == exports.end()) {
    const auto writes = [&](const strategy::Strategy& other) {
      const auto all = other.exporters();
      return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one->name() == arguments.to; });
    };
    const auto options = session::export_options(job.plugins.strategies);
    throw Error(cat("this run cannot be written as \"", arguments.to, "\""),
                cat(who(host, "writes runs", writes), "choose --to hf", options.empty() ? "" : " or " + options));
  }
  if (arguments.merge) throw Error("--merge goes with --to hf", "leave --merge away, or write --to hf");
  if (!arguments.quantization.empty())
    throw Error("--quantization goes with --to hf", "leave --quantization away, or write --to hf");
  const auto out = out_folder(arguments, run, found->exporter->folder());
  terminal::print(session::write_export(*found, job.plugins, *session::open_boxes(arguments.run), out) + "\n");
  return static_cast<int>(ExitCode::success);
}

// Throws Error for what does not go with the run, or together.
void check_hf(const ExportArguments& arguments, const session::ModelJob& job, const std::vector<nn::Unit*>& units,
              plugin::Host& host) {
  const auto& form = arguments.quantization;
  if (arguments.merge && !form.empty()) {
    const auto options = session::export_options(job.plugins.strategies);
    throw Error("--merge adds adapters into numbers, which --quantization would round again",
                cat("give one of the two", options.empty() ? "" : "; adapters go beside a quantized base: " + options));
  }
  if (arguments.merge && session::adapters_of(units).empty())
    throw Error("--merge adds adapters into the model, and this run has none", "leave --merge away");
  const auto forms = session::forms_of(units);
  if (form.empty() || std::find(forms.begin(), forms.end(), form) != forms.end()) return;
  const auto keeps = [&](const strategy::Strategy& other) {
    const auto all = other.packed_forms();
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == form; });
  };
  throw Error(cat("nothing that this run trained with is kept as \"", form, "\""),
              cat(who(host, "keeps weights", keeps), "leave --quantization away",
                  forms.empty() ? "" : cat(", or choose ", join(forms, " or "))));
}

}  // namespace

int export_command(const ExportArguments& arguments, const launch::Environment& env) {
  const auto run = run_of(arguments.run);
  plugin::Host host(cli::plugin_folders(env), false, cli::trusts_writers(env));
  setup::JobRequest request;
  request.file = (run / "config.toml").string();
  request.hub = config::hub_cache(env);
  Diagnostics diagnostics;
  const auto job = session::prepare_model(request, host, diagnostics);
  diagnostics.throw_if_any();
  const auto units = assembly::pointers(job->model.units);
  if (arguments.to != "hf") return export_as(arguments, run, *job, host);
  check_hf(arguments, *job, units, host);
  const auto out = out_folder(arguments, run, "model");
  const auto values = session::open_boxes(arguments.run);
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

void add_export_command(CLI::App& app, cli::Chosen& chosen) {
  auto* command = app.add_subcommand("export", "write a run's weights as a folder for other programs");
  const auto given = std::make_shared<ExportArguments>();
  command->add_option("run", given->run, "folder of a run, or of one of its checkpoints")->required();
  command->add_option("--to", given->to,
                      "hf: a folder that transformers loads; or what a strategy of the run writes for another program");
  command->add_flag("--merge", given->merge, "with hf: add a run's adapters into the model that they were trained for");
  command->add_option("--quantization", given->quantization,
                      "with hf: the form in which a strategy of the run kept the frozen model, which is written so, "
                      "without adapters");
  command->add_option("--out", given->out,
                      "folder to write; model, or the format's own, in the run's folder when not given");
  command->add_option("--dtype", given->dtype, "auto: that of the model the run started from, else of its weights")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "fp16"}));
  const auto above_0 = [](const std::string& text) {
    const bool is_finite = text.find_first_of("nN") == std::string::npos;  // "nan", "inf" and their like
    return is_finite && CLI::PositiveNumber(text).empty() ? std::string() : text + " is no number above 0";
  };
  command->add_option("--shard-gb", given->shard_gb, "largest file, in GB (default 5)")
      ->check(CLI::Validator(above_0, "above 0"));
  cli::choose_with(*command, chosen,
                   [given](const cli::Process& process) { return export_command(*given, process.env); });
}

}  // namespace capstan::commands
