#include "job/start_values.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/codec.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "hf/door.h"
#include "job/assemble.h"
#include "job/packed_forms.h"
#include "job/resume.h"
#include "job/weights.h"
#include "nn/init_source.h"

namespace capstan::job {
namespace {

// The first of several sources that has the parameter.
class FirstOf : public layout::Source, public nn::CodedSource {
 public:
  explicit FirstOf(std::vector<std::shared_ptr<layout::Source>> sources) : sources_(std::move(sources)) {}
  bool has(const layout::Param& param) const override { return find(param) != nullptr; }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override {
    auto* source = find(param);
    CAPSTAN_ASSERT(source);  // initialisation is the last and has all
    source->fill(param, box, out);
  }
  std::vector<nn::CodedMatrix> coded(const layout::Param& param, const layout::Box& box) const override {
    const auto* source = find(param);
    return source ? nn::coded_in(*source, param, box) : std::vector<nn::CodedMatrix>();
  }

 private:
  layout::Source* find(const layout::Param& param) const {
    const auto has = [&](const auto& source) { return source->has(param); };
    const auto found = std::find_if(sources_.begin(), sources_.end(), has);
    return found == sources_.end() ? nullptr : found->get();
  }
  std::vector<std::shared_ptr<layout::Source>> sources_;
};

using Records = std::vector<const layout::Param*>;

// The model's own records, and those that strategies added.
std::pair<Records, Records> own_and_added(const AssembledModel& model) {
  std::set<std::string> own;
  for (const auto* record : records_of(model.own)) own.insert(record->name);
  std::pair<Records, Records> records;
  std::set<std::string> seen;
  for (const auto* record : records_of(job::pointers(model.units))) {
    if (seen.insert(record->name).second)
      (own.contains(record->name) ? records.first : records.second).push_back(record);
  }
  return records;
}

std::shared_ptr<layout::Source> folder(const Job& job, const Records& records) {
  std::shared_ptr<hf::Folder> source = hf::door().open({*job.plugins.model_options->path,
                                                        job.plugins.model->object->file_map(),
                                                        {},
                                                        codecs_of(job.model->own),
                                                        job.plugins.packed_forms});
  Diagnostics diagnostics;
  source->check(records, diagnostics);
  diagnostics.throw_if_any();
  return source;
}

bool is_given(const Job& job, const Records& added, const checkpoint::Reader* resumed) {
  if (!job.config.request.weights.empty()) return true;  // open_weights has seen to it
  return resumed && std::all_of(added.begin(), added.end(),
                                [&](const auto* record) { return resumed->has(saved_name("model", record->name, 0)); });
}

// A run does not save the frozen weights that a codec keeps: the model's folder has them. Where there is none, they
// were random values, which nothing has.
void refuse_unsaved(const Job& job, const Records& own, const layout::Source& saved) {
  const auto codecs = codecs_of(job.model->own);
  std::vector<std::string> missing;
  for (const auto* record : own) {
    if (codecs.contains(record->name) && !saved.has(*record)) missing.push_back(record->name);
  }
  if (missing.empty()) return;
  throw Error(cat("it has only what was trained: the frozen weights that ", codecs.at(missing.front())->name(),
                  " keeps began as random values, which no file has ('", missing.front(), "' and ", missing.size() - 1,
                  " more)"),
              "train from a model's folder (model.path), or without such a strategy, and use that run",
              job.config.request.weights);
}

}  // namespace

std::unique_ptr<layout::Source> start_values(const Job& job, const checkpoint::Reader* resumed) {
  const auto [own, added] = own_and_added(*job.model);
  std::vector<std::shared_ptr<layout::Source>> sources;
  const auto files = job.plugins.model->object->file_map();
  if (!job.config.request.weights.empty()) {
    // What was not trained may be left to the folder that training began with.
    auto needed = added;
    const bool alone = !job.plugins.model_options->path;
    const auto codecs = codecs_of(job.model->own);
    if (alone) {
      std::copy_if(own.begin(), own.end(), std::back_inserter(needed),
                   [&](const auto* record) { return !codecs.contains(record->name); });
    }
    sources.push_back(open_weights(job.config.request.weights, files, needed));
    if (alone) refuse_unsaved(job, own, *sources.back());
  }
  if (!is_given(job, added, resumed)) {
    each_strategy(job.plugins.strategies, "values", [&](strategy::Strategy& strategy) {
      if (auto source = strategy.values(files)) sources.push_back(std::move(source));
    });
  }
  if (job.plugins.model_options->path) sources.push_back(folder(job, own));
  sources.push_back(std::make_shared<nn::InitSource>(job.seed()));
  return std::make_unique<FirstOf>(std::move(sources));
}

void check_model_files(const Plugins& plugins, const std::vector<nn::WeightPtr>& own, Diagnostics& diagnostics) {
  if (!plugins.model_options->path || own.empty()) return;
  const auto map = plugins.model->object->file_map();
  auto records = records_of(own);
  // What a strategy found wrong has been reported.
  std::erase_if(records, [&](const auto* record) { return !map.tensors.contains(record->name); });
  hf::door()
      .open({*plugins.model_options->path, map, {}, codecs_of(own), plugins.packed_forms})
      ->check(records, diagnostics);
}

void note_model_files(Plugins& plugins, const std::vector<nn::WeightPtr>& own) {
  const auto map = plugins.model->object->file_map();
  const auto& path = plugins.model_options->path;
  if (!path || own.empty()) return;
  const auto folder = hf::door().open({*path, map, {}, codecs_of(own), plugins.packed_forms});
  auto& note = plugins.model->note;
  const auto records = records_of(own);
  for (const auto& line : folder->notes(records)) note += cat(note.empty() ? "" : "\n", line);
  std::vector<std::string> absent;
  for (const auto* record : records) {
    if (folder->may_lack(*record))
      absent.push_back(cat(record->name, record->trainable ? "" : " (which is not trained)"));
  }
  if (absent.empty()) return;
  note += cat(note.empty() ? "" : "\n", *path, " has no tensor of ", join(absent),
              absent.size() == 1 ? ": it begins with its initial values" : ": they begin with their initial values");
}

void check_added_files(const Plugins& plugins) {
  const auto files = plugins.model->object->file_map();
  each_strategy(plugins.strategies, "values", [&](strategy::Strategy& strategy) { (void)strategy.values(files); });
}

}  // namespace capstan::job
