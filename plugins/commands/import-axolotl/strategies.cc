#include <capstan/base/text.h>

#include <algorithm>
#include <array>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

bool is_on(const Import& import, const std::string& path) {
  const auto* value = import.find(path);
  return value != nullptr && *value != false && *value != "";
}

void take_recompute(Import& import) {
  const std::string checkpointing = "gradient_checkpointing", offloading = "activation_offloading",
                    unit = "fsdp_config.activation_checkpointing";
  for (const auto& path : {checkpointing, unit, offloading}) {
    if (is_on(import, path)) import.set("strategy.recompute.every", std::int64_t{1}, path);
  }
  const bool offloads = import.text(checkpointing).starts_with("offload") || is_on(import, offloading);
  if (offloads) import.set("strategy.recompute.offload", 1.0, is_on(import, offloading) ? offloading : checkpointing);
  if (is_on(import, "selective_checkpointing") && is_on(import, checkpointing))
    import.set("strategy.recompute.keep_attention", true, "selective_checkpointing");
}

constexpr std::array<const char*, 4> modes{"full_shard", "shard_grad_op", "hybrid_shard", "no_shard"};

bool is_mode(const std::string& word) { return std::find(modes.begin(), modes.end(), word) != modes.end(); }

void take_words(Import& import) {
  for (const auto& word : import.texts("fsdp")) {
    if (is_mode(word)) {
      import.set("strategy.fsdp.mode", word, "fsdp");
    } else if (word == "offload") {
      import.set("strategy.fsdp.cpu_offload", true, "fsdp");
    } else if (word != "auto_wrap") {
      import.fault("fsdp", cat("names ", word), "one of: full_shard, shard_grad_op, hybrid_shard, no_shard, offload");
    }
  }
}

// FULL_SHARD in fsdp_config is full_shard here.
void take_mode(Import& import) {
  const std::string sharding = "fsdp_config.sharding_strategy", reshard = "fsdp_config.reshard_after_forward";
  const auto named = lower(import.text(sharding));
  if (is_mode(named)) {
    import.set("strategy.fsdp.mode", named, sharding);
  } else if (!named.empty()) {
    import.fault(sharding, cat("is ", import.text(sharding)), suggestion(named, {modes.begin(), modes.end()}));
  } else if (import.is_false(reshard)) {
    import.set("strategy.fsdp.reshard_after_forward", false, reshard);
  }
}

void take_copies(Import& import) {
  const auto copies = import.number("dp_replicate_size").value_or(1), size = import.number("dp_shard_size").value_or(0);
  if (copies <= 1) return;
  import.set("strategy.fsdp.mode", "hybrid_shard", "dp_replicate_size");
  if (size >= 1) import.set("strategy.fsdp.shard_size", static_cast<std::int64_t>(size), "dp_shard_size");
}

void take_sharding(Import& import) {
  take_words(import);
  take_mode(import);
  take_copies(import);
  const auto prefetch = lower(import.text("fsdp_config.backward_prefetch"));
  if (prefetch == "backward_pre" || prefetch == "backward_post")
    import.set("strategy.fsdp.backward_prefetch", prefetch.substr(9), "fsdp_config.backward_prefetch");
  // Keys of fsdp_config without a counterpart mean FSDP, too.
  const auto table = import.file().value.find("fsdp_config");
  if (table != import.file().value.end() && table->is_object())
    import.set_default("strategy.fsdp.mode", "full_shard", import.file().from("fsdp_config"));
}

void take_sizes(Import& import) {
  static const std::array<std::array<const char*, 2>, 4> sizes{
      {{"tensor_parallel_size", "strategy.tensor_parallel.size"},
       {"context_parallel_size", "strategy.context_parallel.size"},
       {"sequence_parallel_degree", "strategy.context_parallel.size"},
       {"expert_parallel_size", "strategy.expert_parallel.size"}}};
  for (const auto& [theirs, ours] : sizes) {
    const auto size = import.number(theirs).value_or(1);
    if (size > 1) import.set(ours, static_cast<std::int64_t>(size), theirs);
  }
}

void take_deepspeed(Import& import) {
  if (!is_on(import, "deepspeed")) return;
  const auto file = import.text("deepspeed");
  import.choose("strategy.zero.stage", "2",
                file.empty() ? "write the table into a JSON file; `capstan import-deepspeed FILE` translates it"
                             : cat("`capstan import-deepspeed ", file,
                                   "` prints this table; leave its [train] and [optimizer] out"),
                "deepspeed");
}

}  // namespace

void take_strategies(Import& import) {
  take_recompute(import);
  take_sharding(import);
  take_sizes(import);
  take_deepspeed(import);
}

}  // namespace import_axolotl
