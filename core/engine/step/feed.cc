#include "step/feed.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "step/loss_rows.h"

namespace capstan::step {

Feed::Feed(const session::Job& job) : job_(job), batches_(job.samples.plan), padding_(job.padding()) {}

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
  auto longest = padding_.least;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (slots[i].sample < 0) continue;
    samples[i] = checked_sample(source, slots[i].sample);
    const bool is_taken = counts == nullptr || bears_loss(samples[i]);
    if (counts != nullptr) ++(is_taken ? counts->samples : counts->without_target);
    if (!is_taken) continue;
    longest = std::max(longest, positions_of(samples[i]));
    rows[i] = {&samples[i], slots[i].id};
  }
  const auto& form = job_.plugins.data_parts.form;
  if (job_.plugins.data_options->packing) return data::pack(rows, padding_, job_.row_capacity(), form);
  for (const auto& row : rows) {
    if (row.sample == nullptr || row.sample->begins.empty()) continue;
    throw Error(cat("sample '", row.sample->id, "' has several documents"), data::documents_fix);
  }
  auto padding = padding_;  // up to a multiple, which must not go beyond the model's positions
  padding.fixed_length = data::padded_columns(longest, padding.multiple, job_.bounds().positions);
  return data::collate(rows, padding, form);
}

namespace {

// Where the tokens of packed rows stand, there and with every sequence in a row of its own, in host memory.
struct Places {
  std::vector<std::int64_t> packed, alone;
  std::vector<std::int64_t> positions;  // for the whole batch; 0 where no sequence is
  std::vector<std::int64_t> sample_ids, sequences;
  std::int64_t longest = 0;
};

Places places_of(const data::HostBatch& host) {
  Places places;
  places.positions.assign(host.tokens.size(), 0);
  for (const auto& document : host.documents) places.longest = std::max(places.longest, document.length);
  for (const auto& document : host.documents) {
    const auto first = static_cast<std::int64_t>(places.sample_ids.size()) * places.longest;
    places.sample_ids.push_back(document.id);
    places.sequences.push_back(document.sequence);
    for (std::int64_t t = 0; t < document.length; ++t) {
      const auto at = document.row * host.cols + document.begin + t;
      places.packed.push_back(at);
      places.alone.push_back(first + t);
      places.positions[static_cast<std::size_t>(at)] = t;
    }
  }
  return places;
}

// Where the segments of packed rows begin, the padding's too, and the end of the last.
std::vector<std::int32_t> bounds_of(const data::HostBatch& host, std::int64_t longest) {
  std::vector<std::int32_t> bounds{static_cast<std::int32_t>(host.padded_tokens())};
  for (const auto& document : host.documents)
    bounds.push_back(static_cast<std::int32_t>(document.row * host.cols + document.begin));
  for (std::int64_t row = 0; row < host.rows; ++row) {
    for (auto col = host.lengths[static_cast<std::size_t>(row)]; col < host.cols; col += longest)
      bounds.push_back(static_cast<std::int32_t>(row * host.cols + col));
  }
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

// Two float32 values share a word.
std::int64_t words_of(const data::FieldValues& values) {
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values))
    return static_cast<std::int64_t>(integers->size());
  return static_cast<std::int64_t>((std::get<std::vector<float>>(values).size() + 1) / 2);
}

void copy_words(const data::FieldValues& values, std::int64_t* to) {
  std::visit([to](const auto& all) { std::memcpy(to, all.data(), all.size() * sizeof(all.front())); }, values);
}

}  // namespace

BatchNumbers::BatchNumbers(const data::HostBatch& host, std::int64_t step, bool pinned)
    : rows_(host.rows), cols_(host.cols), samples_(host.samples), per_sample_(host.per_sample) {
  const auto loss_rows = data::loss_row_list(host);
  const std::vector<std::int64_t> steps{step};
  const auto all = {&host.tokens, &host.labels, &host.sample_ids, &host.lengths, &loss_rows, &steps};
  for (const auto* part : all) sizes_.push_back(static_cast<std::int64_t>(part->size()));
  for (const auto& field : host.fields) {
    declared_.push_back(field.spec);
    sizes_.push_back(words_of(field.values));
  }
  numbers_ = at::empty({std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0})},
                       at::TensorOptions().dtype(at::kLong).pinned_memory(pinned));
  auto* to = numbers_.data_ptr<std::int64_t>();
  for (const auto* part : all) to = std::copy(part->begin(), part->end(), to);
  for (const auto& field : host.fields) {
    copy_words(field.values, to);
    to += words_of(field.values);
  }
}

BatchNumbers BatchNumbers::to(c10::Device device, bool non_blocking) const {
  auto there = *this;
  there.numbers_ = numbers_.to(device, non_blocking);
  return there;
}

nn::Batch BatchNumbers::batch() const {
  const auto all = parts();
  nn::Batch batch;
  batch.tokens = all[0].view({rows_, cols_});
  batch.labels = all[1].view({rows_, cols_});
  batch.sample_ids = all[2];
  batch.positions = at::arange(cols_, numbers_.options()).expand({rows_, cols_});
  batch.real = batch.positions < all[3].unsqueeze(1);
  if (all[4].numel() > 0) batch.loss_rows = all[4];
  batch.samples.count = samples_;
  batch.samples.per_sample = per_sample_;
  for (std::size_t i = 0; i < declared_.size(); ++i) batch.samples.fields.push_back(field(i, all[step_part + 1 + i]));
  return batch;
}

nn::Field BatchNumbers::field(std::size_t index, const at::Tensor& words) const {
  using Per = data::FieldSpec::Per;
  const auto& declared = declared_[index];
  const auto sequences = samples_ * per_sample_;
  const auto size = declared.per == Per::token ? rows_ * cols_ : declared.per == Per::sequence ? sequences : samples_;
  auto values = declared.type == data::FieldSpec::Type::float32 ? words.view(at::kFloat).narrow(0, 0, size) : words;
  return {declared.name, declared.per == Per::token ? values.view({rows_, cols_}) : values};
}

namespace {

// From pageable memory a copy would wait for everything queued before it.
template <class Numbers>
at::Tensor moved(const Numbers& numbers, c10::Device device) {
  const auto tensor = at::tensor(numbers);
  return device.is_cpu() ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
}

nn::Batch whole_to_device(const data::HostBatch& host, c10::Device device) {
  auto batch = BatchNumbers(host, 0, !device.is_cpu()).to(device).batch();
  if (host.documents.empty()) return batch;
  auto places = places_of(host);
  const auto count = static_cast<std::int64_t>(places.sequences.size());
  // Both in one transfer.
  auto& ids = places.sample_ids;
  ids.insert(ids.end(), places.sequences.begin(), places.sequences.end());
  const auto of_documents = moved(ids, device).view({2, count});
  batch.positions = moved(places.positions, device).view({host.rows, host.cols});
  batch.documents =
      nn::Documents{moved(places.packed, device), moved(places.alone, device), of_documents[0], count, places.longest};
  batch.documents->bounds = moved(bounds_of(host, places.longest), device);
  batch.documents->sequences = of_documents[1];
  return batch;
}

// The labels of some columns.
data::HostBatch labels_of(const data::HostBatch& host, const std::vector<nn::ColumnRange>& columns) {
  data::HostBatch own;
  own.rows = host.rows;
  for (const auto& range : columns) own.cols += range.length;
  for (std::int64_t row = 0; row < host.rows; ++row) {
    for (const auto& [begin, length] : columns) {
      const auto first = host.labels.begin() + row * host.cols + begin;
      own.labels.insert(own.labels.end(), first, first + length);
    }
  }
  own.target_tokens = own.padded_tokens() - std::count(own.labels.begin(), own.labels.end(), data::ignored_label);
  return own;
}

}  // namespace

nn::Batch to_device(const data::HostBatch& host, c10::Device device, const nn::SequenceCut& cut) {
  if (!cut.own) return whole_to_device(host, device);
  auto batch = nn::cut_columns(std::make_shared<const nn::Batch>(whole_to_device(host, device)), cut);
  const auto rows = data::loss_row_list(labels_of(host, batch.part->own));
  if (!rows.empty()) batch.loss_rows = moved(rows, device);
  return batch;
}

nn::Batch training_batch(const session::Session& session, const data::HostBatch& host, std::int64_t step) {
  auto batch = to_device(host, session.device, session.job->model->sequence_cut);
  batch.seed = session.job->seed();
  batch.step = step;
  batch.training = true;
  return batch;
}

}  // namespace capstan::step
