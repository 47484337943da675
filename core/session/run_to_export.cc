#include "session/run_to_export.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <algorithm>

#include "comm/connect.h"
#include "hf/door.h"
#include "job/job.h"
#include "job/packed_forms.h"
#include "job/sections.h"
#include "job/weights.h"
#include "train/answer_ends.h"
#include "train/exports.h"

namespace capstan::session {
namespace {

namespace fs = std::filesystem;

// "it is strategy.fsdp that DOES so: " names the first installed strategy that has what the run's own have not.
template <class Has>
std::string who(plugin::Host& host, const std::string& does, const Has& has) {
  for (const auto& [table, strategy] : job::installed_strategies(host)) {
    if (has(*strategy)) return cat("it is ", table, " that ", does, " so: ");
  }
  return {};
}

// What one of the run's strategies writes. Throws Error where none does, and for what goes only with Hugging Face's
// folders.
job::Export chosen_of(const ExportForm& form, const job::Strategies& strategies, plugin::Host& host) {
  const auto exports = job::exports_of(strategies);
  const auto is_meant = [&](const auto& one) { return one.exporter->name() == form.to; };
  const auto found = std::find_if(exports.begin(), exports.end(), is_meant);
  if (found == exports.end()) {
    const auto writes = [&](const strategy::Strategy& other) {
      const auto all = other.exporters();
      return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one->name() == form.to; });
    };
    const auto options = job::export_options(strategies);
    throw Error(cat("this run cannot be written as \"", form.to, "\""),
                cat(who(host, "writes runs", writes), "choose --to hf", options.empty() ? "" : " or " + options));
  }
  if (form.merge) throw Error("--merge goes with --to hf", "leave --merge out, or write --to hf");
  if (!form.quantization.empty())
    throw Error("--quantization goes with --to hf", "leave --quantization out, or write --to hf");
  return *found;
}

// Throws Error for what does not go with the run, or together.
void check_hf(const ExportForm& asked, const job::ModelJob& job, const std::vector<nn::Unit*>& units,
              plugin::Host& host) {
  const auto& form = asked.quantization;
  if (asked.merge && !form.empty()) {
    const auto options = job::export_options(job.plugins.strategies);
    throw Error("--merge adds adapters into numbers, which --quantization would round again",
                cat("give one of the two", options.empty() ? "" : "; adapters go with a quantized base: " + options));
  }
  if (asked.merge && job::adapters_of(units).empty())
    throw Error("--merge adds adapters into the model, and this run has none", "leave --merge out");
  const auto forms = job::forms_of_units(units);
  if (form.empty() || std::find(forms.begin(), forms.end(), form) != forms.end()) return;
  const auto keeps = [&](const strategy::Strategy& other) {
    const auto all = other.packed_forms();
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == form; });
  };
  throw Error(cat("nothing that this run trained with is kept as \"", form, "\""),
              cat(who(host, "keeps weights", keeps), "leave --quantization out",
                  forms.empty() ? "" : cat(", or choose ", join(forms, " or "))));
}

job::ModelJob job_to_export(const fs::path& run, const RunToExport::Environment& env, plugin::Host& host) {
  setup::JobRequest request;
  request.file = (run / "config.toml").string();
  request.hub = config::hub_cache(env);
  Diagnostics faults;
  auto job = job::prepare_model(request, host, faults);
  faults.throw_if_any();
  return std::move(*job);
}

class JobToExport final : public RunToExport {
 public:
  JobToExport(job::ModelJob job, plugin::Host& host) : job_(std::move(job)), host_(host) {}

  std::string folder_of(const ExportForm& form) const override {
    if (form.to != "hf") return chosen_of(form, job_.plugins.strategies, host_).exporter->folder();
    check_hf(form, job_, units_, host_);
    return "model";
  }

  std::string write(const ExportForm& form, const fs::path& weights, const fs::path& out) const override {
    const auto values = job::open_boxes(weights);
    if (form.to != "hf")
      return train::write_export(chosen_of(form, job_.plugins.strategies, host_), job_.plugins, *values, out);
    const hf::ModelToWrite model{job_.plugins, job_.tokenizer, *job_.config.train, units_,
                                 train::saved_answer_ends(weights)};
    const auto alone = comm::connect({});
    return train::written_text(hf::door().write(model, *values, out, form, *alone));
  }

 private:
  job::ModelJob job_;
  plugin::Host& host_;
  std::vector<nn::Unit*> units_ = job::pointers(job_.model.units);
};

}  // namespace

std::unique_ptr<RunToExport> open_run_to_export(const fs::path& run, const RunToExport::Environment& env,
                                                plugin::Host& host) {
  return std::make_unique<JobToExport>(job_to_export(run, env, host), host);
}

}  // namespace capstan::session
