#include "session/split_view.h"

#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include "job/settle.h"
#include "plugin/guard.h"
#include "session/cut_answers.h"

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

class JobSplit final : public SplitView {
 public:
  JobSplit(job::Job job, data::Split split) : job_(std::move(job)), split_(split) {
    if (source_) return;
    const auto& name = job_.config.request.split;
    throw Error(cat("the configuration names no data for the split '", name, "'"),
                cat("set data.", name, ", or use --split ", name == "train" ? "eval" : "train"));
  }

  std::int64_t size() const override { return source_->size(); }
  data::Sample sample(std::int64_t index) const override { return job_.samples.sample(*source_, index); }
  const data::SampleForm& form() const override { return job_.plugins.data_parts.form; }
  const tokenizer::Tokenizer& tokenizer() const override { return *job_.samples.tokenizer.object; }

  BatchView batch(const std::vector<data::Sample>& samples) const override {
    return view_of(data::collate(rows_of(samples), job_.padding(), form()));
  }
  std::optional<BatchView> packed(const std::vector<data::Sample>& samples) const override {
    if (!job_.plugins.data_parts.options->packing) return {};
    return view_of(data::pack(rows_of(samples), job_.padding(), job_.row_capacity(), form()));
  }

  std::int64_t max_length() const override { return job_.samples.length; }
  std::vector<SampleLength> lengths() const override {
    const auto& data = *job_.plugins.data;
    const auto* measures = dynamic_cast<const SampleLengths*>(data.object.get());
    if (measures == nullptr) return {};
    return plugin::guard(data.name, "lengths", [&] {
      return measures->lengths(job_.samples.request(split_, job_.samples.length, job_.plugins.model_facts.vocab_size));
    });
  }
  std::string cut_answers() const override { return cut_answers_text(job_, split_); }

 private:
  job::Job job_;
  data::Split split_;
  std::shared_ptr<const data::DataSource> source_ =
      split_ == data::Split::train ? job_.samples.train : job_.samples.eval;
};

}  // namespace

std::unique_ptr<SplitView> open_split_view(const std::string& config, const std::vector<std::string>& overrides,
                                           data::Split split, const SplitView::Environment& env, plugin::Host& host) {
  return std::make_unique<JobSplit>(job_to_look_at(config, overrides, split, env, host), split);
}

}  // namespace capstan::session
