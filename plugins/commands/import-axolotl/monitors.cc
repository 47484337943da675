#include <capstan/base/text.h>

#include <algorithm>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

void take_text(Import& import, const std::string& path, const std::string& ours) {
  const auto text = import.text(path);
  if (!text.empty()) import.set(ours, text, path);
}

void take_wandb(Import& import) {
  const bool on = import.has("use_wandb") ? import.is_true("use_wandb") : !import.text("wandb_project").empty();
  if (!on || import.text("wandb_mode") == "disabled") return;
  import.set("monitor.wandb.enabled", true, import.has("use_wandb") ? "use_wandb" : "wandb_project");
  take_text(import, "wandb_project", "monitor.wandb.project");
  take_text(import, "wandb_name", "monitor.wandb.name");
  const auto mode = import.text("wandb_mode");
  if (mode.empty()) return;
  const bool is_known = mode == "online" || mode == "offline" || mode == "dryrun";
  if (!is_known) return import.fault("wandb_mode", cat("is ", mode), "use online, offline or disabled");
  import.set("monitor.wandb.mode", mode == "online" ? "online" : "offline", "wandb_mode");
}

void take_mlflow(Import& import) {
  const auto place = import.text("mlflow_tracking_uri");
  const bool on = import.has("use_mlflow") ? import.is_true("use_mlflow") : !place.empty();
  if (!on) return;
  import.set("monitor.mlflow.enabled", true, import.has("use_mlflow") ? "use_mlflow" : "mlflow_tracking_uri");
  if (place.find("://") != std::string::npos) {
    import.choose("monitor.mlflow.folder", "\"mlruns\"", "a folder: nothing is sent to a server while a run trains",
                  "mlflow_tracking_uri");
  } else if (!place.empty()) {
    import.set("monitor.mlflow.folder", import.local(place), "mlflow_tracking_uri");
  }
  take_text(import, "mlflow_experiment_name", "monitor.mlflow.experiment");
}

// Classes of axolotl's integrations that only make the same numbers faster, or log them.
bool is_neutral(const std::string& plugin) {
  static const std::vector<std::string> neutral{"liger",   "cut_cross_entropy", "kernels",    "expert_parallel",
                                                "swanlab", "spectrum_logger",   "mora_logger"};
  return std::any_of(neutral.begin(), neutral.end(), [&](const std::string& name) {
    return plugin.find("integrations." + name + ".") != std::string::npos;
  });
}

void take_plugins(Import& import) {
  for (const auto& plugin : import.texts("plugins")) {
    if (!is_neutral(plugin))
      import.fault("plugins", cat("names ", plugin), "remove it to train without, or write a plugin: docs/plugins.md");
  }
}

}  // namespace

void take_monitors(Import& import) {
  take_wandb(import);
  take_mlflow(import);
  if (import.is_true("use_tensorboard")) import.set("monitor.tensorboard.enabled", true, "use_tensorboard");
  take_plugins(import);
}

}  // namespace import_axolotl
