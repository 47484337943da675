#include "step/feed.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "data/sample_form.h"

namespace capstan::step {

Feed::Feed(const job::Job& job) : job_(job), batches_(job.samples.plan), padding_(job.padding()) {}

namespace {

// Positions of the sample's longest sequence.
std::int64_t positions_of(const data::Sample& sample) {
  std::int64_t longest = 1;
  for (const auto& sequence : data::sequences_of(sample))
    longest = std::max(longest, static_cast<std::int64_t>(sequence.tokens.size()) - 1);
  return longest;
}

}  // namespace

// Micro-steps of samples that are about as long as one another have little padding. The longest are last, whose
// backward sums of gradients overlap with. Empty slots have no length. Ranks wait for each other once a step: of a
// micro-step's parts, from the last micro-step on, the longest goes to the rank with the fewest columns so far.
std::vector<data::Slot> Feed::slots_of(std::int64_t step) {
  auto slots = batches_.slots(step);
  if (!job_.config.train->sort_by_length || job_.topology.batch.accumulation == 1) return slots;
  lengths_.resize(static_cast<std::size_t>(job_.samples.train->size()));
  const auto length = [this](std::int64_t sample) {
    if (sample < 0) return 0;
    auto& known = lengths_[static_cast<std::size_t>(sample)];
    if (known == 0) known = static_cast<std::int32_t>(positions_of(checked_sample(*job_.samples.train, sample)));
    return known;
  };
  std::stable_sort(slots.begin(), slots.end(), [&](auto a, auto b) { return length(a.sample) < length(b.sample); });
  const auto& shape = job_.topology.batch;
  const auto sorted = slots;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranks;  // columns so far, data coordinate
  for (std::int64_t rank = 0; rank < shape.data_parallel_size; ++rank) ranks.emplace_back(0, rank);
  for (auto micro = shape.accumulation; micro-- > 0;) {
    std::sort(ranks.begin(), ranks.end(), std::greater<>());
    for (std::int64_t part = 0; auto& [columns, rank] : ranks) {
      const auto from = sorted.begin() + shape.first_slot(micro, part++);
      std::copy_n(from, shape.micro_batch, slots.begin() + shape.first_slot(micro, rank));
      columns += data::rounded_up(length(from[shape.micro_batch - 1].sample), padding_.multiple);
    }
  }
  return slots;
}

StepInput Feed::draw(std::int64_t step) {
  StepInput input;
  input.step = step;
  const auto& objective = *job_.plugins.minimised;
  input.counts.assign(objective.plan().counts.size(), 0.0);
  input.sources.assign(job_.plugins.data_parts.form.sources.size(), 0.0);
  const auto slots = slots_of(step);
  const auto& shape = job_.topology.batch;
  for (std::int64_t micro = 0; micro < shape.accumulation; ++micro) {
    const auto first = slots.begin() + shape.first_slot(micro, job_.topology.data_coordinate());
    input.micro.push_back(batch_of(*job_.samples.train, {first, first + shape.micro_batch}, &input));
    const auto& batch = input.micro.back();
    input.target_tokens += batch.target_tokens;
    input.real_tokens += batch.real_tokens;
    input.padded_tokens += batch.padded_tokens();
    const auto add = [](std::vector<double>& sums, const std::vector<double>& more) {
      std::transform(more.begin(), more.end(), sums.begin(), sums.begin(), std::plus<>());
    };
    add(input.counts, objective.counts(batch));
    if (!input.sources.empty()) add(input.sources, data::tokens_by_source(batch, input.sources.size()).real);
  }
  return input;
}

data::Sample Feed::checked_sample(const data::DataSource& source, std::int64_t index) const {
  auto sample = job_.samples.sample(source, index);
  data::check_sample(job_.bounds(), sample);
  return sample;
}

// A row without a target is computed for nothing: the sample is refused, or left out.
bool Feed::bears_loss(const data::Sample& sample) const {
  if (data::has_target(sample)) return true;
  if (skips_no_target()) return false;
  throw Error(cat("no token of ", sample.others.empty() ? "" : "a sequence of ", "the training sample '", sample.id,
                  "' bears loss"),
              data::no_target_fix);
}

std::vector<std::int64_t> Feed::by_length(const data::DataSource& source, std::vector<std::int64_t> samples) const {
  std::map<std::int64_t, std::int64_t> length;
  for (const auto sample : samples) length[sample] = positions_of(checked_sample(source, sample));
  std::stable_sort(samples.begin(), samples.end(), [&](auto a, auto b) { return length[a] < length[b]; });
  return samples;
}

data::HostBatch Feed::rows(const data::DataSource& source, const std::vector<std::int64_t>& indices) const {
  std::vector<data::Slot> slots;
  for (const auto index : indices) slots.push_back({index, index});
  return batch_of(source, slots, nullptr);
}

data::HostBatch Feed::batch_of(const data::DataSource& source, const std::vector<data::Slot>& slots,
                               StepCounts* counts) const {
  std::vector<data::Sample> samples(slots.size());
  std::vector<data::Row> rows(slots.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (slots[i].sample < 0) continue;
    samples[i] = checked_sample(source, slots[i].sample);
    const bool is_taken = counts == nullptr || bears_loss(samples[i]);
    if (counts != nullptr) ++(is_taken ? counts->samples : counts->without_target);
    if (!is_taken) continue;
    rows[i] = {&samples[i], slots[i].id};
  }
  const auto& choices = job_.plugins.minimised->choices();
  auto batch = side_by_side(rows, choices.front());
  for (auto only = choices.begin() + 1; only != choices.end(); ++only)
    batch.others.push_back(side_by_side(rows, *only));
  return batch;
}

data::HostBatch Feed::side_by_side(std::vector<data::Row> rows, const std::vector<std::size_t>& only) const {
  const auto& whole = job_.plugins.data_parts.form;
  const auto form = data::with_only(whole, only);
  std::vector<data::Sample> samples(rows.size());
  auto longest = padding_.least;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].sample == nullptr) continue;
    if (!only.empty()) rows[i].sample = &(samples[i] = data::with_only(*rows[i].sample, whole, only));
    longest = std::max(longest, positions_of(*rows[i].sample));
  }
  if (job_.plugins.data_parts.options->packing) return data::pack(rows, padding_, job_.row_capacity(), form);
  for (const auto& row : rows) {
    if (row.sample == nullptr || row.sample->begins.empty()) continue;
    throw Error(cat("sample '", row.sample->id, "' has several documents"), data::documents_fix);
  }
  auto padding = padding_;  // up to a multiple, which must not go beyond the model's positions
  padding.fixed_length = data::padded_columns(longest, padding.multiple, job_.bounds().positions);
  return data::collate(rows, padding, form);
}

}  // namespace capstan::step
