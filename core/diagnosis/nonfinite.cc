#include "diagnosis/nonfinite.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/agree.h"
#include "step/feed.h"
#include "step/session.h"
#include "step/step_numbers.h"
#include "step/to_device.h"

namespace capstan::diagnosis {
namespace {

// A weight with something that is not finite.
struct BadWeight {
  std::string parameter;
  std::string unit;  // the first in forward order that uses it
  double norm = 0;   // its gradient's, without the loss scale
};

// The first unit in forward order whose output is not finite on some rank, or so large that its square is not; the
// same on all ranks.
struct BadOutput {
  std::string unit;
  int rank = 0;                  // the first one that sees it …
  std::int64_t micro_batch = 0;  // … in its first micro-batch that does
  std::string weight;            // the unit's weight with the largest element; "" for a unit without any
  double largest = 0;            // the element's magnitude
  std::string text() const;
};

// Where numbers are not finite, over all ranks; lists in forward order, the same on each.
struct NonFinite {
  std::vector<BadWeight> values;     // parameters that themselves hold nan or inf
  std::optional<BadOutput> output;   // the first of forward
  std::vector<BadWeight> gradients;  // weights whose gradient does
  std::size_t trainable = 0;         // weights that have a gradient
  // The first place, in words.
  std::string text() const;
};

struct Place {
  const nn::Weight* weight;
  const nn::Unit* unit;
};

// Each weight once, with the first unit that uses it.
std::vector<Place> forward_order(const step::Session& session) {
  std::vector<Place> places;
  for (const auto* unit : session.units) {
    for (const auto& weight : unit->weights()) {
      const bool known =
          std::any_of(places.begin(), places.end(), [&](const auto& place) { return place.weight == weight.get(); });
      if (!known) places.push_back({weight.get(), unit});
    }
  }
  return places;
}

// The ranks that see the same norm, so that all of them or none come here.
comm::Group& group_of(const step::Session& session) { return *session.norm_group; }

// "a, b, or c".
std::string alternatives(std::vector<std::string> ways) {
  if (ways.size() > 1) ways.back() = cat("or ", ways.back());
  return join(ways);
}

// The precision with more range, or at the same range more digits; "" when there is none.
std::string wider(const std::string& precision) {
  if (precision == "fp16") return "bf16";
  return precision == "bf16" || precision == "bf16_pure" ? "fp32" : "";
}

// A number as a person writes it; nan has no sign.
std::string plain_text(double number) { return std::isnan(number) ? "nan" : number_text(number); }

Json json_of(const std::vector<BadWeight>& weights, bool with_norm) {
  auto list = Json::array();
  for (const auto& weight : weights) {
    Json json{{"parameter", weight.parameter}, {"unit", weight.unit}};
    if (with_norm) json["norm"] = plain_text(weight.norm);  // JSON has no infinity
    list.push_back(std::move(json));
  }
  return list;
}

Json matrix(const std::vector<std::int64_t>& values, std::int64_t rows, std::int64_t cols) {
  auto out = Json::array();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = values.begin() + row * cols;
    out.push_back(std::vector<std::int64_t>(begin, begin + cols));
  }
  return out;
}

Json json_of(const step::StepInput& input, int rank) {
  Json json{{"rank", rank}, {"micro_batches", Json::array()}};
  for (const auto& batch : input.micro) {
    json["micro_batches"].push_back({{"sample_ids", batch.sample_ids},
                                     {"lengths", batch.lengths},
                                     {"tokens", matrix(batch.tokens, batch.rows, batch.cols)},
                                     {"labels", matrix(batch.labels, batch.rows, batch.cols)}});
  }
  return json;
}

// The limit is the root of the largest number: what is larger is infinite once a norm has squared it, and 16-bit
// numbers are squared as float32.
at::Tensor is_bad(const at::Tensor& x) {
  const bool is_double = x.scalar_type() == at::kDouble;
  const double most = is_double ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  if (x.numel() == 0) return at::zeros({}, x.options().dtype(at::kBool));
  return x.abs().max().to(at::kDouble).lt(std::sqrt(most)).logical_not();  // so nan is bad, too
}

at::Tensor is_bad(const nn::Hidden& hidden) {
  auto bad = is_bad(hidden.states);
  for (const auto& sum : hidden.sums) bad = bad.logical_or(is_bad(sum));
  for (const auto& one : hidden.carried) bad = bad.logical_or(is_bad(one));
  return bad;
}

// Whether the output of each micro-batch and unit is bad: [micro-batches, units] bool.
at::Tensor bad_outputs(const step::Session& session, const step::StepInput& input) {
  const auto micros = static_cast<std::int64_t>(input.micro.size());
  const auto units = static_cast<std::int64_t>(session.units.size());
  const auto bad = at::zeros({micros, units}, at::TensorOptions().dtype(at::kBool).device(session.device));
  const auto& facts = session.job->plugins.model_facts;
  for (std::int64_t m = 0; m < micros; ++m) {
    auto batch = step::training_batch(session, input.micro[static_cast<std::size_t>(m)], input.step);
    if (!facts.gives(batch.pass.output) && !facts.outputs.empty()) batch.pass.output = facts.outputs.front();
    session.interpreter->evaluate(batch, nullptr, [&](std::size_t unit, const nn::Hidden& hidden) {
      bad[m][static_cast<std::int64_t>(unit)].copy_(is_bad(hidden));
    });
  }
  return bad.to(at::kCPU);
}

// The largest element of each weight of the unit, over all ranks.
void find_largest(const step::Session& session, const nn::Unit& unit, BadOutput& found) {
  const auto& weights = unit.weights();
  if (weights.empty()) return;
  std::vector<double> largest(weights.size(), 0.0);
  for (const auto& stored : session.engine->stored_boxes()) {
    for (std::size_t w = 0; w < weights.size(); ++w) {
      for (const auto& record : weights[w]->records()) {
        if (&record != stored.record || stored.value.numel() == 0) continue;
        largest[w] = std::max(largest[w], stored.value.abs().max().item<double>());
      }
    }
  }
  const auto on_device = at::tensor(largest, at::kDouble).to(session.device);
  session.world_device->all_reduce(on_device, comm::ReduceOp::max, "all-reduce largest weights");
  const auto [value, which] = on_device.to(at::kCPU).max(0);
  found.weight = weights[static_cast<std::size_t>(which.item<std::int64_t>())]->name();
  found.largest = value.item<double>();
}

std::string BadOutput::text() const {
  auto text = cat("in forward the first output with nan, inf or numbers too large to square is that of unit ", unit,
                  ", in micro-batch ", micro_batch, " of rank ", rank);
  if (!weight.empty()) text += cat("; the largest of its weights is ", weight, ", up to ", largest);
  return text;
}

// Runs a step's forward once more, without gradients, and looks at what comes out of each unit. Backward cannot tell:
// after one value that is not finite nearly all gradients are nan. It computes with the weights as they are now: on a
// GPU the next step may have updated them since. Waits for the device. Collective over the world.
std::optional<BadOutput> find_bad_output(const step::Session& session, const step::StepInput& input) {
  auto& world = *session.world_device;
  const auto bad = bad_outputs(session, input);
  const auto micros = bad.size(0);
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  // One number, smallest for the first unit, then for its first rank, then for that rank's first micro-batch.
  auto first = none;
  const auto places = bad.t().nonzero();  // (unit, micro-batch), in that order
  if (places.size(0) > 0) {
    const auto unit = places[0][0].item<std::int64_t>();
    first = (unit * world.size() + world.rank()) * micros + places[0][1].item<std::int64_t>();
  }
  const auto on_device = at::full({1}, first, at::TensorOptions().dtype(at::kLong).device(session.device));
  world.all_reduce(on_device, comm::ReduceOp::min, "all-reduce the first bad output");
  first = on_device.item<std::int64_t>();
  if (first == none) return {};
  const auto& unit = *session.units[static_cast<std::size_t>(first / micros / world.size())];
  BadOutput found;
  found.unit = unit.name();
  found.rank = static_cast<int>(first / micros % world.size());
  found.micro_batch = first % micros;
  find_largest(session, unit, found);
  return found;
}

std::string NonFinite::text() const {
  if (!values.empty()) {
    return cat("parameter ", values.front().parameter, " of unit ", values.front().unit, " itself holds nan or inf",
               values.size() > 1 ? cat(", and so do ", values.size() - 1, " more") : "");
  }
  if (output) return output->text();
  if (gradients.empty()) return "each gradient by itself is finite";
  const auto& first = gradients.front();
  const auto& last = gradients.back();
  auto text = cat("in forward order the first gradient with nan or inf is that of ", first.parameter, ", unit ",
                  first.unit, " (", gradients.size(), " of ", trainable, " have some)");
  if (gradients.size() > 1) text += cat("; backward came to ", last.parameter, ", unit ", last.unit, ", first");
  return text;
}

// Looks at the parameters as they are now, and at the gradients by what a step left: `norms` as in StepNumbers,
// `scale` the loss scale in them; not at outputs. Waits for the device. Collective over the ranks that share a norm.
NonFinite find_nonfinite(const step::Session& session, const at::Tensor& norms, double scale) {
  const auto places = forward_order(session);
  std::map<std::string, std::size_t> by_weight;
  std::map<std::string, std::size_t> by_record;
  for (std::size_t i = 0; i < places.size(); ++i) {
    by_weight[places[i].weight->name()] = i;
    for (const auto& record : places[i].weight->records()) by_record[record.name] = i;
  }
  // For each weight its squared gradient norm, then for each how many boxes hold something that is not finite.
  std::vector<double> mine(2 * places.size(), 0.0);
  const auto names = session.engine->trainable_names();
  const auto squares = norms.to(at::kCPU);
  for (std::size_t i = 0; i < names.size(); ++i) {
    mine[by_weight.at(names[i])] = squares[static_cast<std::int64_t>(i)].item<double>();
  }
  for (const auto& stored : session.engine->stored_boxes()) {
    if (!at::isfinite(stored.value).all().item<bool>()) mine[places.size() + by_record.at(stored.record->name)] += 1;
  }
  const auto on_device = at::tensor(mine, at::kDouble).to(session.device);
  group_of(session).all_reduce(on_device, comm::ReduceOp::sum, "all-reduce where numbers are not finite");
  const auto all = on_device.to(at::kCPU);
  const auto* numbers = all.const_data_ptr<double>();
  NonFinite found;
  found.trainable = static_cast<std::size_t>(
      std::count_if(places.begin(), places.end(), [](const auto& place) { return place.weight->trainable(); }));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const BadWeight bad{places[i].weight->name(), places[i].unit->name(), std::sqrt(numbers[i]) / scale};
    if (numbers[places.size() + i] > 0) found.values.push_back(bad);
    if (!std::isfinite(numbers[i])) found.gradients.push_back(bad);
  }
  return found;
}

std::string fix(const BadStep& bad, const NonFinite& found) {
  std::vector<std::string> ways;
  if (!found.values.empty()) {
    ways = {"start from weights that are finite, such as an earlier checkpoint", "lower optimizer.lr"};
    return alternatives(ways);
  }
  if (bad.scales_loss && !found.output) ways.emplace_back("use a smaller train.loss_scale or loss_scale_min");
  if (found.output && bad.event.step == 0) {
    ways.emplace_back("start from other weights (no step has changed these)");
  } else {
    ways.emplace_back("lower optimizer.lr");
    ways.emplace_back("add warm-up");
  }
  if (const auto precision = wider(bad.session.job->config.train->precision); !precision.empty())
    ways.push_back(cat("use train.precision = \"", precision, "\""));
  return alternatives(ways);
}

std::string dump(const BadStep& bad, const NonFinite& found) {
  const auto& event = bad.event;
  auto& group = group_of(bad.session);
  const auto rank = bad.session.world_device->rank();
  const auto batches = comm::exchange_texts(group, json_of(bad.input, rank).dump(), "all-gather batches to dump");
  const auto first = group.ranks().front();
  const auto file = bad.folder / cat("dump-step-", event.step, first == 0 ? "" : cat("-rank-", first), ".json");
  if (group.rank() != 0) return file.string();
  Json json{{"step", event.step},
            {"loss", plain_text(event.loss)},
            {"grad_norm", plain_text(event.grad_norm)},
            {"lr", event.lr}};
  if (event.loss_scale) json["loss_scale"] = *event.loss_scale;
  json["parameters"] = json_of(found.values, false);
  if (found.output) {
    const auto& output = *found.output;
    json["output"] = {{"unit", output.unit}, {"rank", output.rank}, {"micro_batch", output.micro_batch}};
  }
  json["gradients"] = json_of(found.gradients, true);
  for (const auto& batch : batches) json["ranks"].push_back(Json::parse(batch));
  write_file(file, json.dump(2) + "\n");
  return file.string();
}

}  // namespace

Diagnostic explain(const BadStep& bad) {
  const auto& [session, event, numbers, input, scales_loss, folder] = bad;
  auto found = find_nonfinite(session, numbers.norms, event.loss_scale.value_or(1.0));
  // Infinity need not reach the loss. Where gradients are local on an axis, not all ranks are here for a bad norm, but
  // all of them know the loss.
  if (session.local_axes().empty() || !std::isfinite(event.loss)) found.output = find_bad_output(session, input);
  auto what = cat("step ", event.step, ": the loss is ", plain_text(event.loss), ", the gradient norm ",
                  plain_text(event.grad_norm), "; ", found.text());
  if (session.job->config.train->on_nonfinite == "dump") what += cat("; batch and norms are in ", dump(bad, found));
  return {{}, what, fix(bad, found)};
}

}  // namespace capstan::diagnosis
