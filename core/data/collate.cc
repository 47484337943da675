#include "data/collate.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

#include "data/core_fields.h"
#include "data/sample_form.h"

namespace capstan::data {
namespace {

// A sequence of a sample, or an empty place for one.
struct Part {
  const Sample* sample = nullptr;
  const std::vector<std::int64_t>* tokens = nullptr;
  const std::vector<bool>* is_target = nullptr;
  std::int64_t first = 0;  // tokens of the sample's sequences before it
  Document document;

  std::int64_t length() const { return document.length; }
};

void add_parts(const Row& row, std::int64_t first_sequence, std::vector<Part>& parts) {
  std::int64_t before = 0;
  auto sequence = first_sequence;
  for (const auto& [tokens, is_target] : sequences_of(*row.sample)) {
    const auto size = static_cast<std::int64_t>(tokens.size());
    Part part{row.sample, &tokens, &is_target, before, {}};
    part.document.length = std::max<std::int64_t>(0, size - 1);
    part.document.sequence = sequence++;
    parts.push_back(part);
    before += size;
  }
}

// The sequences of all samples, in order.
std::vector<Part> parts_of(const std::vector<Row>& rows, const SampleForm& form) {
  std::vector<Part> parts;
  for (const auto& row : rows) {
    const auto begin = parts.size();
    const auto first = static_cast<std::int64_t>(begin);
    if (row.sample) {
      check_form(*row.sample, form);
      add_parts(row, first, parts);
    } else {
      parts.resize(begin + static_cast<std::size_t>(form.sequences));
    }
    for (auto i = begin; i < parts.size(); ++i) {
      parts[i].document.id = row.id < 0 ? row.id : row.id * form.sequences + static_cast<std::int64_t>(i - begin);
    }
  }
  return parts;
}

std::int64_t columns(const std::vector<Part>& parts, const Padding& padding) {
  auto longest = padding.least;
  for (const auto& part : parts) {
    const auto length = part.length();
    longest = std::max(longest, length);
    if (padding.fixed_length && length > *padding.fixed_length) {
      throw Error(cat("sample '", part.sample->id, "' needs ", length, " positions, the batch has a fixed length of ",
                      *padding.fixed_length),
                  cat("raise the fixed length, or lower data.max_length to ", *padding.fixed_length + 1));
    }
  }
  return padding.fixed_length ? *padding.fixed_length : rounded_up(longest, padding.multiple);
}

// Writes a sequence into its place.
void put(HostBatch& batch, const Part& part) {
  const auto& place = part.document;
  put_core_fields(batch, {*part.tokens, *part.is_target}, place);
  const auto begin = place.row * batch.cols + place.begin;
  if (place.length == 0) return;
  put_token_fields(batch, *part.sample, part.first, begin, place.length);
  batch.target_tokens += std::count(part.is_target->begin() + 1, part.is_target->end(), true);
  batch.real_tokens += place.length;
}

// A batch with places for samples, and with what belongs to those that there are.
HostBatch batch_of(std::size_t sequences, std::int64_t cols, const std::vector<Row>& rows, std::int64_t pad_id,
                   const SampleForm& form) {
  HostBatch batch;
  batch.rows = static_cast<std::int64_t>(sequences);
  batch.cols = cols;
  batch.per_sample = form.sequences;
  batch.samples = static_cast<std::int64_t>(rows.size());
  add_fields(batch, form);
  add_core_fields(batch, pad_id);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].sample) continue;
    ++batch.real_samples;
    put_fields(batch, *rows[i].sample, static_cast<std::int64_t>(i));
  }
  return batch;
}

// A sample's documents are sequences of their own where they stand, each with its own positions and dropout masks.
void put_documents(HostBatch& batch, const Part& part) {
  // Above the number of a run's samples, and so small that an id times 2^22 positions, which masks may be drawn by,
  // wraps only after 1,024 documents.
  constexpr std::int64_t next_id = std::int64_t{1} << 32;
  auto rest = part.document;
  for (const auto begin : part.sample->begins) {
    auto document = rest;
    rest.begin = part.document.begin + begin;
    document.length = rest.begin - document.begin;
    rest.length -= document.length;
    rest.id += next_id;
    batch.documents.push_back(document);
  }
  if (rest.length > 0) batch.documents.push_back(rest);
}

// Where samples have several documents, these are what the batch counts as samples, each with its sample's values.
void number_documents(HostBatch& batch, const std::vector<const Sample*>& samples) {
  if (std::all_of(samples.begin(), samples.end(), [](const auto* sample) { return sample->begins.empty(); })) return;
  batch.samples = batch.real_samples = static_cast<std::int64_t>(samples.size());
  for (auto& field : batch.fields) {
    if (field.spec.per != FieldSpec::Per::token)
      std::visit([&](auto& values) { values.assign(samples.size(), 0); }, field.values);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    batch.documents[i].sequence = static_cast<std::int64_t>(i);
    put_fields(batch, *samples[i], static_cast<std::int64_t>(i));
  }
}

/// The rows of samples: how many positions of each row are taken, and each sample's row.
struct Stand {
  std::vector<std::int64_t> taken;
  std::vector<std::size_t> rows;

  void add(std::size_t row, std::int64_t length) {
    rows.push_back(row);
    taken[row] += length;
  }
  std::int64_t longest() const { return *std::max_element(taken.begin(), taken.end()); }
};

// Puts each sample into the first row with room for it.
Stand first_fit(const std::vector<std::int64_t>& lengths, std::int64_t most) {
  Stand stand;
  for (const auto length : lengths) {
    const auto room = std::find_if(stand.taken.begin(), stand.taken.end(),
                                   [&](std::int64_t taken) { return taken + length <= most; });
    const auto row = static_cast<std::size_t>(room - stand.taken.begin());
    if (room == stand.taken.end()) stand.taken.push_back(0);
    stand.add(row, length);
  }
  return stand;
}

// Puts each sample into the emptiest of `rows` rows.
Stand evenly(const std::vector<std::int64_t>& lengths, std::size_t rows) {
  Stand stand{std::vector<std::int64_t>(rows, 0), {}};
  for (const auto length : lengths) {
    const auto emptiest = std::min_element(stand.taken.begin(), stand.taken.end());
    stand.add(static_cast<std::size_t>(emptiest - stand.taken.begin()), length);
  }
  return stand;
}

// Rows are padded to the fullest one: as few as the first fit needs, and as even as they can be.
Stand fewest_even_rows(const std::vector<std::int64_t>& lengths, std::int64_t most) {
  auto stand = first_fit(lengths, most);
  auto even = evenly(lengths, stand.taken.size());
  return even.longest() < stand.longest() ? even : stand;
}

}  // namespace

HostBatch collate(const std::vector<Row>& rows, const Padding& padding, const SampleForm& form) {
  CAPSTAN_ASSERT(padding.pad_id >= 0 && padding.multiple >= 1);
  auto parts = parts_of(rows, form);
  auto batch = batch_of(parts.size(), columns(parts, padding), rows, padding.pad_id, form);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    parts[r].document.row = static_cast<std::int64_t>(r);
    if (parts[r].sample) put(batch, parts[r]);
  }
  return batch;
}

HostBatch pack(const std::vector<Row>& rows, const Padding& padding, std::int64_t capacity, const SampleForm& form) {
  CAPSTAN_ASSERT(padding.pad_id >= 0 && padding.multiple >= 1 && capacity >= 1);
  auto samples = rows;
  std::erase_if(samples, [](const Row& row) { return row.sample == nullptr; });
  auto parts = parts_of(samples, form);
  std::erase_if(parts, [](const Part& part) { return part.length() == 0; });
  if (parts.empty()) return collate({Row{}}, {padding.pad_id, padding.multiple, padding.least}, form);
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.length() > b.length(); });
  std::vector<std::int64_t> lengths;
  for (const auto& part : parts) lengths.push_back(part.length());
  const auto stand = fewest_even_rows(lengths, std::max(capacity, lengths.front()));
  const auto cols = rounded_up(std::max(stand.longest(), padding.least), padding.multiple);
  auto batch = batch_of(stand.taken.size(), cols, samples, padding.pad_id, form);
  std::vector<const Sample*> of_documents;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto& document = parts[i].document;
    document.row = static_cast<std::int64_t>(stand.rows[i]);
    document.begin = batch.lengths[stand.rows[i]];
    put(batch, parts[i]);
    put_documents(batch, parts[i]);
    of_documents.resize(batch.documents.size(), parts[i].sample);
  }
  number_documents(batch, of_documents);
  return batch;
}

}  // namespace capstan::data
