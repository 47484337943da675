#include "step_time/step_time.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <utility>

namespace capstan::plan {
namespace {

double bus_of(const Transfer& transfer, const Figures& figures, double node_bytes) {
  if (transfer.operation == "host") return figures.host_link_bytes;
  if (transfer.nodes > 1) return node_bytes;
  if (transfer.operation == "reduce-scatter") return figures.reduce_scatter_bytes;
  if (transfer.operation == "all-reduce") return figures.all_reduce_bytes;
  if (transfer.operation == "all-to-all") return figures.all_to_all_bytes;
  return figures.all_gather_bytes;
}

// Bytes that a rank sends, by the definition of bus bandwidth that NCCL's tests have.
double sent(const Transfer& transfer) {
  const auto bytes = static_cast<double>(transfer.bytes);
  if (transfer.operation == "host" || transfer.operation == "broadcast" || transfer.operation == "transfer")
    return bytes;
  const auto others = static_cast<double>(transfer.ranks - 1) / transfer.ranks;
  return transfer.operation == "all-reduce" ? 2 * others * bytes : others * bytes;
}

double seconds(const Transfers& transfers, const Figures& figures, double node_bytes) {
  double sum = 0;
  for (const auto& [transfer, times] : transfers) {
    if (transfer.ranks == 1 && transfer.operation != "host") continue;
    sum += static_cast<double>(times) *
           (figures.collective_seconds + sent(transfer) / bus_of(transfer, figures, node_bytes));
  }
  return sum;
}

double bytes_of(const char* operation, const Transfers& transfers) {
  double bytes = 0;
  for (const auto& [transfer, times] : transfers) {
    if (transfer.operation == operation) bytes += static_cast<double>(times * transfer.bytes);
  }
  return bytes;
}

// Grouped products are computed by whole tiles, which adds columns, and rows to each group. Traces on an H200 had 629
// TFLOP/s with groups of 2,048 rows (Mixtral), 555 with 512 rows by 2,880 columns and 5,760 (gpt-oss), and 545 with 256
// rows (Qwen3-30B-A3B).
constexpr double rows_of_nothing = 46;
constexpr std::int64_t tile_columns = 256;

double rate_of(const Product& product, const Figures& figures) {
  if (product.single) return figures.single_product_flops;
  if (product.in_blocks) return figures.eight_bit_block_product_flops;
  if (product.groups == 0) return product.eight_bits ? figures.eight_bit_product_flops : figures.product_flops;
  const auto rows = static_cast<double>(product.rows), columns = static_cast<double>(product.columns);
  const auto computed_rows = rows + static_cast<double>(product.groups) * rows_of_nothing;
  const auto tiles = (product.columns + tile_columns - 1) / tile_columns;
  const auto computed_columns = static_cast<double>(tiles * tile_columns);
  const auto rate = product.eight_bits ? figures.eight_bit_grouped_product_flops : figures.grouped_product_flops;
  return rate * rows / computed_rows * columns / computed_columns;
}

double products_of(const Work& work, const Figures& figures) {
  double sum = 0;
  for (const auto& [product, times] : work.products) {
    const auto computed = product.flops() / rate_of(product, figures);
    const auto moved = static_cast<double>(product.bytes) / figures.bytes_per_second;
    sum += static_cast<double>(times) * (figures.product_seconds + std::max(computed, moved));
  }
  return sum;
}

// cuDNN's kernels compute heads of whole tiles: ALiBi's of 72 columns take as long as 128.
double computed_flops(const AttentionShape& shape) {
  constexpr std::int64_t tile = 64;
  const auto padded = (shape.width + tile - 1) / tile * tile;
  return shape.flops() * static_cast<double>(padded) / static_cast<double>(shape.width);
}

// What is left of the rate of heads of 128 columns: on an H200 cuDNN's of 256 (Gemma 3) had 270 TFLOP/s forward and 206
// backward; LibTorch's own of 64 (gpt-oss) take 84 ms of a step, where the usual rates are 47.
double share_of_rate(const AttentionShape& shape) {
  constexpr std::int64_t narrow = 64, usual = 128;
  if (shape.width > usual) return 0.7;
  return shape.segments && shape.width <= narrow ? 0.56 : 1;
}

// Passes that compute `passes` times what forward's two products do. Longer rows fill the GPU better, but by LibTorch's
// own kernels, which on an H100 had 333 TFLOP/s forward and 292 backward with tiles of 16,384.
double attention_of(const std::map<AttentionShape, std::int64_t>& shapes, double passes, double rate,
                    const Figures& figures) {
  constexpr double short_row = 2048, long_row = 131072;  // rows with which rates were measured
  double sum = 0;
  for (const auto& [shape, times] : shapes) {
    const auto doublings = std::log2(std::clamp(static_cast<double>(shape.keys), short_row, long_row) / short_row);
    const auto flops = share_of_rate(shape) * rate * (shape.segments ? 1 : 1 + figures.attention_growth * doublings);
    sum += static_cast<double>(times) * (figures.attention_seconds + passes * computed_flops(shape) / flops);
  }
  return sum;
}

std::int64_t count(const std::map<Product, std::int64_t>& products) {
  std::int64_t sum = 0;
  for (const auto& [product, times] : products) sum += times;
  return sum;
}

// What computing takes, launches without their waiting.
void add_compute(const Computing& micro, double times, const Figures& figures, double node_bytes, StepTime& time) {
  const auto& compute = micro.compute;
  const auto others = static_cast<double>(compute.kernels) - static_cast<double>(count(compute.products));
  time.products += times * products_of(compute, figures);
  time.attention += times * (attention_of(compute.attention, 1, figures.attention_flops, figures) +
                             attention_of(compute.attention_backward, 2.5, figures.attention_backward_flops, figures));
  time.others += times * (compute.bytes / figures.bytes_per_second + others * figures.kernel_seconds);
  time.layers_wait += times * seconds(micro.waited, figures, node_bytes);
}

// How long the GPU waits for copies to and from host memory: they run one after the other, and it computes meanwhile,
// as fast as the host launches. Their direction does not matter, since one at a time has the link.
double wait_for_copies(const std::vector<HostCopy>& copies, const Figures& figures, double node_bytes) {
  double now = 0, copied = 0, waited = 0;  // `copied`: when the last copy is done
  std::vector<double> done(copies.size());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto& [before, bytes, awaited] = copies[i];
    StepTime took;
    add_compute(before, 1, figures, node_bytes, took);
    now += std::max(took.total(), static_cast<double>(before.compute.kernels) * figures.host_kernel_seconds);
    if (bytes > 0) {
      done[i] = copied = std::max(copied, now) + seconds({{{"host", 1, 1, bytes}, 1}}, figures, node_bytes);
    } else if (done[awaited] > now) {
      waited += done[awaited] - now;
      now = done[awaited];
    }
  }
  return waited;
}

// Over a link of unknown bandwidth, 0, a transfer takes for ever.
StepTime or_unknown(StepTime time) {
  if (std::isfinite(time.total())) return time;
  time = {};
  time.unknown = "no bandwidth between nodes is known";
  return time;
}

}  // namespace

StepTime step_time(const StepWork& work, std::int64_t micro_steps, const Figures& figures, double node_bytes) {
  const auto& micro = work.micro;
  StepTime time;
  const auto times = static_cast<double>(micro_steps);
  const auto launches = static_cast<double>(micro.compute.kernels);
  add_compute(micro, times, figures, node_bytes, time);
  auto gathers = micro.gathers;
  for (const auto& [transfer, number] : micro.later_gathers) gathers[transfer] += (micro_steps - 1) * number;
  time.others += bytes_of("cast", gathers) / figures.bytes_per_second;
  if (const auto decoded = bytes_of("decode", gathers); decoded > 0) time.decoding = decoded / figures.decoded_bytes;
  // Parts of matrices cross while others are computed, all but the first on their way out and the last on theirs back.
  auto exposed = work.whole_parts;
  for (auto& [transfer, times_waited] : exposed) times_waited = std::min<std::int64_t>(times_waited, 2);
  const auto waits = seconds(exposed, figures, node_bytes);
  time.update =
      work.update_bytes / figures.update_bytes_per_second + waits +
      std::max(work.whole_flops / figures.product_flops, seconds(work.whole_parts, figures, node_bytes) - waits);
  const auto on_gpu = time.products + time.attention + time.decoding + time.others + time.layers_wait;
  const auto eager = (times - static_cast<double>(work.replayed)) / times;
  time.host_wait = std::max(0.0, eager * (times * launches * figures.host_kernel_seconds - on_gpu));
  time.copies_wait = times * wait_for_copies(micro.copies, figures, node_bytes);
  time.moving = seconds(gathers, figures, node_bytes) + seconds(work.reductions, figures, node_bytes);
  const auto hidden = std::min(time.moving, on_gpu + time.host_wait + time.copies_wait);
  time.engine_wait = time.moving - hidden + std::max(0.0, figures.interference * hidden - time.host_wait);
  time.offload = work.host_elements / figures.host_elements;
  return or_unknown(std::move(time));
}

strategy::Timeline pipeline_time(const std::vector<PositionTime>& positions) {
  std::vector<strategy::Program> programs;
  for (const auto& position : positions) programs.push_back(position.program);
  auto timeline = strategy::timeline_of(
      programs, {[&](auto p, auto, const auto& action) { return positions[p].seconds_of(action); },
                 [&](auto from, auto, const auto& send) { return positions[from].seconds_of(send); }});
  if (timeline.stuck.empty()) return timeline;
  const auto& [position, action] = *timeline.stuck.begin();
  throw Error(cat("the programs of a model's stages wait for each other: position ", position, " of pp is at ",
                  strategy::text(*strategy::receive_for(action)), ", which is never sent"),
              "correct what the strategy returns from stages()");
}

StepTime step_time(const std::vector<StepWork>& works, std::int64_t micro_steps, const Figures& figures,
                   double node_bytes) {
  StepTime longest;
  std::vector<PositionTime> positions;
  for (const auto& work : works) {
    auto time = step_time(work, micro_steps, figures, node_bytes);
    if (!time.unknown.empty()) return time;
    positions.push_back({work.program, {}, time.total(), time.moving});
    // Where each backward follows its forward, both are counted as one action.
    for (int micro = 0; work.program.empty() && micro < micro_steps; ++micro)
      positions.back().program.push_back({strategy::Action::Kind::forward, 0, micro});
    for (const auto& [action, of_action] : work.actions) {
      StepTime took;
      add_compute(of_action, 1, figures, node_bytes, took);
      const auto copying = wait_for_copies(of_action.copies, figures, node_bytes);
      const auto computing = took.products + took.attention + took.others + copying;
      positions.back().actions.push_back({action, computing, took.layers_wait});
    }
    if (time.total() > longest.total()) longest = std::move(time);
  }
  const auto pipeline = pipeline_time(positions);
  longest.bubble = pipeline.length - *std::max_element(pipeline.busy.begin(), pipeline.busy.end());
  longest.positions = std::move(positions);
  return or_unknown(std::move(longest));
}

std::string step_time_table(const StepTime& time) {
  std::vector<std::vector<std::string>> rows{{"part of a step", "ms"}};
  const auto add = [&](const char* part, double value) {
    if (value > 0) rows.push_back({part, cat(std::fixed, std::setprecision(1), value * 1e3)});
  };
  add("matrix products", time.products);
  add("attention", time.attention);
  add("decoding weights", time.decoding);
  add("other operators", time.others);
  add("layers wait for collectives", time.layers_wait);
  add("activations' copies to host memory, not hidden", time.copies_wait);
  add("gathers and reductions, not hidden", time.engine_wait);
  add("waiting for the host's launches", time.host_wait);
  add("gradients' sums, norm, optimizer", time.update);
  add("update in host memory", time.offload);
  add(cat("waiting for other stages, ", std::fixed, std::setprecision(1), 100 * time.bubble / time.total(), " %")
          .c_str(),
      time.bubble);
  add("sum", time.total());
  return table_text(rows);
}

}  // namespace capstan::plan
