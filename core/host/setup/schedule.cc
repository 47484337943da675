#include "setup/schedule.h"

#include <capstan/base/counted.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace capstan::setup {
namespace {

// Hugging Face's, where there is no warm-up.
constexpr double default_timescale = 10000;

std::int64_t share_of(double ratio, std::int64_t steps) {
  return static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(steps)));
}

// How much of the way from min_lr to lr is left after the part t of a decay.
double left_after(double t, const std::string& shape) {
  if (shape == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * t));
  return shape == "sqrt" ? 1 - std::sqrt(t) : 1 - t;
}

double between(const OptimizerOptions& options, double left) {
  return options.min_lr + (options.lr - options.min_lr) * left;
}

double inverse_sqrt(const OptimizerOptions& options, double step, double warmup) {
  const double timescale = warmup > 0 ? warmup : default_timescale;
  return std::max(options.min_lr, options.lr / std::sqrt((step + timescale - warmup) / timescale));
}

double wsd(const OptimizerOptions& options, std::int64_t step, std::int64_t steps) {
  const auto decay = decay_of(options, steps);
  const auto done = step - (steps - decay);
  if (done <= 0) return options.lr;
  const double t = std::min(1.0, static_cast<double>(done) / static_cast<double>(decay));
  return between(options, left_after(t, options.decay_shape));
}

}  // namespace

void describe_schedule(config::OptionTable<OptimizerOptions>& t) {
  t.add("schedule", &OptimizerOptions::schedule)
      .choices({"linear", "cosine", "cosine_restarts", "inverse_sqrt", "wsd", "constant"})
      .doc(
          "learning rate after the warm-up. linear, cosine: it falls to min_lr at the run's end; cosine_restarts: it "
          "does so several times; inverse_sqrt: lr x sqrt(W/s), or without a warm-up lr x sqrt(T/(T+s)) with T = "
          "10000; wsd (warm-up, stable, decay): it stays, and falls to min_lr in the run's last steps; constant: it "
          "stays");
  t.add("warmup_steps", &OptimizerOptions::warmup_steps).min(0).doc("W: step s has lr x (s+1)/(W+1)");
  t.add("warmup_ratio", &OptimizerOptions::warmup_ratio)
      .min(0)
      .max(1)
      .doc("W as a share of all steps, rounded up, in the place of warmup_steps");
  t.add("warmup_from_zero", &OptimizerOptions::warmup_from_zero)
      .doc("step s has lr x s/W instead, as Hugging Face's schedules");
  t.add("min_lr", &OptimizerOptions::min_lr).min(0).doc("the learning rate falls no lower after the warm-up");
  t.add("decay_steps", &OptimizerOptions::decay_steps)
      .min(0)
      .doc("wsd: in how many last steps the learning rate falls");
  t.add("decay_ratio", &OptimizerOptions::decay_ratio)
      .min(0)
      .max(1)
      .doc("the same as a share of all steps, rounded up, in the place of decay_steps");
  t.add("decay_shape", &OptimizerOptions::decay_shape)
      .choices({"linear", "sqrt", "cosine"})
      .doc("wsd: how it falls after the share u of these steps: by 1 - u, 1 - sqrt(u) or (1 + cos(pi u))/2");
  t.add("restarts", &OptimizerOptions::restarts)
      .min(1)
      .max(1e6)
      .doc(
          "cosine_restarts: how often the learning rate falls, each time from lr (Hugging Face's num_cycles); 1 is "
          "cosine");
}

bool is_of_schedule(const std::string& key) {
  static const std::vector<std::string> keys{
      "lr",     "schedule",    "warmup_steps", "warmup_ratio", "warmup_from_zero",
      "min_lr", "decay_steps", "decay_ratio",  "decay_shape",  "restarts"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::int64_t warmup_of(const OptimizerOptions& options, std::int64_t steps) {
  return options.warmup_ratio > 0 ? share_of(options.warmup_ratio, steps) : options.warmup_steps;
}

std::int64_t decay_of(const OptimizerOptions& options, std::int64_t steps) {
  const auto asked = options.decay_steps > 0 ? options.decay_steps : share_of(options.decay_ratio, steps);
  return std::clamp<std::int64_t>(steps - warmup_of(options, steps), 0, asked);
}

double learning_rate(const OptimizerOptions& options, std::int64_t step, std::int64_t steps) {
  const auto& schedule = options.schedule;
  const auto s = static_cast<double>(step);
  const auto warmup = static_cast<double>(warmup_of(options, steps));
  if (s < warmup) return options.warmup_from_zero ? options.lr * s / warmup : options.lr * (s + 1) / (warmup + 1);
  if (schedule == "inverse_sqrt") return inverse_sqrt(options, s, warmup);
  if (schedule == "wsd") return wsd(options, step, steps);
  const double t = std::min(1.0, (s - warmup) / std::max(1.0, static_cast<double>(steps) - warmup));
  if (schedule == "linear") return options.lr + (options.min_lr - options.lr) * t;
  if (schedule == "cosine") return between(options, left_after(t, "cosine"));
  if (schedule == "cosine_restarts") {
    const double turns = t * static_cast<double>(options.restarts);
    return between(options, t < 1 ? left_after(std::fmod(turns, 1.0), "cosine") : 0);
  }
  return options.lr;
}

void check_schedule(const config::Options<OptimizerOptions>& options, Diagnostics& diagnostics) {
  const auto& schedule = options->schedule;
  const auto refuse = [&](bool is_set, auto member, const char* needed) {
    if (!is_set || schedule == needed) return;
    diagnostics.add(options.where(member),
                    cat(options.name(member), " has no effect: optimizer.schedule is \"", schedule, "\""),
                    cat("remove it, or set optimizer.schedule = \"", needed, "\""));
  };
  const auto refuse_both = [&](bool are_set, auto one, auto other) {
    if (!are_set) return;
    diagnostics.add(options.where(one),
                    cat(options.name(one), " and ", options.name(other), " (", options.where(other), ") are both set"),
                    cat("remove one of the two, or set ", options.name(other), " = 0"));
  };
  refuse(options->decay_steps > 0, &OptimizerOptions::decay_steps, "wsd");
  refuse(options->decay_ratio > 0, &OptimizerOptions::decay_ratio, "wsd");
  refuse(options->decay_shape != "linear", &OptimizerOptions::decay_shape, "wsd");
  refuse(options->restarts > 1, &OptimizerOptions::restarts, "cosine_restarts");
  refuse(options->min_lr > 0 && schedule == "constant", &OptimizerOptions::min_lr, "linear");
  if (options->min_lr > options->lr && schedule != "constant") {
    diagnostics.add(
        options.where(&OptimizerOptions::min_lr),
        cat("optimizer.min_lr = ", number_text(options->min_lr), " is above optimizer.lr = ", number_text(options->lr),
            " (", options.where(&OptimizerOptions::lr), "): the learning rate would rise where it is to fall"),
        "set optimizer.min_lr to less, or optimizer.lr to more");
  }
  refuse_both(options->warmup_ratio > 0 && options->warmup_steps > 0, &OptimizerOptions::warmup_ratio,
              &OptimizerOptions::warmup_steps);
  refuse_both(options->decay_ratio > 0 && options->decay_steps > 0, &OptimizerOptions::decay_ratio,
              &OptimizerOptions::decay_steps);
  if (schedule == "wsd" && options->decay_steps == 0 && options->decay_ratio == 0) {
    diagnostics.add(options.where(&OptimizerOptions::schedule),
                    "optimizer.schedule is \"wsd\", and nothing says when the learning rate falls",
                    "set optimizer.decay_ratio = 0.1, or optimizer.decay_steps to a number of steps");
  }
}

void check_schedule_length(const config::Options<OptimizerOptions>& options, std::int64_t steps,
                           Diagnostics& diagnostics) {
  const auto warmup = warmup_of(*options, steps);
  if (options->schedule == "cosine_restarts" && options->restarts > std::max<std::int64_t>(1, steps - warmup)) {
    diagnostics.add(options.where(&OptimizerOptions::restarts),
                    cat("optimizer.restarts = ", options->restarts, " in the ", counted(steps, "step"), " of the run, ",
                        warmup, " of them its warm-up: the learning rate cannot fall so often"),
                    "set it to less, or make the run longer");
  }
  if (options->schedule != "wsd") return;
  const bool is_share = options->decay_steps == 0;
  const auto decay = is_share ? share_of(options->decay_ratio, steps) : options->decay_steps;
  // Shares that are both rounded up may be one step too many.
  const auto room = steps - warmup + (is_share && options->warmup_ratio > 0 ? 1 : 0);
  if (decay <= room) return;
  diagnostics.add(
      is_share ? options.where(&OptimizerOptions::decay_ratio) : options.where(&OptimizerOptions::decay_steps),
      cat("a warm-up of ", counted(warmup, "step"), " and a decay of ", decay, " do not fit into a run of ", steps),
      cat("set optimizer.", is_share ? "decay_ratio" : "decay_steps",
          " to less, or make the warm-up shorter or the run longer"));
}

std::string long_warmup(const config::Options<OptimizerOptions>& options, std::int64_t steps) {
  const auto warmup = warmup_of(*options, steps);
  if (warmup == 0 || steps == 0 || warmup < steps) return {};  // 0: the data are not there yet
  const bool is_ratio = options->warmup_ratio > 0;
  return cat(is_ratio ? options.where(&OptimizerOptions::warmup_ratio) : options.where(&OptimizerOptions::warmup_steps),
             ": a warm-up of ", counted(warmup, "step"), " takes all of a run of ", steps,
             ": the learning rate comes to ", number_text(learning_rate(*options, steps - 1, steps)),
             " and never reaches optimizer.lr = ", number_text(options->lr));
}

std::string schedule_text(const OptimizerOptions& options, std::int64_t steps) {
  Json json{{"steps", steps},
            {"lr", options.lr},
            {"schedule", options.schedule},
            {"warmup_steps", warmup_of(options, steps)},
            {"warmup_from_zero", options.warmup_from_zero},
            {"min_lr", options.min_lr}};
  if (options.schedule == "cosine_restarts") json["restarts"] = options.restarts;
  if (options.schedule == "wsd") {
    json["decay_steps"] = decay_of(options, steps);
    json["decay_shape"] = options.decay_shape;
  }
  return json.dump();
}

std::vector<std::string> schedule_changes(const std::string& saved, const std::string& now) {
  std::vector<std::string> changes;
  const auto theirs = try_parse_json(saved);
  const auto mine = Json::parse(now);
  for (const auto& [key, value] : mine.items()) {
    const auto before = theirs.is_object() && theirs.contains(key) ? theirs.at(key) : Json();
    if (before != value) changes.push_back(cat(key, " was ", before.dump(), " and is ", value.dump()));
  }
  return changes;
}

}  // namespace capstan::setup
