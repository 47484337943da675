// Fully sharded data parallelism (Zhao et al. 2023, "PyTorch FSDP"): options turned into the shard engine's policy.
#include <capstan/strategy.h>

#include <optional>
#include <string>
#include <vector>

namespace {

using namespace capstan;

struct FsdpOptions {
  std::string mode = "full_shard";
  std::int64_t shard_size = 0;
  std::int64_t wrap = 1;
  std::int64_t min_num_params = 0;
  bool reshard_after_forward = true;
  std::int64_t reshard_size = 0;
  std::string backward_prefetch = "pre";
  bool forward_prefetch = true;
  bool limit_all_gathers = true;
  bool sync_module_states = false;
  std::string cast = "update";
  std::string param_dtype = "auto";
  std::string reduce_dtype = "auto";
  std::string reduce_by = "reduce_scatter";
  bool cpu_offload = false;
  bool pin_memory = true;

  static std::vector<plugin::Saving> savings() {
    using By = plugin::Saving::By;
    return {
        {By::sharding, "shard everything", {"mode=full_shard"}},
        {By::sharding, "shard everything inside a node", {"mode=hybrid_shard", "shard_size=0"}},
        {By::offloading, "keep the optimizer and parameters in host memory", {"mode=full_shard", "cpu_offload=true"}}};
  }
  static void describe(config::OptionTable<FsdpOptions>& t) {
    t.add("mode", &FsdpOptions::mode)
        .choices({"full_shard", "shard_grad_op", "hybrid_shard", "no_shard"})
        .doc(
            "full_shard: parameters, gradients and optimizer state cut among the data ranks, a unit gathered while "
            "it computes; shard_grad_op: the same, but gathered parameters stay from forward to backward; "
            "hybrid_shard: "
            "full_shard inside groups of shard_size ranks that each hold a copy; no_shard: all whole on every rank");
    t.add("shard_size", &FsdpOptions::shard_size)
        .min(0)
        .doc("hybrid_shard: ranks that hold one copy together; 0: the ranks of a node");
    t.add("wrap", &FsdpOptions::wrap).min(1).doc("neighbouring units that are gathered and reduced together");
    t.add("min_num_params", &FsdpOptions::min_num_params)
        .min(0)
        .doc("instead of wrap: as few neighbouring units together as have this many parameters; 0: by wrap");
    t.add("reshard_after_forward", &FsdpOptions::reshard_after_forward)
        .doc("free gathered parameters after a unit's forward and gather them again for its backward");
    t.add("reshard_size", &FsdpOptions::reshard_size)
        .min(0)
        .doc(
            "after forward, parameters stay cut over this many neighbouring ranks only, from which backward gathers; "
            "0: over all");
    t.add("backward_prefetch", &FsdpOptions::backward_prefetch)
        .choices({"pre", "post", "none"})
        .doc("when the next unit of backward is gathered: before the current one's backward, after it, or in its turn");
    t.add("forward_prefetch", &FsdpOptions::forward_prefetch)
        .doc("gather the next unit during the current one's forward");
    t.add("limit_all_gathers", &FsdpOptions::limit_all_gathers)
        .doc("a gather waits for the memory that compute is about to free; false: it runs ahead and takes more");
    t.add("cast", &FsdpOptions::cast)
        .choices({"update", "gather"})
        .doc(
            "when a rank casts its shard to the dtype in which it is gathered. update: once, in the optimizer's pass, "
            "into a copy that stays; gather: for each gather, which saves that copy. The values are the same. "
            "Offloaded shards keep theirs");
    t.add("sync_module_states", &FsdpOptions::sync_module_states)
        .doc("rank 0's parameters win when the model is made, and ranks that had others are named");
    t.add("param_dtype", &FsdpOptions::param_dtype)
        .choices({"auto", "fp32", "bf16", "fp16"})
        .doc("dtype of gathered parameters, and so of compute; auto: train.precision's");
    t.add("reduce_dtype", &FsdpOptions::reduce_dtype)
        .choices({"auto", "fp32", "bf16", "fp16"})
        .doc("dtype of gradients on their way between ranks; auto: the masters'");
    t.add("reduce_by", &FsdpOptions::reduce_by)
        .choices({"reduce_scatter", "exchange"})
        .doc(
            "how ranks sum gradients of 16 bits in 32. reduce_scatter: widened first; exchange: they cross in 16 bits, "
            "half the bytes, and each rank adds up its shard's in 32, in the order of ranks. With sums once a step, in "
            "16 bits, or under run.deterministic, always reduce_scatter");
    t.add("cpu_offload", &FsdpOptions::cpu_offload)
        .doc("parameters' shards, gradients and optimizer state live in host memory; the update runs there");
    t.add("pin_memory", &FsdpOptions::pin_memory)
        .doc("page-lock the host memory of cpu_offload, so that copies overlap");
  }
};

std::optional<c10::ScalarType> dtype_of(const std::string& name) {
  if (name == "fp32") return c10::ScalarType::Float;
  if (name == "bf16") return c10::ScalarType::BFloat16;
  if (name == "fp16") return c10::ScalarType::Half;
  return {};
}

class Fsdp : public strategy::Strategy {
 public:
  explicit Fsdp(config::Options<FsdpOptions> options) : options_(std::move(options)) {}

  void mesh(layout::MeshSpec& spec) override {
    if (is("hybrid_shard"))
      spec.split_data(options_->shard_size, "strategy.fsdp", options_.where(&FsdpOptions::shard_size));
  }

  void claim(strategy::Claims& claims) const override {
    claims.exclusive("parameter storage");
    if (!is("no_shard")) claims.shared("summed gradients on dp");
  }

  void check(const strategy::Facts& facts, Diagnostics& diagnostics) const override {
    refuse_without_effect(diagnostics);
    const auto ranks = facts.mesh.size({layout::Axis::dp, layout::Axis::ep});
    const auto part = options_->reshard_size;
    if (part > 0 && ranks % part != 0) {
      diagnostics.add(options_.where(&FsdpOptions::reshard_size),
                      "strategy.fsdp.reshard_size is " + std::to_string(part) + ", but parameters are cut over " +
                          std::to_string(ranks) + " ranks",
                      "give a divisor of " + std::to_string(ranks));
    }
    if (part == 1) {
      diagnostics.add(options_.where(&FsdpOptions::reshard_size),
                      "strategy.fsdp.reshard_size is 1: a single rank would keep all parameters whole",
                      "set reshard_after_forward = false, which does that, and remove reshard_size");
    }
    if (options_->param_dtype == "fp16" && facts.precision != "fp16") {
      diagnostics.add(options_.where(&FsdpOptions::param_dtype),
                      R"(strategy.fsdp.param_dtype is "fp16", but train.precision is ")" + facts.precision +
                          R"(": its gradients would be summed without fp16's loss scale)",
                      R"(set train.precision = "fp16" and leave param_dtype out)");
    }
    if ((options_->param_dtype == "fp16" || options_->reduce_dtype == "fp16") && facts.device == "cpu") {
      diagnostics.add(
          options_.where(options_->param_dtype == "fp16" ? &FsdpOptions::param_dtype : &FsdpOptions::reduce_dtype),
          "fp16 needs a GPU, and this run is on cpu", "use bf16 or fp32");
    }
  }

  // A series of experiments changes the mode and keeps the rest, so these get a warning, not an error.
  std::vector<std::string> notes() const override {
    using F = FsdpOptions;
    std::vector<std::string> notes;
    const auto add = [&](const std::string& what, const std::string& why) {
      notes.push_back("note: " + what + " has no effect " + why);
    };
    const auto add_set = [&](const std::string& why, auto... members) {
      ((options_.is_set(members) ? add(options_.name(members), why) : void()), ...);
    };
    if (is("no_shard")) {
      add_set(R"(with mode = "no_shard": nothing is gathered)", &F::reshard_after_forward, &F::backward_prefetch,
              &F::forward_prefetch, &F::limit_all_gathers, &F::cast, &F::reduce_by);
    } else if (is("shard_grad_op") || !options_->reshard_after_forward) {
      // Backward gathers nothing.
      const std::string why =
          is("shard_grad_op") ? R"(with mode = "shard_grad_op")" : "with reshard_after_forward = false";
      const std::string stay = why + ": gathered parameters stay from forward to backward";
      if (options_->reshard_after_forward && options_.is_set(&F::reshard_after_forward))
        add(options_.name(&F::reshard_after_forward) + " = true", stay);
      add_set(stay, &F::backward_prefetch);
    }
    if (!options_->cpu_offload) add_set("without cpu_offload = true", &F::pin_memory);
    return notes;
  }

  void shard(strategy::ShardPolicy& policy) override {
    const bool cut = !is("no_shard");
    policy.shard_param = policy.shard_grad = policy.shard_optim = cut;
    policy.bucket_size = {strategy::BucketSize::By::units, options_->wrap};
    if (const auto least = options_->min_num_params; least > 0)
      policy.bucket_size = {strategy::BucketSize::By::at_least, least};
    policy.reshard_after_forward = options_->reshard_after_forward && !is("shard_grad_op");
    policy.reshard_size = options_->reshard_size;
    if (options_->backward_prefetch == "post") policy.backward_prefetch = strategy::BackwardPrefetch::post;
    if (options_->backward_prefetch == "none") policy.backward_prefetch = strategy::BackwardPrefetch::none;
    policy.forward_prefetch = options_->forward_prefetch;
    policy.limit_all_gathers = options_->limit_all_gathers;
    policy.cast_at_gather = options_->cast == "gather";
    policy.sync_module_states = options_->sync_module_states;
    policy.param_dtype = dtype_of(options_->param_dtype);
    policy.reduce_dtype = dtype_of(options_->reduce_dtype);
    policy.exchange_gradients = options_->reduce_by == "exchange";
    policy.offload_param = policy.offload_optim = options_->cpu_offload;
    policy.pin_memory = options_->pin_memory;
    policy.owner = "fsdp";
  }

 private:
  bool is(const char* mode) const { return options_->mode == mode; }

  // An option without effect in this mode is probably a misunderstanding.
  void refuse_without_effect(Diagnostics& diagnostics) const {
    const auto refuse = [&](bool wrong, std::string where, const std::string& what, const std::string& fix) {
      if (wrong) diagnostics.add(std::move(where), what + " has no effect with mode = \"" + options_->mode + "\"", fix);
    };
    refuse(options_->shard_size != 0 && !is("hybrid_shard"), options_.where(&FsdpOptions::shard_size), "shard_size",
           "leave it out, or set mode = \"hybrid_shard\"");
    refuse(options_->reshard_size != 0 && (is("no_shard") || is("shard_grad_op") || !options_->reshard_after_forward),
           options_.where(&FsdpOptions::reshard_size), "reshard_size",
           "leave it out, or use full_shard or hybrid_shard with reshard_after_forward = true");
    if (options_->min_num_params > 0 && options_->wrap != FsdpOptions().wrap) {
      diagnostics.add(options_.where(&FsdpOptions::min_num_params),
                      "strategy.fsdp.min_num_params and strategy.fsdp.wrap both say which units are gathered together",
                      "leave one of them out");
    }
    refuse(options_->cpu_offload && is("no_shard"), options_.where(&FsdpOptions::cpu_offload), "cpu_offload = true",
           "leave it out, or use a mode that shards");
  }

  config::Options<FsdpOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("fsdp", "0.1.0", "shards parameters, gradients and optimizer state along the data axes", Fsdp,
                 FsdpOptions)
