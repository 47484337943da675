#include "setup/options.h"

namespace capstan::setup {

void OptimizerGroupOptions::describe(config::OptionTable<OptimizerGroupOptions>& t) {
  t.add("records", &OptimizerGroupOptions::records)
      .required()
      .doc(
          "patterns of parameters' names, such as [\"*.bias\", \"*norm*\"]; * stands for any characters and ? for one. "
          "A "
          "parameter belongs to the first group that has a pattern for it");
  t.add("lr_factor", &OptimizerGroupOptions::lr_factor).min(0).doc("their learning rate is optimizer.lr times this");
  t.add("weight_decay", &OptimizerGroupOptions::weight_decay)
      .min(0)
      .doc("decoupled weight decay of all of them, biases and norms too; not set: as [optimizer] says");
  t.add("plugin", &OptimizerGroupOptions::plugin)
      .doc("another optimizer for them, whose options stand in the same table; not set: [optimizer]'s");
}

}  // namespace capstan::setup
