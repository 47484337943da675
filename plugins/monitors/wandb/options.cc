#include "options.h"

namespace wandb {

using namespace capstan;

void WandbOptions::describe(config::OptionTable<WandbOptions>& t) {
  t.add("mode", &WandbOptions::mode)
      .choices({"offline", "online"})
      .doc(
          "offline: a folder that wandb sync sends; online: wandb's own client also sends it while the run trains; not "
          "set: WANDB_MODE of the environment, else offline");
  t.add("project", &WandbOptions::project).doc("empty: WANDB_PROJECT of the environment, else capstan");
  t.add("name", &WandbOptions::name).doc("the run's name there; empty: WANDB_NAME of the environment, else run.name");
  t.add("folder", &WandbOptions::folder)
      .path()
      .doc("folder that gets the folder wandb; not set: WANDB_DIR of the environment, else the run's");
  t.add("system_interval_s", &WandbOptions::system_interval_s)
      .min(0)
      .max(1e8)
      .doc("seconds between two samples of the system metrics");
  t.add("python", &WandbOptions::python)
      .doc("online: the Python 3 that has wandb (0.20 or newer); empty: that of $VIRTUAL_ENV, else python3 of PATH");
  t.add("wait_s", &WandbOptions::wait_s)
      .min(0)
      .max(86400)
      .doc(
          "online: seconds that the end of a run waits at most until all is sent; after a stop or a failure 10 at "
          "most");
}

std::string variable(const Environment& environment, const char* name) {
  return environment ? environment(name).value_or("") : "";
}

Mode mode_of(const WandbOptions& options, const Environment& environment) {
  const auto wanted = variable(environment, "WANDB_MODE");
  if (wanted == "disabled") return Mode::disabled;
  return options.mode.value_or(wanted) == "online" ? Mode::online : Mode::offline;
}

}  // namespace wandb
