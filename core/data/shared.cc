#include "data/shared.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>

namespace capstan::data {

void SharedData::refuse_file(Diagnostics& diagnostics) const {
  const auto place = share_.where_eval.empty() ? std::string() : cat(" (", share_.where_eval, ")");
  diagnostics.add(share_.where,
                  cat("data.eval_fraction = ", number_text(share_.fraction),
                      " takes evaluation samples from the training data, and [data] names evaluation data", place),
                  "keep one of them");
}

void SharedData::check(Diagnostics& diagnostics) const {
  if (share_.fraction > 0 && !share_.where_eval.empty() && data_->evaluates()) return refuse_file(diagnostics);
  data_->check(diagnostics);
}

std::shared_ptr<DataSource> SharedData::open(const SplitRequest& request) const {
  if (share_.fraction > 0 && request.set.empty()) return open_share(request);
  return remembered(request);
}

std::shared_ptr<SourceView> SharedData::remembered(const SplitRequest& request) const {
  const auto known = std::find_if(opened_.begin(), opened_.end(), [&](const Opened& one) {
    return one.split == request.split && one.set == request.set && one.length == request.max_length;
  });
  if (known != opened_.end()) return known->source;
  auto source = data_->open(request);
  if (!source) return nullptr;
  opened_.push_back({request.split, request.set, request.max_length, std::make_shared<SourceView>(std::move(source))});
  return opened_.back().source;
}

std::shared_ptr<DataSource> SharedData::open_share(const SplitRequest& request) const {
  auto named = request;
  named.split = Split::eval;
  Diagnostics faults;
  if (data_->open(named)) refuse_file(faults);
  faults.throw_if_any();
  named.split = Split::train;
  auto all = remembered(named);
  if (!all) return nullptr;
  const auto samples = all->size();
  const auto chosen = std::llround(share_.fraction * static_cast<double>(samples));
  if (chosen < 1 || chosen >= samples) {
    throw Error(cat("data.eval_fraction = ", number_text(share_.fraction), " of ", counted(samples, "training sample"),
                    " leaves no sample for ", chosen < 1 ? "evaluation" : "training"),
                chosen < 1 ? "set a larger one, or take more data" : "set a smaller one, or take more data",
                share_.where);
  }
  text_ = cat("data.eval_fraction: ", thousands(chosen), " of ", counted(samples, "training sample"),
              plural(chosen, " is", " are"), " for evaluation, chosen by run.seed, and ", thousands(samples - chosen),
              " for training");
  const auto indices = std::make_shared<const std::vector<std::int64_t>>(keyed_choice(samples, chosen, share_.seed));
  return std::make_shared<Selection>(std::move(all), indices, request.split == Split::train);
}

}  // namespace capstan::data
