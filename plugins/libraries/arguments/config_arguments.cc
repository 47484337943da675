#include "arguments/config_arguments.h"

namespace arguments {

void add_config(CLI::App& app, ConfigArguments& arguments, const std::string& config_help) {
  app.add_option("config", arguments.config, config_help)->required();
  app.add_option("overrides", arguments.overrides,
                 "options that win over the file: train.max_steps=250 strategy.fsdp.mode=no_shard; train.accumulation= "
                 "unsets what the file says");
}

void add_ranks(CLI::App& app, int& ranks) {
  app.add_option("-n,--ranks", ranks, "start this many local ranks")->check(CLI::Range(1, 1000000));
}

void add_spawn_local(CLI::App& app, bool& spawn_local) {
  app.add_flag("--spawn-local", spawn_local,
               "under srun with one task a node: start the node's ranks, one a GPU, or -n of them");
}

}  // namespace arguments
