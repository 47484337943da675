// ZeRO's stages (Rajbhandari et al. 2020; offload: Ren et al. 2021): options turned into the shard engine's policy.
#include <capstan/strategy.h>

#include <optional>
#include <string>
#include <vector>

namespace {

using namespace capstan;

struct ZeroOptions {
  std::int64_t stage = 2;
  std::string offload_optimizer = "none";
  std::string offload_param = "none";
  double offload_ratio = 1;
  bool pin_memory = true;
  std::int64_t bucket_size = 0;
  bool overlap = true;
  std::string reduce_dtype = "auto";

  static std::vector<plugin::Saving> savings() {
    using By = plugin::Saving::By;
    return {{By::sharding, "shard the optimizer's state", {"stage=1"}},
            {By::sharding, "shard the optimizer's state and gradients", {"stage=2"}},
            {By::sharding, "shard everything", {"stage=3"}},
            {By::offloading, "keep the optimizer in host memory", {"stage=3", "offload_optimizer=cpu"}}};
  }
  static void describe(config::OptionTable<ZeroOptions>& t) {
    t.add("stage", &ZeroOptions::stage)
        .min(0)
        .max(3)
        .doc(
            "cut among the data ranks: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too, a bucket "
            "gathered while it computes");
    t.add("offload_optimizer", &ZeroOptions::offload_optimizer)
        .choices({"none", "cpu"})
        .doc("cpu: masters and optimizer state live in host memory and are updated there; needs stage 1 or more");
    t.add("offload_param", &ZeroOptions::offload_param)
        .choices({"none", "cpu"})
        .doc("cpu: parameters' shards live in host memory; needs stage 3 and offload_optimizer = \"cpu\"");
    t.add("offload_ratio", &ZeroOptions::offload_ratio)
        .above(0)
        .max(1)
        .doc(
            "share of the parameters that offload_optimizer and offload_param hold for, in whole buckets; the first "
            "buckets stay on the GPU and are updated there");
    t.add("pin_memory", &ZeroOptions::pin_memory).doc("page-lock offloaded host memory, so that copies overlap");
    t.add("bucket_size", &ZeroOptions::bucket_size)
        .min(0)
        .doc("parameters that one collective moves: neighbouring units are joined up to that many; 0: a unit each");
    t.add("overlap", &ZeroOptions::overlap).doc("collectives run during compute, one gather ahead");
    t.add("reduce_dtype", &ZeroOptions::reduce_dtype)
        .choices({"auto", "fp32", "bf16", "fp16"})
        .doc("dtype of gradients on their way between ranks; auto: the masters'");
  }
};

class Zero : public strategy::Strategy {
 public:
  explicit Zero(config::Options<ZeroOptions> options) : options_(std::move(options)) {}

  void claim(strategy::Claims& claims) const override {
    claims.exclusive("parameter storage");
    if (options_->stage > 0) claims.shared("summed gradients on dp");
  }

  void check(const strategy::Facts& facts, Diagnostics& diagnostics) const override {
    if (offloads_optimizer() && options_->stage == 0) {
      diagnostics.add(options_.where(&ZeroOptions::offload_optimizer),
                      "strategy.zero.offload_optimizer needs optimizer state that is cut, and stage is 0",
                      "set stage = 1, 2 or 3");
    }
    if (offloads_param() && options_->stage < 3) {
      diagnostics.add(options_.where(&ZeroOptions::offload_param),
                      "strategy.zero.offload_param needs stage 3, and stage is " + std::to_string(options_->stage),
                      "set stage = 3, or offload_param = \"none\"");
    }
    if (offloads_param() && !offloads_optimizer()) {
      diagnostics.add(
          options_.where(&ZeroOptions::offload_param),
          "strategy.zero.offload_param = \"cpu\" without offload_optimizer: the masters would stay on the GPU",
          "set offload_optimizer = \"cpu\" too");
    }
    if (options_->offload_ratio < 1 && !offloads_optimizer()) {
      diagnostics.add(options_.where(&ZeroOptions::offload_ratio),
                      "strategy.zero.offload_ratio is a share of what is offloaded, and offload_optimizer is \"none\"",
                      "set offload_optimizer = \"cpu\", or remove offload_ratio");
    }
    if (options_->reduce_dtype == "fp16" && facts.device == "cpu") {
      diagnostics.add(options_.where(&ZeroOptions::reduce_dtype), "fp16 needs a GPU, and this run is on cpu",
                      "use bf16 or fp32");
    }
  }

  // A series of experiments changes the stage and keeps the rest, so this gets a warning, not an error.
  std::vector<std::string> notes() const override {
    if (offloads_optimizer() || !options_.is_set(&ZeroOptions::pin_memory)) return {};
    return {"note: " + options_.name(&ZeroOptions::pin_memory) + " has no effect without offload_optimizer = \"cpu\""};
  }

  void shard(strategy::ShardPolicy& policy) override {
    policy.shard_optim = options_->stage >= 1;
    policy.shard_grad = options_->stage >= 2;
    policy.shard_param = options_->stage >= 3;
    if (options_->bucket_size > 0) policy.bucket_size = {strategy::BucketSize::By::at_most, options_->bucket_size};
    policy.overlap = options_->overlap;
    policy.forward_prefetch = options_->overlap;
    if (!options_->overlap) policy.backward_prefetch = strategy::BackwardPrefetch::none;
    if (options_->reduce_dtype == "fp32") policy.reduce_dtype = c10::ScalarType::Float;
    if (options_->reduce_dtype == "bf16") policy.reduce_dtype = c10::ScalarType::BFloat16;
    if (options_->reduce_dtype == "fp16") policy.reduce_dtype = c10::ScalarType::Half;
    policy.offload_optim = offloads_optimizer();
    policy.offload_param = offloads_param();
    policy.offload_ratio = options_->offload_ratio;
    policy.pin_memory = options_->pin_memory;
    policy.owner = "zero";
  }

 private:
  bool offloads_optimizer() const { return options_->offload_optimizer == "cpu"; }
  bool offloads_param() const { return options_->offload_param == "cpu"; }

  config::Options<ZeroOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("zero", "0.1.0", "ZeRO stages 0 to 3 with offload to host memory", Zero, ZeroOptions)
