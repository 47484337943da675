#include "job/open_micro_batch.h"

namespace capstan::job {

using setup::TrainOptions;

void judge_open_micro_batch(const setup::Configuration& config, Diagnostics& faults) {
  if (!config.auto_micro_batch || !config.trains()) return;
  const auto& train = config.train;
  const auto where = train.where(&TrainOptions::micro_batch);
  if (config.device != "cuda") {
    faults.add(where, "train.micro_batch = \"auto\" on CPUs: memory of a micro-step is predicted only for GPUs",
               "give a number");
  } else if (!train->global_batch) {
    faults.add(where, "train.micro_batch = \"auto\" without train.global_batch, which it would change",
               "set train.global_batch");
  } else if (train->accumulation) {
    faults.add(train.where(&TrainOptions::accumulation),
               "train.accumulation and train.global_batch leave train.micro_batch = \"auto\" nothing to choose",
               "leave train.accumulation out; on the command line, train.accumulation= unsets what a file says");
  }
}

void judge_open_room(const setup::Configuration& config, Diagnostics& faults) {
  if (!config.auto_micro_batch || !config.trains() || config.request.gpu_room > 0) return;
  faults.add(config.train.where(&TrainOptions::micro_batch),
             "train.micro_batch = \"auto\": it is not known into which GPU it must fit",
             "tell check of it with --gpu, such as --gpu h100-80g, or give a number");
}

}  // namespace capstan::job
