// Fully sharded data parallelism (Zhao et al. 2023, "PyTorch FSDP"): options turned into the shard engine's policy.
#include <capstan/strategy.h>

namespace {

using namespace capstan;

struct FsdpOptions {
  std::string mode = "full_shard";

  static void describe(config::OptionTable<FsdpOptions>& t) {
    t.add("mode", &FsdpOptions::mode)
        .choices({"full_shard", "no_shard"})
        .doc(
            "full_shard: parameters, gradients and optimizer state cut among the data ranks, a unit gathered while "
            "it computes; no_shard: all of them whole on every rank");
  }
};

class Fsdp : public strategy::Strategy {
 public:
  explicit Fsdp(config::Options<FsdpOptions> options) : options_(std::move(options)) {}

  void claim(strategy::Claims& claims) const override { claims.exclusive("parameter storage"); }

  void shard(strategy::ShardPolicy& policy) override {
    const bool sharded = options_->mode == "full_shard";
    policy.shard_param = policy.shard_grad = policy.shard_optim = sharded;
    policy.reshard_after_forward = true;
    policy.owner = "fsdp";
  }

 private:
  config::Options<FsdpOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("fsdp", "0.1.0", "shards parameters, gradients and optimizer state along the data axes", Fsdp,
                 FsdpOptions)
