#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/session/run_to_export.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace exporting {
namespace {

using namespace capstan;
namespace fs = std::filesystem;

struct ExportArguments {
  std::string run;      ///< a run's folder, or one of its checkpoints
  std::string out;      ///< the folder to write; empty: the form's own, in the run's folder
  double shard_gb = 5;  ///< largest file, 10^9 bytes
  session::ExportForm form;
};

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
                    (arguments.out.empty() ? cat("; ", arguments.form.to == "hf" ? "transformers" : arguments.form.to,
                                                 " loads this one as it is")
                                           : ""),
                out.string());
  }
  return out;
}

std::string fault_of_size(const std::string& text) {
  char* end = nullptr;
  const double size = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && *end == '\0';
  return is_number && size > 0 && std::isnormal(size) ? std::string() : text + " is no number above 0";
}

void declare(command::Arguments& arguments, ExportArguments& given) {
  arguments.value("run", given.run, "folder of a run, or of one of its checkpoints").required();
  arguments.value("--to", given.form.to,
                  "hf: a folder that transformers loads; or what a strategy of the run writes for another program");
  arguments.flag("--merge", given.form.merge,
                 "with hf: add a run's adapters into the model that they were trained for");
  arguments.value("--quantization", given.form.quantization,
                  "with hf: the form in which a strategy of the run kept the frozen model, which is written so, "
                  "without adapters");
  arguments.value("--out", given.out,
                  "folder to write; model, or the format's own, in the run's folder when not given");
  arguments.value("--dtype", given.form.dtype, "auto: that of the model the run started from, else of its weights")
      .one_of({"auto", "fp32", "bf16", "fp16"});
  arguments.value("--shard-gb", given.shard_gb, "largest file, in GB (default 5)").check(fault_of_size, "above 0");
}

/// capstan export RUN
int run(const command::Call& call) {
  command::Arguments arguments;
  ExportArguments given;
  declare(arguments, given);
  if (const auto code = arguments.read(call)) return *code;
  given.form.shard_bytes = static_cast<std::int64_t>(given.shard_gb * 1e9);
  const auto folder = run_of(given.run);
  const auto exported = session::RunToExport::open(folder, call.environment, call.plugins);
  const auto out = out_folder(given, folder, exported->folder_of(given.form));
  terminal::print(exported->write(given.form, given.run, out) + "\n");
  return static_cast<int>(ExitCode::success);
}

}  // namespace

CAPSTAN_COMMAND("export", "0.1.0", "write a run's weights as a folder for other programs", run)

}  // namespace exporting
