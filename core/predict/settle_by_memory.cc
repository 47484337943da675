#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "job/open_micro_batch.h"
#include "predict/gpu_fit.h"
#include "predict/micro_step.h"
#include "predict/settle.h"

namespace capstan::predict {
namespace {

namespace fs = std::filesystem;

std::string size_text(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// The GPU memory that a settled request takes; nothing where no prediction can be made, which prepare() says.
std::optional<std::int64_t> peak_of(const std::function<setup::JobRequest()>& tried, plugin::Host& host) {
  Diagnostics said;
  try {
    auto request = tried();
    request.rank = 0;
    request.sizes_only = request.activations = request.any_host_memory = true;
    const auto job = job::prepare(request, host, said);
    if (!job || !job->prediction.activations) return {};
    return layout::total_bytes(job->prediction.footprints, "cuda");
  } catch (const Error&) {
    return {};
  }
}

setup::JobRequest with_value(setup::JobRequest request, config::Item value) {
  request.settled.values.push_back(std::move(value));
  return request;
}

// An option of [train] with a value, where the configuration has it.
setup::JobRequest with_train(const setup::Configuration& config, const std::string& option, config::Value value) {
  const auto section = config.document.section("train");
  const auto* entry = section.find(option);
  return with_value(config.request,
                    {{"train", option}, std::move(value), false, entry ? entry->origin : config::Origin{}});
}

// The configuration's mesh, batches and policy; nothing where they have a fault.
std::optional<job::Topology> topology_of(const setup::Configuration& config, plugin::Host& host) {
  Diagnostics said;
  const auto plugins = job::load_plugins(config, job::Needs::all, host, said);
  auto topology = job::make_topology(config, plugins, said);
  return said.empty() ? std::optional(std::move(topology)) : std::nullopt;
}

setup::JobRequest settle_regather(const setup::JobRequest& request, plugin::Host& host) {
  Diagnostics said;
  const auto config = setup::read_configuration(request, said, &host);
  if (config.train->regather != "auto" || request.gpu_room <= 0 || !said.empty()) return request;
  const auto topology = topology_of(config, host);
  if (!topology || !topology->gathers_once) return request;
  const auto peak = peak_of([&] { return with_train(config, "regather", std::string("step")); }, host);
  if (!peak || fits_into(request.gpu_room, *peak)) return request;
  auto settled = with_train(config, "regather", std::string("micro_step"));
  settled.settled.note += cat("regather auto: micro_step, since with step the predicted ", size_text(*peak),
                              " would not fit well into ", size_text(request.gpu_room), "\n");
  return settled;
}

// train.micro_batch of the run in one of these folders.
std::optional<std::int64_t> recorded_in(const std::vector<fs::path>& folders) {
  for (const auto& folder : folders) {
    const auto file = folder / "config.toml";
    if (!is_file(file)) continue;
    Diagnostics ignored;
    const auto train = config::load(file, {}, ignored).section("train");
    const auto* entry = train.find("micro_batch");
    const auto* number = entry ? std::get_if<std::int64_t>(&entry->value) : nullptr;
    if (number) return *number;
  }
  return {};
}

// What the run that this one continues has recorded; resume may name its folder, its checkpoints, or one of them.
std::optional<std::int64_t> recorded(const setup::Configuration& config) {
  const auto& resume = config.checkpoint->resume;
  if (resume == "none") return {};
  if (resume == "auto") return recorded_in({fs::path(config.run->dir) / config.name});
  const auto path = fs::path(resume).lexically_normal();
  return recorded_in({path, path.parent_path(), path.parent_path().parent_path()});
}

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

struct Chosen {
  std::int64_t micro_batch = 1;
  std::int64_t peak = 0;
  bool fits = false;
};

// The largest that fits, by halving: more rows never take less. Nothing where no prediction can be made.
std::optional<Chosen> largest_that_fits(const setup::Configuration& config, const std::vector<std::int64_t>& sizes,
                                        plugin::Host& host) {
  std::optional<Chosen> chosen;
  std::size_t begin = 0, end = sizes.size();
  while (begin < end) {
    const auto middle = begin + (end - begin) / 2;
    const auto peak =
        peak_of([&] { return settle_regather(with_train(config, "micro_batch", sizes[middle]), host); }, host);
    if (!peak) return {};
    const bool fits = fits_into(config.request.gpu_room, *peak);
    if (fits || middle == 0) chosen = Chosen{sizes[middle], *peak, fits};
    (fits ? begin : end) = fits ? middle + 1 : middle;
  }
  return chosen;
}

// Those that settle it have its micro-batch's number and why it is that one.
setup::JobRequest settle_micro_batch(const setup::JobRequest& request, plugin::Host& host) {
  Diagnostics hindrances;
  const auto config = setup::read_configuration(request, hindrances, &host);
  job::judge_open_micro_batch(config, hindrances);
  if (!config.auto_micro_batch || !config.trains() || !hindrances.empty()) return request;
  const auto topology = topology_of(config, host);
  if (!topology) return request;  // no number divides the global batch
  const auto settled = [&](std::int64_t size, const std::string& why) {
    auto with_size = with_train(config, "micro_batch", size);
    with_size.settled.note += cat("micro-batch auto: ", size, ", ", why, "\n");
    return with_size;
  };
  const auto of_a_rank = *config.train->global_batch / topology->mesh.size(layout::sample_axes);
  if (const auto same = recorded(config); same && of_a_rank % *same == 0)
    return settled(*same, "as in the run that it continues");
  if (request.gpu_room <= 0) return request;
  const auto chosen = largest_that_fits(config, divisors_of(of_a_rank), host);
  if (!chosen) return request;
  const auto room = size_text(request.gpu_room), peak = size_text(chosen->peak);
  return settled(chosen->micro_batch,
                 chosen->fits ? cat("the largest whose predicted ", peak, " fit into ", room, " with 5 % to spare")
                              : cat("and its predicted ", peak, " do not fit well into ", room));
}

// The table of the strategy whose option `auto` is true.
std::optional<config::Section> automatic(const config::Document& document) {
  for (const auto& table : document.children("strategy")) {
    const auto* entry = table.find("auto");
    if (entry && entry->value == config::Value(true)) return table;
  }
  return {};
}

// The request with a saving in place of the table's `auto`.
setup::JobRequest with_saving(const setup::JobRequest& request, const config::Section& table,
                              const std::vector<std::string>& options) {
  auto with = request;
  Diagnostics none;  // strategies have declared them as options
  const auto set = [&](const std::string& option) {
    for (auto& item : config::read_override(option, none)) {
      item.origin = table.find("auto")->origin;
      with.settled.values.push_back(std::move(item));
    }
  };
  set(table.path + ".auto=false");
  for (const auto& option : options) set(option);
  return with;
}

setup::JobRequest settle_saving(const setup::JobRequest& request, plugin::Host& host) {
  Diagnostics said;
  const auto config = setup::read_configuration(request, said, &host);
  const auto table = automatic(config.document);
  if (!table || !config.trains() || config.device != "cuda" || request.gpu_room <= 0) return request;
  auto offers = offers_of(host);
  offers.insert(offers.begin(), {{}, {"nothing", {table->path + ".enabled=false"}}});
  auto settled = request;
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [by, saving] : offers) {
    if (!saving.overrides.front().starts_with(table->path + ".")) continue;
    auto with = with_saving(request, *table, saving.overrides);
    const auto peak = peak_of([&] { return settle_regather(settle_micro_batch(with, host), host); }, host);
    if (!peak || *peak >= least) continue;
    least = *peak;
    const bool fits = fits_into(request.gpu_room, *peak);
    with.settled.note += cat(table->path, ".auto: ", saving.words, ", and the predicted ", size_text(*peak),
                             fits ? " fit into " : " do not fit well into ", size_text(request.gpu_room), "\n");
    settled = std::move(with);
    if (fits) break;
  }
  return settled;
}

}  // namespace

setup::JobRequest settle_by_memory(const setup::JobRequest& request, plugin::Host& host) {
  return settle_regather(settle_micro_batch(settle_saving(request, host), host), host);
}

}  // namespace capstan::predict
