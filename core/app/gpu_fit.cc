#include "app/gpu_fit.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace capstan::app {
namespace {

constexpr double gib = 1LL << 30;

// What CUDA says of their memory, a little below the name's.
const std::vector<std::pair<std::string, double>>& known() {
  static const std::vector<std::pair<std::string, double>> gpus{
      {"v100-32g", 31.7}, {"a100-40g", 39.4}, {"a100-80g", 79.1}, {"h100-80g", 79.1}, {"h200-141g", 139.8}};
  return gpus;
}

std::string memory(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

Change together(std::string words, const std::vector<Change>& changes) {
  Change all{std::move(words), {}};
  for (const auto& change : changes) {
    all.overrides.insert(all.overrides.end(), change.overrides.begin(), change.overrides.end());
  }
  return all;
}

// What usually helps, cheapest first; which of it can be done here, trying shows.
std::vector<Change> changes_for(const Predicted& predicted, const Placement& ranks) {
  const Change recompute{"recompute each unit", {"strategy.recompute.every=1", "strategy.recompute.regions=[]"}};
  std::vector<Change> list{recompute};
  if (predicted.batch.micro_batch > 1) {
    list.push_back({cat("micro-batches of 1 instead of ", predicted.batch.micro_batch),
                    {"train.micro_batch=1",
                     cat("train.accumulation=", predicted.batch.accumulation * predicted.batch.micro_batch)}});
  }
  const Change fsdp{"shard everything", {"strategy.fsdp.mode=full_shard"}};
  const Change zero{"shard everything", {"strategy.zero.stage=3"}};
  const Change fsdp_offload{"keep the optimizer and parameters in host memory",
                            {"strategy.fsdp.mode=full_shard", "strategy.fsdp.cpu_offload=true"}};
  const Change zero_offload{"keep the optimizer in host memory",
                            {"strategy.zero.stage=3", "strategy.zero.offload_optimizer=cpu"}};
  list.insert(list.end(), {fsdp, zero, fsdp_offload, zero_offload});
  for (const auto& offload : {fsdp_offload, zero_offload})
    list.push_back(together(cat(offload.words, " and recompute"), {offload, recompute}));
  list.push_back({"no fp32 masters (rounds more)", {"train.precision=bf16_pure"}});
  // More ranks are more nodes of the same size, where that is known.
  for (const int times : {2, 4, 8})
    list.push_back({cat(times * ranks.all, " ranks"), {}, times * ranks.all, times * ranks.nodes});
  return list;
}

std::string options_of(const Change& change) {
  if (change.ranks == 0) return join(change.overrides, " ");
  return cat("--ranks ", change.ranks, change.nodes > 0 ? cat(" --nodes ", change.nodes) : "");
}

std::string verdict(const Peak& peak, const Gpu& gpu) {
  std::string fits = peak.gpu <= gpu.room() ? "fits" : "does not fit";
  if (peak.host == 0) return fits;
  return cat(fits, ", ", memory(peak.host), " of host memory a rank",
             peak.host_fits ? "" : ": more than run.host_memory");
}

std::string what_helps(const Predicted& predicted, const Gpu& gpu, const Placement& ranks, std::int64_t peak,
                       const PeakWith& peak_with) {
  std::vector<std::vector<std::string>> rows{{"change", "peak", "", "options"}};
  std::vector<std::int64_t> seen;
  for (const auto& change : changes_for(predicted, ranks)) {
    const auto with = peak_with(change);
    if (!with || with->gpu >= peak || std::find(seen.begin(), seen.end(), with->gpu) != seen.end()) continue;
    seen.push_back(with->gpu);
    rows.push_back({change.words, memory(with->gpu), verdict(*with, gpu), options_of(change)});
  }
  if (rows.size() == 1) return "Nothing that check tries makes it smaller.\n";
  return "What would make it smaller:\n" + table_text(rows);
}

}  // namespace

Gpu gpu_named(const std::string& text) {
  for (const auto& [name, size] : known()) {
    if (name == text) return {name, std::llround(size * gib)};
  }
  double number = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const std::string unit = parsed.ec == std::errc() ? trim(std::string(parsed.ptr, end)) : "";
  const bool is_size = unit == "GiB" || unit == "G" || unit == "GB" || unit == "g";
  if (is_size && number > 2 && number < 1e6) return {text, std::llround(number * gib)};
  std::vector<std::string> names;
  for (const auto& [name, size] : known()) names.push_back(name);
  throw Error(cat("--gpu ", text, ": no such GPU, and no size in GiB"),
              cat("give one of ", join(names), ", or a size such as 80GiB"));
}

Fit judge_fit(const Predicted& predicted, const Gpu& gpu, const Placement& ranks, const PeakWith& peak_with) {
  if (!predicted.prediction.activations) {
    throw Error(
        cat("--gpu: ", predicted.device == "cuda" ? predicted.prediction.activations_note : "run.device is \"cpu\""),
        predicted.device == "cuda" ? "leave --gpu away: the table then holds all but activations"
                                   : R"(leave it away, or set run.device = "cuda")");
  }
  const auto peak = layout::total_bytes(predicted.prediction.footprints, predicted.device);
  const auto left = gpu.room() - peak;
  Fit fit;
  fit.fits = left >= 0;
  fit.text =
      cat(gpu.name, ": ", memory(gpu.bytes), ", less ", memory(Gpu::reserve),
          " for CUDA, NCCL and gaps between tensors. The predicted peak of ", memory(peak),
          fit.fits ? " fits, " : " does not fit: ", memory(std::abs(left)), fit.fits ? " are left" : " too much");
  const auto narrow = peak / 20;
  if (fit.fits && left < narrow) fit.text += cat(" (less than the 5 % by which a prediction may be wrong)");
  fit.text += "\n";
  if (!fit.fits) fit.text += what_helps(predicted, gpu, ranks, peak, peak_with);
  return fit;
}

}  // namespace capstan::app
