#include "app/program.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/comm/connect.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "app/check_command.h"
#include "app/checkpoint_command.h"
#include "app/data_command.h"
#include "app/eval_command.h"
#include "app/export_command.h"
#include "app/generate_command.h"
#include "app/hub_cache.h"
#include "app/import_deepspeed.h"
#include "app/launch.h"
#include "app/plugins_command.h"
#include "app/preflight_command.h"
#include "app/reference.h"
#include "app/run_command.h"
#include "app/tokenize_command.h"
#include "config/foreign_keys.h"
#include "setup/options.h"

namespace capstan::app {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::string resolved;
  std::string gpu;
  int nodes = 0;
  bool spawn_local = false;
  std::string plugin;
  std::string deepspeed;
  std::string tokenizer;
  bool special = false;
  CheckpointArguments checkpoint;
  DataArguments data;
  EvalArguments eval;
  GenerateArguments generate;
  ExportArguments exported;
};

void add_config_arguments(CLI::App& command, Arguments& arguments, const std::string& ranks_help) {
  command.add_option("config", arguments.config, "configuration file (TOML)")->required();
  command.add_option("overrides", arguments.overrides,
                     "options that win over the file: train.max_steps=250 strategy.fsdp.mode=no_shard");
  command.add_option("-n,--ranks", arguments.ranks, ranks_help)->check(CLI::Range(1, 1 << 20));
}

void add_spawn_argument(CLI::App& command, Arguments& arguments) {
  command.add_flag("--spawn-local", arguments.spawn_local,
                   "under srun with one task a node: start the node's ranks, one a GPU, or -n of them");
}

// The commands that look at data and at what a model says. Returns whether it was one of them.
std::optional<int> dispatch_looking(const CLI::App& app, Arguments arguments, int argc, char** argv,
                                    const Environment& env) {
  if (app.got_subcommand("data")) {
    arguments.data.config = arguments.config;
    arguments.data.overrides = arguments.overrides;
    return data_command(arguments.data, env, ::isatty(STDOUT_FILENO) == 1);
  }
  if (app.got_subcommand("eval")) {
    auto& eval = arguments.eval;
    eval.config = arguments.config;
    eval.overrides = arguments.overrides;
    eval.ranks = arguments.ranks;
    eval.argc = argc;
    eval.argv = argv;
    return eval_command(eval, env);
  }
  if (app.got_subcommand("generate")) {
    auto& generate = arguments.generate;
    generate.ranks = arguments.ranks;
    generate.argc = argc;
    generate.argv = argv;
    return generate_command(generate, env);
  }
  return {};
}

// What a command has printed is its result: where that did not all arrive, all is not well. A run's lie in its folder.
int with_output(int code, bool is_result) {
  errno = 0;
  const bool arrived = std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (arrived) return code;
  const int reason = errno;
  std::fprintf(stderr, "capstan: %s\nnot all could be written to standard output%s\n", is_result ? "error" : "warning",
               reason == 0 ? "" : (": " + meaning_of(reason)).c_str());
  return is_result && code == static_cast<int>(ExitCode::success) ? static_cast<int>(ExitCode::failure) : code;
}

RunArguments run_arguments(const Arguments& arguments, int argc, char** argv) {
  return {arguments.config,
          arguments.overrides,
          arguments.ranks,
          arguments.spawn_local,
          argc,
          argv,
          setup::Purpose::train,
          {}};
}

int dispatch(const CLI::App& app, const Arguments& arguments, int argc, char** argv) {
  const auto env = process_environment();
  const auto folders = plugin_folders(env);
  if (app.got_subcommand("run")) return run_command(run_arguments(arguments, argc, argv), env);
  if (app.got_subcommand("preflight")) return preflight_command(run_arguments(arguments, argc, argv), env);
  if (app.got_subcommand("check")) {
    return check_command(
        {arguments.config, arguments.overrides, arguments.ranks, arguments.resolved, arguments.gpu, arguments.nodes},
        env);
  }
  if (app.got_subcommand("export")) return export_command(arguments.exported, env);
  if (app.got_subcommand("import-deepspeed")) return import_deepspeed_command(arguments.deepspeed);
  if (app.got_subcommand("tokenize"))
    return tokenize_command(arguments.tokenizer, hub_cache(env), arguments.special, std::cin, std::cout);
  if (app.got_subcommand("checkpoint")) return checkpoint_command(arguments.checkpoint, std::cout, std::cerr);
  if (const auto code = dispatch_looking(app, arguments, argc, argv, env)) return *code;
  plugin::Host host(folders);
  const auto found = host.discover();
  if (app.got_subcommand("plugins")) {
    const auto text = arguments.plugin.empty() ? plugins_text(found) : plugin_text(found, arguments.plugin);
    std::fputs(text.c_str(), stdout);
  } else {
    std::fputs(reference_markdown(setup::host_schemas(), found).c_str(), stdout);
  }
  return static_cast<int>(ExitCode::success);
}

void add_export_arguments(CLI::App& command, ExportArguments& arguments) {
  command.add_option("run", arguments.run, "folder of a run, or of one of its checkpoints")->required();
  command.add_option("--to", arguments.to, "hf: a folder that transformers loads; peft: its adapters, as peft does")
      ->check(CLI::IsMember({"hf", "peft"}));
  command.add_flag("--merge", arguments.merge,
                   "with hf: add a run's adapters into the model that they were trained for");
  command.add_option("--out", arguments.out, "folder to write; model, or adapter, in the run's folder when not given");
  command.add_option("--dtype", arguments.dtype, "auto: that of the model the run started from, else of its weights")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "fp16"}));
  command.add_option("--shard-gb", arguments.shard_gb, "largest file, in GB (default 5)")
      ->check(CLI::Validator(
          [](const std::string& text) -> std::string {
            return CLI::PositiveNumber(text).empty() ? "" : text + " is no number above 0";
          },
          "above 0"));
}

// Flags that other programs have ("--learning_rate", "--learning_rate=5e-5", "--nproc-per-node=4"), each with its
// option here.
std::string foreign_flags_text(const std::vector<std::string>& arguments) {
  Diagnostics faults;
  for (const auto& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const auto flag = argument.substr(0, argument.find('='));
    const auto* whole = config::find_foreign(flag);
    auto name = flag.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    const auto* foreign = whole ? whole : config::find_foreign(name);
    if (foreign) {
      faults.add("command line", cat("there is no flag ", flag, ": an option is set as table.option=value"),
                 config::foreign_hint(*foreign));
    }
  }
  return faults.empty() ? "" : error_text(Error(faults.list()));
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// Says why the arguments could not be read, or the help that they ask for. The exit code.
int parse_failure(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const auto say = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    return static_cast<int>(ExitCode::usage);
  };
  const auto first = arguments.empty() ? std::string() : arguments.front();
  if (app.get_subcommands().empty() && !first.empty() && first[0] != '-')
    return say(error_text(Error(cat("there is no command '", first, "'"), suggestion(first, command_names(app)))));
  if (const auto text = foreign_flags_text(arguments); !text.empty()) return say(text);
  const auto code = app.exit(error);
  return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
}

}  // namespace

std::string error_text(const Error& error) {
  const auto faults = error.diagnostics().size();
  return cat("capstan: error", faults > 1 ? cat(" (", faults, " faults)") : "", "\n", error.what(), "\n");
}

int report_exception(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    std::fputs(error_text(*error).c_str(), stderr);
    return static_cast<int>(ExitCode::failure);
  }
  std::fprintf(stderr, "capstan: this is a bug, please report it with the run's logs: %s\n", exception.what());
  return static_cast<int>(ExitCode::bug);
}

namespace {

void add_looking_commands(CLI::App& app, Arguments& arguments) {
  const std::vector<std::string> splits{"train", "eval"};
  auto* data = app.add_subcommand("data", "print samples as the model sees them, what bears no loss dimmed");
  add_config_arguments(*data, arguments, "not used");
  data->remove_option(data->get_option("--ranks"));
  data->add_option("--show", arguments.data.show, "how many (default 3)")->check(CLI::Range(1, 1 << 20));
  data->add_option("--from", arguments.data.from, "the first one, from 0")->check(CLI::NonNegativeNumber);
  data->add_option("--split", arguments.data.split, "train or eval (default train)")->check(CLI::IsMember(splits));
  auto* eval = app.add_subcommand("eval", "loss and scores of a base model, a run or a checkpoint, without training");
  add_config_arguments(*eval, arguments, "start this many local ranks");
  eval->get_option("config")->description("configuration file (TOML), or a run's folder or checkpoint");
  eval->add_option("--split", arguments.eval.split, "eval or train (default eval)")->check(CLI::IsMember(splits));
  eval->add_option("--samples", arguments.eval.samples, "questions to answer, the first ones; -1 (default): all")
      ->check(CLI::Range(-1LL, 1LL << 40));
  auto* generate = app.add_subcommand("generate", "answer prompts: arguments, or the lines of standard input");
  auto& g = arguments.generate;
  generate
      ->add_option(
          "model", g.model,
          "a Hugging Face model folder or an id of the hub in its cache, a run's folder or one of its checkpoints")
      ->required();
  generate->add_option("prompts", g.prompts, "prompts; none: one a line from standard input");
  generate->add_flag("--json", g.json, R"(JSON lines: {"prompt": ..., "id": ...} in, with "answer" out)");
  generate->add_option("--set", g.overrides,
                       "options of a configuration: train.max_new_tokens=100 train.temperature=0.7 train.top_p=0.9 "
                       "run.seed=1 strategy.fsdp.mode=full_shard");
  generate->add_option("-n,--ranks", arguments.ranks, "start this many local ranks")->check(CLI::Range(1, 1 << 20));
}

}  // namespace

int program(int argc, char** argv) {
  CLI::App app{
      "Capstan trains large language models; strategies, models, data and monitors are plugins named in a TOML file."};
  app.set_version_flag("--version", "capstan " + version());
  app.require_subcommand(1);
  app.footer("Every option of a configuration: docs/configuration.md, or capstan plugins NAME.");
  Arguments arguments;
  auto* run = app.add_subcommand(
      "run", "train; under srun, torchrun or mpirun as one of their ranks, otherwise alone or with -n local ranks");
  add_config_arguments(*run, arguments, "start this many local ranks");
  add_spawn_argument(*run, arguments);
  auto* preflight = app.add_subcommand(
      "preflight",
      "measure devices, links, bandwidth, matrix rate and disk of the run's ranks; one PASS, WARN or FAIL");
  add_config_arguments(*preflight, arguments, "start this many local ranks");
  add_spawn_argument(*preflight, arguments);
  auto* check = app.add_subcommand(
      "check",
      "read and judge a configuration, print every option and where it comes from; trains nothing, touches no GPU");
  add_config_arguments(*check, arguments, "number of ranks that the run will have (default 1)");
  check
      ->add_option("--nodes", arguments.nodes,
                   "number of nodes that these ranks will be on, as many on each (default 1)")
      ->check(CLI::Range(1, 1 << 20));
  check->add_option(
      "--resolved", arguments.resolved,
      "also write the configuration here as one file with every option, which means the same in any folder");
  check->add_option("--gpu", arguments.gpu,
                    "say whether each rank fits into this GPU (v100-32g, a100-40g, a100-80g, h100-80g, h200-141g, or a "
                    "size such as 80GiB), and if not what would help");
  auto* plugins = app.add_subcommand("plugins", "list the plugins that are found, or the options of one");
  plugins->add_option("name", arguments.plugin, "a plugin");
  add_export_arguments(*app.add_subcommand("export", "write a run's weights as a folder for other programs"),
                       arguments.exported);
  auto* import = app.add_subcommand("import-deepspeed",
                                    "print a DeepSpeed configuration as TOML; without a file, what its keys become");
  import->add_option("file", arguments.deepspeed, "DeepSpeed's JSON file");
  auto* tokenize = app.add_subcommand(
      "tokenize", R"(read JSON lines {"text": ...} from stdin, write {"ids": [...], "decoded": ...})");
  tokenize->add_option("tokenizer", arguments.tokenizer, "a model's folder or hub id, a tokenizer.json, or byte")
      ->required();
  tokenize->add_flag("--special", arguments.special, "with the begin and end tokens that it puts around a text");
  add_checkpoint_command(app, arguments.checkpoint);
  add_looking_commands(app, arguments);
  app.add_subcommand("reference", "print the reference of all options (docs/configuration.md)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error, {argv + 1, argv + argc});
  }
  try {
    return with_output(dispatch(app, arguments, argc, argv), !app.got_subcommand("run"));
  } catch (const std::exception& error) {
    const int code = report_exception(error);
    const bool is_run = app.got_subcommand("run") || app.got_subcommand("preflight");
    return code == static_cast<int>(ExitCode::failure) && !is_run ? static_cast<int>(ExitCode::usage) : code;
  }
}

}  // namespace capstan::app
