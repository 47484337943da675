#include <capstan/base/text.h>

#include <cmath>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

bool is_whole(double number) { return number >= 1 && std::floor(number) == number; }

// Steps, or a share of all steps, which is known only when the data are.
void take_interval(Import& import, const std::string& path, const std::string& ours) {
  const auto steps = import.number(path);
  if (!steps || *steps <= 0) return;
  if (is_whole(*steps)) return import.set(ours, static_cast<std::int64_t>(*steps), path);
  import.choose(ours, "100", cat("a number of steps; axolotl's is a share of all steps, ", number_text(*steps)), path);
}

void take_a_epoch(Import& import, const std::string& path, const std::string& ours) {
  const auto times = import.number(path);
  if (!times || *times <= 0 || *times == 1) return;
  import.choose(ours, "100",
                cat("a number of steps; axolotl does so ", number_text(*times),
                    " times an epoch, whose steps `capstan check` counts"),
                path);
}

bool evaluates(const Import& import) {
  return import.number("val_set_size").value_or(0) > 0 || import.has("test_datasets");
}

void take_evaluations(Import& import) {
  if (!evaluates(import)) return;
  take_interval(import, "eval_steps", "train.eval_every");
  take_a_epoch(import, "evals_per_epoch", "train.eval_every");
  for (const char* path : {"eval_strategy", "evaluation_strategy"}) {
    if (import.text(path) == "no")
      import.note(path, "is no: what is there to evaluate is evaluated after each epoch, or leave it out of [data]");
  }
}

void take_best(Import& import) {
  const bool best = import.text("save_strategy") == "best";
  const std::string path = best ? "save_strategy" : "load_best_model_at_end";
  if (!best && !import.is_true(path)) return;
  import.set("checkpoint.keep_best", true, path);
  if (import.is_true("load_best_model_at_end")) import.set("checkpoint.final_weights", "best", path);
  const auto metric = import.text("metric_for_best_model");
  if (metric == "eval_loss" || metric == "loss") {
    import.set("checkpoint.metric", "eval_loss", "metric_for_best_model");
  } else if (!metric.empty()) {
    import.choose("checkpoint.metric", "\"eval_loss\"", cat("what metrics.jsonl has; axolotl's is ", metric),
                  "metric_for_best_model");
  }
  if (import.has("greater_is_better"))
    import.set("checkpoint.mode", import.is_true("greater_is_better") ? "max" : "min", "greater_is_better");
}

void take_checkpoints(Import& import) {
  const auto strategy = import.text("save_strategy");
  take_interval(import, "save_steps", "checkpoint.every_steps");
  take_a_epoch(import, "saves_per_epoch", "checkpoint.every_steps");
  if (strategy == "steps")
    import.set_default("checkpoint.every_steps", std::int64_t{500}, "Hugging Face's default of save_steps");
  const bool by_steps = import.settings().get<std::int64_t>("checkpoint.every_steps").has_value();
  if (!by_steps && strategy != "no" && strategy != "best") {
    const std::string path = import.has("saves_per_epoch") ? "saves_per_epoch" : "save_strategy";
    if (import.has(path)) import.set("checkpoint.every_epoch", true, path);
    import.set_default("checkpoint.every_epoch", true, "axolotl's default");
  }
  import.set_default("checkpoint.keep", std::int64_t{4}, "axolotl's default");
  if (import.is_true("auto_resume_from_checkpoints"))
    import.set("checkpoint.resume", "auto", "auto_resume_from_checkpoints");
  take_best(import);
}

}  // namespace

void take_run(Import& import) {
  const auto folder = import.text("output_dir");
  if (!folder.empty()) import.set("run.dir", import.local(folder), "output_dir");
  take_evaluations(import);
  take_checkpoints(import);
}

}  // namespace import_axolotl
