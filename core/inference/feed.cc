#include "inference/feed.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

#include "data/content.h"
#include "data/loss_rows.h"

namespace capstan::inference {

Feed::Feed(FeedSource source) : source_(source), batches_(source_.samples.plan) {
  padding_.pad_id = data::padding_id(*source_.samples.tokenizer.object, source_.bounds.vocab_size);
  padding_.multiple = source_.pad_to_multiple;
}

namespace {

// Padding up to a multiple must not go beyond the model's positions.
data::Padding bounded(data::Padding padding, const std::vector<data::Row>& rows, std::int64_t positions) {
  std::int64_t longest = 1;
  for (const auto& row : rows) {
    if (row.sample) longest = std::max(longest, static_cast<std::int64_t>(row.sample->tokens.size()) - 1);
  }
  padding.fixed_length = data::padded_columns(longest, padding.multiple, positions);
  return padding;
}

}  // namespace

StepInput Feed::draw(std::int64_t step) {
  StepInput input;
  input.step = step;
  const auto slots = batches_.slots(step);
  for (std::int64_t micro = 0; micro < source_.batch.accumulation; ++micro) {
    const auto first = source_.batch.first_slot(micro, source_.coordinate);
    std::vector<data::Sample> samples(static_cast<std::size_t>(source_.batch.micro_batch));
    std::vector<data::Row> rows(samples.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& slot = slots[static_cast<std::size_t>(first) + i];
      if (slot.sample < 0) continue;
      samples[i] = source_.samples.sample(*source_.samples.train, slot.sample);
      data::check_sample(source_.bounds, samples[i]);
      if (!bears_loss(samples[i])) {
        ++input.without_target;
        continue;
      }
      rows[i] = {&samples[i], slot.id};
      ++input.samples;
    }
    input.micro.push_back(batch_of(rows));
    const auto& batch = input.micro.back();
    input.target_tokens += batch.target_tokens;
    input.real_tokens += batch.real_tokens;
    input.padded_tokens += batch.padded_tokens();
  }
  return input;
}

// A row without a target is computed for nothing: the sample is refused, or left out.
bool Feed::bears_loss(const data::Sample& sample) const {
  if (data::has_target(sample)) return true;
  if (!source_.skips_no_target)
    throw Error(cat("no token of the training sample '", sample.id, "' bears loss"), data::no_target_fix);
  return false;
}

data::HostBatch Feed::rows(const data::DataSource& source, const std::vector<std::int64_t>& indices) const {
  std::vector<data::Sample> samples(indices.size());
  std::vector<data::Row> rows(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) continue;
    samples[i] = source_.samples.sample(source, indices[i]);
    data::check_sample(source_.bounds, samples[i]);
    rows[i] = {&samples[i], indices[i]};
  }
  return batch_of(rows);
}

data::HostBatch Feed::batch_of(const std::vector<data::Row>& rows) const {
  if (source_.packing) return data::pack(rows, padding_, std::max<std::int64_t>(1, source_.samples.length - 1));
  return data::collate(rows, bounded(padding_, rows, source_.bounds.positions));
}

namespace {

// Where the tokens of packed rows stand, there and with every sample in a row of its own, in host memory.
struct Places {
  std::vector<std::int64_t> packed;
  std::vector<std::int64_t> alone;
  std::vector<std::int64_t> positions;  // of all of the batch; 0 where no sample is
  std::vector<std::int64_t> sample_ids;
  std::int64_t longest = 0;
};

Places places_of(const data::HostBatch& host) {
  Places places;
  places.positions.assign(host.tokens.size(), 0);
  for (const auto& document : host.documents) places.longest = std::max(places.longest, document.length);
  for (const auto& document : host.documents) {
    const auto first = static_cast<std::int64_t>(places.sample_ids.size()) * places.longest;
    places.sample_ids.push_back(document.id);
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

}  // namespace

at::Tensor numbers_of(const data::HostBatch& host, std::int64_t step, bool pinned) {
  const auto loss_rows = data::loss_row_list(host);
  const auto all = {&host.tokens, &host.labels, &host.sample_ids, &host.lengths, &loss_rows};
  std::size_t count = 1;
  for (const auto* part : all) count += part->size();
  auto numbers =
      at::empty({static_cast<std::int64_t>(count)}, at::TensorOptions().dtype(at::kLong).pinned_memory(pinned));
  auto* to = numbers.data_ptr<std::int64_t>();
  for (const auto* part : all) to = std::copy(part->begin(), part->end(), to);
  *to = step;
  return numbers;
}

nn::Batch batch_of(const at::Tensor& numbers, std::int64_t rows, std::int64_t cols) {
  const auto loss_rows = numbers.numel() - (2 * rows * cols + 2 * rows + 1);
  CAPSTAN_ASSERT(loss_rows >= 0);
  const auto parts = numbers.split_with_sizes({rows * cols, rows * cols, rows, rows, loss_rows, 1});
  nn::Batch batch;
  batch.tokens = parts[0].view({rows, cols});
  batch.labels = parts[1].view({rows, cols});
  batch.sample_ids = parts[2];
  batch.positions = at::arange(cols, numbers.options()).expand({rows, cols});
  batch.real = batch.positions < parts[3].unsqueeze(1);
  if (loss_rows > 0) batch.loss_rows = parts[4];
  return batch;
}

nn::Batch to_device(const data::HostBatch& host, c10::Device device) {
  // From pageable memory the copy would wait for everything queued before it.
  const bool on_cpu = device.is_cpu();
  const auto numbers = numbers_of(host, 0, !on_cpu);
  auto batch = batch_of(on_cpu ? numbers : numbers.to(device, /*non_blocking=*/true), host.rows, host.cols);
  if (host.documents.empty()) return batch;
  const auto vector = [&](const auto& values) {
    const auto tensor = at::tensor(values);
    return on_cpu ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
  };
  const auto places = places_of(host);
  batch.positions = vector(places.positions).view({host.rows, host.cols});
  batch.documents = nn::Documents{vector(places.packed), vector(places.alone), vector(places.sample_ids),
                                  static_cast<std::int64_t>(places.sample_ids.size()), places.longest};
  batch.documents->bounds = vector(bounds_of(host, places.longest));
  return batch;
}

nn::Batch training_batch(const data::HostBatch& host, std::uint64_t seed, std::int64_t step, c10::Device device) {
  auto batch = to_device(host, device);
  batch.seed = seed;
  batch.step = step;
  batch.training = true;
  return batch;
}

}  // namespace capstan::inference
