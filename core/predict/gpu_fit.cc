#include "predict/gpu_fit.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace capstan::predict {
namespace {

constexpr double gib = 1LL << 30;

// A GPU by its name, with what CUDA says of its memory, a little below the name's.
struct Known {
  const char* name;
  double gib;
  int capability;
};

const std::vector<Known>& known() {
  static const std::vector<Known> gpus{{"v100-32g", 31.7, 70},
                                       {"a100-40g", 39.4, 80},
                                       {"a100-80g", 79.1, 80},
                                       {"h100-80g", 79.1, 90},
                                       {"h200-141g", 139.8, 90}};
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

std::vector<Change> offered(const std::vector<Offer>& offers, plugin::Saving::By by) {
  std::vector<Change> changes;
  for (const auto& offer : offers) {
    if (offer.by == by) changes.push_back(offer.change);
  }
  return changes;
}

// "strategy.fsdp" of "strategy.fsdp.mode=full_shard".
std::string table_of(const Change& offered) {
  const auto option = offered.overrides.front().substr(0, offered.overrides.front().find('='));
  return option.substr(0, option.rfind('.'));
}

// What usually helps, cheapest first; which of it can be done here, trying shows.
std::vector<Change> changes_for(const setup::BatchShape& batch, const std::vector<Offer>& offers) {
  using By = plugin::Saving::By;
  const auto add = [](std::vector<Change>& list, const std::vector<Change>& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  const auto recomputing = offered(offers, By::recomputing), offloading = offered(offers, By::offloading);
  auto list = recomputing;
  list.push_back({"evaluation of one sample at a time", {"train.eval_batch=1"}});
  if (batch.accumulation > 1) list.push_back({"gather again in each micro-step", {"train.regather=micro_step"}});
  if (batch.micro_batch > 1) {
    list.push_back({cat("micro-batches of 1 instead of ", batch.micro_batch),
                    {"train.micro_batch=1", cat("train.accumulation=", batch.accumulation * batch.micro_batch)}});
  }
  add(list, offered(offers, By::sharding));
  add(list, offloading);
  for (const auto& offload : offloading) {
    for (const auto& recompute : recomputing) {
      if (table_of(offload) == table_of(recompute)) continue;  // the same options
      list.push_back(together(cat(offload.words, ", and ", recompute.words), {offload, recompute}));
    }
  }
  list.push_back({"no fp32 masters (rounds more)", {"train.precision=bf16_pure"}});
  return list;
}

std::vector<Change> more_ranks(const RankCounts& ranks) {
  std::vector<Change> list;
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

// Those that make the peak smaller, in their order; one that comes to the same as one before is left out.
std::vector<Help> helping(const std::vector<Change>& changes, std::int64_t peak, const PeakWith& peak_with) {
  std::vector<Help> list;
  for (const auto& change : changes) {
    const auto with = peak_with(change);
    const auto same = [&](const Help& help) { return help.peak.gpu == with->gpu; };
    if (with && with->gpu < peak && std::none_of(list.begin(), list.end(), same)) list.push_back({change, *with});
  }
  return list;
}

std::string what_helps(const Predicted& predicted, const Gpu& gpu, const RankCounts& ranks, std::int64_t peak,
                       const Trials& trials) {
  auto changes = changes_for(predicted.batch, trials.offers);
  for (auto& change : more_ranks(ranks)) changes.push_back(std::move(change));
  std::vector<std::vector<std::string>> rows{{"change", "peak", "", "options"}};
  for (const auto& [change, with] : helping(changes, peak, trials.peak_with))
    rows.push_back({change.words, memory(with.gpu), verdict(with, gpu), options_of(change)});
  if (rows.size() == 1) return "Nothing that check tries makes it smaller.\n";
  return "What would make it smaller:\n" + table_text(rows);
}

// How sure the verdict is, and whose peak it is about.
std::string caveats(const job::Prediction& prediction, std::int64_t peak, std::int64_t left) {
  std::string text;
  if (left >= 0 && left < peak / 20) text += " (less than the 5 % by which a prediction may be wrong)";
  const auto largest = prediction.largest_tensor;
  if (left >= 0 && left < largest)
    text += cat(" (less than the largest tensor, ", memory(largest), ", which is in one piece)");
  const auto& peaks = prediction.peaks;
  if (!peaks.empty() && peaks.front().bytes < peak)
    text += cat("; this is an evaluation's peak, training's is ", memory(peaks.front().bytes));
  return text;
}

}  // namespace

Gpu gpu_named(const std::string& text) {
  for (const auto& one : known()) {
    if (one.name == text) return {one.name, std::llround(one.gib * gib), one.capability};
  }
  double number = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const std::string unit = parsed.ec == std::errc() ? trim(std::string(parsed.ptr, end)) : "";
  const bool is_size = unit == "GiB" || unit == "G" || unit == "GB" || unit == "g";
  if (is_size && number > 2 && number < 1e6) return {text, std::llround(number * gib), 0};
  std::vector<std::string> names;
  for (const auto& one : known()) names.emplace_back(one.name);
  throw Error(cat("--gpu ", text, ": no such GPU, and no size in GiB"),
              cat("give one of ", join(names), ", or a size such as 80GiB"));
}

void judge_gpu(const Gpu& gpu, const std::string& precision, int cuda_major, Diagnostics& faults) {
  if (gpu.capability == 0) return;
  const auto capability = cat(gpu.capability / 10, ".", gpu.capability % 10);
  if (gpu.capability < 80 && precision.starts_with("bf16")) {
    faults.add("--gpu " + gpu.name,
               cat("train.precision = \"", precision, "\" needs compute capability 8.0, this GPU has ", capability),
               "set train.precision = \"fp16\", or use an A100 or a newer GPU");
  }
  if (gpu.capability < 75 && cuda_major >= 13) {
    faults.add("--gpu " + gpu.name,
               cat("this Capstan is built for CUDA ", cuda_major, ", which needs compute capability 7.5; this GPU has ",
                   capability),
               "build it against a LibTorch for CUDA 12, as docs/v100.md says");
  }
}

std::vector<Offer> offers_of(plugin::Host& host) {
  std::vector<Offer> offers;
  for (const auto& found : host.discover()) {
    if (found.kind != "strategy" || !found.registration) continue;
    for (const auto& saving : found.registration->savings) {
      Change change{saving.words, {}};
      for (const auto& option : saving.options)
        change.overrides.push_back(cat("strategy.", found.registration->name, ".", option));
      offers.push_back({saving.by, std::move(change)});
    }
  }
  return offers;
}

std::vector<Help> what_saves_most(const setup::BatchShape& batch, std::int64_t peak, const Trials& trials) {
  auto list = helping(changes_for(batch, trials.offers), peak, trials.peak_with);
  std::stable_sort(list.begin(), list.end(), [](const Help& a, const Help& b) { return a.peak.gpu < b.peak.gpu; });
  return list;
}

Fit judge_fit(const Predicted& predicted, const Gpu& gpu, const RankCounts& ranks, const Trials& trials) {
  if (!predicted.prediction.activations) {
    throw Error(
        cat("--gpu: ", predicted.device == "cuda" ? predicted.prediction.activations_note : "run.device is \"cpu\""),
        predicted.device == "cuda" ? "leave --gpu out: the table then holds all but activations"
                                   : R"(leave it out, or set run.device = "cuda")");
  }
  const auto peak = layout::total_bytes(predicted.prediction.footprints, predicted.device);
  const auto left = gpu.room() - peak;
  Fit fit;
  fit.fits = left >= 0;
  fit.text = cat(gpu.name, ": ", memory(gpu.bytes), ", less ", memory(Gpu::reserve),
                 " for CUDA, NCCL and gaps between tensors. The predicted peak of ", memory(peak),
                 fit.fits ? " fits, " : " does not fit: ", memory(std::abs(left)), fit.fits ? " are left" : " too much",
                 caveats(predicted.prediction, peak, left), "\n");
  if (!fit.fits) fit.text += what_helps(predicted, gpu, ranks, peak, trials);
  return fit;
}

}  // namespace capstan::predict
