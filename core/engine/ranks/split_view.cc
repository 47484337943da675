#include <capstan/base/text.h>
#include <capstan/session/split_view.h>

#include <capstan/config/model_path.h>
#include "job/settle.h"
#include "plugin/guard.h"
#include "ranks/cut_answers.h"

namespace capstan::session {
namespace {

job::Job job_to_look_at(const std::string& config, const std::vector<std::string>& overrides, data::Split split,
                        const SplitView::Environment& env, plugin::Host& host) {
  Diagnostics faults;
  setup::JobRequest request;
  request.file = config;
  request.overrides = overrides;
  request.hub = config::hub_cache(env);
  request.purpose = setup::Purpose::evaluate;
  request.split = split == data::Split::train ? "train" : "eval";
  auto job = job::make_job(request, host, faults);
  faults.throw_if_any();
  return std::move(*job);
}

std::vector<data::Row> rows_of(const std::vector<data::Sample>& samples) {
  std::vector<data::Row> rows;
  for (const auto& sample : samples) rows.push_back({&sample, static_cast<std::int64_t>(rows.size())});
  return rows;
}

BatchView view_of(const data::HostBatch& batch) {
  return {batch.rows, batch.cols, batch.real_tokens, batch.target_tokens};
}

}  // namespace

struct SplitView::Impl {
  job::Job job;
  data::Split split;
  std::shared_ptr<const data::DataSource> source = split == data::Split::train ? job.samples.train : job.samples.eval;
};

SplitView::SplitView(const std::string& config, const std::vector<std::string>& overrides, data::Split split,
                     const Environment& env, plugin::Host& host)
    : impl_(new Impl{job_to_look_at(config, overrides, split, env, host), split}) {
  if (impl_->source) return;
  const auto& name = impl_->job.config.request.split;
  throw Error(cat("the configuration names no data for the split '", name, "'"),
              cat("set data.", name, ", or use --split ", name == "train" ? "eval" : "train"));
}

SplitView::~SplitView() = default;

std::int64_t SplitView::size() const { return impl_->source->size(); }
data::Sample SplitView::sample(std::int64_t index) const { return impl_->job.samples.sample(*impl_->source, index); }
const data::SampleForm& SplitView::form() const { return impl_->job.plugins.data_parts.form; }
const tokenizer::Tokenizer& SplitView::tokenizer() const { return *impl_->job.samples.tokenizer.object; }

BatchView SplitView::batch(const std::vector<data::Sample>& samples) const {
  return view_of(data::collate(rows_of(samples), impl_->job.padding(), impl_->job.plugins.data_parts.form));
}

std::optional<BatchView> SplitView::packed(const std::vector<data::Sample>& samples) const {
  const auto& job = impl_->job;
  if (!job.plugins.data_options->packing) return {};
  return view_of(data::pack(rows_of(samples), job.padding(), job.row_capacity(), job.plugins.data_parts.form));
}

std::int64_t SplitView::max_length() const { return impl_->job.samples.length; }

std::vector<SampleLength> SplitView::lengths() const {
  const auto& job = impl_->job;
  const auto& data = *job.plugins.data;
  const auto* measures = dynamic_cast<const SampleLengths*>(data.object.get());
  if (measures == nullptr) return {};
  return plugin::guard(data.name, "lengths", [&] {
    return measures->lengths(job.samples.request(impl_->split, job.samples.length, job.plugins.model_facts.vocab_size));
  });
}

std::string SplitView::cut_answers() const { return ranks::cut_answers_text(impl_->job, impl_->split); }

}  // namespace capstan::session
