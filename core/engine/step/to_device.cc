#include "step/to_device.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/core_fields.h"
#include "data/loss_rows.h"
#include "data/sample_form.h"

namespace capstan::step {
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
std::int64_t words_in(std::int64_t size, data::FieldSpec::Type type) {
  return type == data::FieldSpec::Type::float32 ? (size + 1) / 2 : size;
}

// Core's fields that a batch does not have among those that the data declares.
template <class Call>
void each_core_field(const Call& call) {
  for (const auto& field : data::core_fields()) {
    if (field.member != nullptr || std::holds_alternative<data::CoreField::OfBatch>(field.make)) call(field);
  }
}

std::int64_t words_in(const data::HostBatch& host) {
  std::int64_t words = 1;  // the step
  each_core_field([&](const auto& field) { words += size_of(field, host); });
  for (const auto& field : host.fields) words += words_in(field_size(field.spec, host), field.spec.type);
  return words;
}

// What a field of core is in a batch on a device, whose positions are known; others are found by their names.
void set(nn::Batch& batch, const std::string& name, const at::Tensor& values) {
  if (name == "tokens") {
    batch.tokens = values;
  } else if (name == "labels") {
    batch.labels = values;
  } else if (name == "sample_ids") {
    batch.sample_ids = values;
  } else if (name == "lengths") {
    batch.real = batch.positions < values.unsqueeze(1);
  } else {
    CAPSTAN_ASSERT(name == "loss_rows");
    if (values.numel() > 0) batch.loss_rows = values;
  }
}

}  // namespace

at::Tensor words_of(const data::HostBatch& host, std::int64_t step, bool pinned) {
  auto words = at::empty({words_in(host)}, at::TensorOptions().dtype(at::kLong).pinned_memory(pinned));
  auto* to = words.data_ptr<std::int64_t>();
  const auto put = [&](const std::vector<std::int64_t>& values) { to = std::copy(values.begin(), values.end(), to); };
  each_core_field([&](const data::CoreField& field) {
    const auto* follows = std::get_if<data::CoreField::OfBatch>(&field.make);
    follows != nullptr ? put(follows->values(host)) : put(host.*field.member);
  });
  for (const auto& field : host.fields) {
    std::visit([to](const auto& all) { std::memcpy(to, all.data(), all.size() * sizeof(all.front())); }, field.values);
    to += words_in(field_size(field.spec, host), field.spec.type);
  }
  *to++ = step;
  CAPSTAN_ASSERT(to - words.data_ptr<std::int64_t>() == words.numel());
  return words;
}

nn::Batch batch_of(const data::HostBatch& host, const at::Tensor& words) {
  using Type = data::FieldSpec::Type;
  std::int64_t at = 0;
  const auto next = [&](std::int64_t size, Type type = Type::int64) {
    const auto count = words_in(size, type);
    const auto part = words.narrow(0, std::exchange(at, at + count), count);
    return type == Type::float32 ? part.view(at::kFloat).narrow(0, 0, size) : part;
  };
  const auto shaped = [&](const at::Tensor& values, bool per_token) {
    return per_token ? values.view({host.rows, host.cols}) : values;
  };
  nn::Batch batch;
  batch.positions = at::arange(host.cols, words.options()).expand({host.rows, host.cols});
  each_core_field([&](const data::CoreField& field) {
    const bool per_token = std::holds_alternative<data::CoreField::OfPositions>(field.make);
    set(batch, field.name, shaped(next(size_of(field, host)), per_token));
  });
  batch.samples.count = host.samples;
  batch.samples.per_sample = host.per_sample;
  for (const auto& [spec, on_host] : host.fields) {
    const auto values = next(field_size(spec, host), spec.type);
    batch.samples.fields.push_back({spec.name, shaped(values, spec.per == data::FieldSpec::Per::token)});
  }
  batch.device_step = next(1);
  return batch;
}

namespace {

// From pageable memory a copy would wait for everything queued before it.
template <class Numbers>
at::Tensor moved(const Numbers& numbers, c10::Device device) {
  const auto tensor = at::tensor(numbers);
  return device.is_cpu() ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
}

nn::Batch whole_to_device(const data::HostBatch& host, c10::Device device) {
  auto batch = batch_of(host, words_of(host, 0, !device.is_cpu()).to(device, /*non_blocking=*/true));
  batch.device_step = at::Tensor();  // the batch's own is asked
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

std::vector<nn::Batch> all_to_device(const Session& session, const data::HostBatch& host) {
  const auto& cut = session.job->model->sequence_cut;
  std::vector<nn::Batch> batches{to_device(host, session.device, cut)};
  for (const auto& other : host.others) batches.push_back(to_device(other, session.device, cut));
  return batches;
}

nn::Batch training_batch(const Session& session, const data::HostBatch& host, std::int64_t step) {
  auto batch = to_device(host, session.device, session.job->model->sequence_cut);
  batch.seed = session.job->seed();
  batch.step = step;
  batch.training = true;
  return batch;
}

}  // namespace capstan::step
