#include "step/feed.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "step/to_device.h"
#include "support/small_run.h"

namespace feed_test {

using namespace capstan;

TEST_CASE("packed rows say where each segment begins; padding is cut to the longest sample's length") {
  data::HostBatch host;
  host.rows = 2;
  host.cols = 12;
  host.tokens.assign(24, 0);
  host.labels.assign(24, -100);
  host.documents = {{0, 0, 5, 7}, {1, 0, 3, 8}, {0, 5, 4, 3}};
  host.lengths = {9, 3};
  host.sample_ids = {7, 8};
  const auto batch = step::to_device(host, at::kCPU);
  REQUIRE(batch.documents);
  CHECK(batch.documents->longest == 5);
  const auto& bounds = batch.documents->bounds;
  CHECK(bounds.scalar_type() == at::kInt);
  CHECK(at::equal(bounds, at::tensor({0, 5, 9, 12, 15, 20, 24}, at::kInt)));
  CHECK(at::equal(batch.positions.select(0, 0), at::tensor({0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 0}, at::kLong)));
}

namespace {

using data::FieldSpec;

// Two samples of two sequences, one of them empty, with a field of each kind.
data::HostBatch two_pairs() {
  data::HostBatch host;
  host.rows = 4;
  host.cols = 3;
  for (std::int64_t i = 0; i < 12; ++i) {
    host.tokens.push_back(i);
    host.labels.push_back(i % 2 == 0 ? i : -100);
  }
  host.lengths = {3, 2, 0, 0};
  host.sample_ids = {8, 9, -1, -1};
  host.target_tokens = 6;
  host.per_sample = host.samples = 2;
  host.fields = {
      {{"weight", FieldSpec::Type::float32, FieldSpec::Per::token}, std::vector<float>(12, 0.1F)},
      {{"odd", FieldSpec::Type::float32, FieldSpec::Per::sequence}, std::vector<float>{1e-40F, 2, 3e38F, -0.F}},
      {{"one", FieldSpec::Type::float32, FieldSpec::Per::sample}, std::vector<float>{0.3F, 7}},
      {{"big", FieldSpec::Type::int64, FieldSpec::Per::sample},
       std::vector<std::int64_t>{(std::int64_t{1} << 62) + 1, -5}}};
  return host;
}

template <class Number>
bool same_bits(const at::Tensor& values, const data::FieldValues& expected) {
  const auto& list = std::get<std::vector<Number>>(expected);
  return values.numel() == static_cast<std::int64_t>(list.size()) &&
         std::memcmp(values.const_data_ptr<Number>(), list.data(), list.size() * sizeof(Number)) == 0;
}

}  // namespace

TEST_CASE("fields reach the device with all their bits, in the shapes that they declare") {
  const auto host = two_pairs();
  const auto batch = step::to_device(host, at::kCPU);
  CHECK(batch.samples.count == 2);
  CHECK(batch.samples.per_sample == 2);
  CHECK(batch.field("weight").sizes() == at::IntArrayRef({4, 3}));
  CHECK(batch.field("odd").sizes() == at::IntArrayRef({4}));
  CHECK(batch.field("big").sizes() == at::IntArrayRef({2}));
  CHECK(same_bits<float>(batch.field("weight"), host.fields[0].values));
  CHECK(same_bits<float>(batch.field("odd"), host.fields[1].values));
  CHECK(same_bits<float>(batch.field("one"), host.fields[2].values));
  CHECK(same_bits<std::int64_t>(batch.field("big"), host.fields[3].values));
  CHECK(at::equal(batch.tokens.flatten(), at::arange(12, at::kLong)));
}

TEST_CASE("a batch's memory takes another batch's fields, of an odd number of values too") {
  auto host = two_pairs();
  host.fields[0].values = std::vector<float>(12, 0.5F);
  host.samples = 1;
  host.per_sample = 4;
  host.fields[2].values = std::vector<float>{0.25F};  // half a word is left
  host.fields[3].values = std::vector<std::int64_t>{1};
  const auto memory = step::words_of(host, 3, false);
  const auto batch = step::batch_of(host, memory);
  host.fields[2].values = std::vector<float>{0.75F};
  host.fields[3].values = std::vector<std::int64_t>{77};
  memory.copy_(step::words_of(host, 4, false));
  CHECK(batch.field("one").item<float>() == 0.75F);
  CHECK(batch.field("big").item<std::int64_t>() == 77);
  CHECK(batch.device_step.item<std::int64_t>() == 4);
}

TEST_CASE("a rank's columns have the loss rows of their own labels, and may have none") {
  data::HostBatch host;
  host.rows = 2;
  host.cols = 600;
  host.tokens.assign(1200, 1);
  host.labels.assign(1200, data::ignored_label);
  for (const std::int64_t at : {299, 300, 900}) host.labels[static_cast<std::size_t>(at)] = at;
  host.target_tokens = 3;
  host.lengths = {600, 310};
  host.sample_ids = {4, 5};
  nn::SequenceCut cut;
  cut.sum = [](const at::Tensor& x) { return x; };
  for (const auto& [begin, rows] : {std::pair<std::int64_t, std::vector<std::int64_t>>{300, {0, 300}}, {301, {}}}) {
    INFO("from column " << begin);
    cut.own = [begin = begin](std::int64_t columns) { return std::vector<nn::ColumnRange>{{begin, columns - begin}}; };
    const auto batch = step::to_device(host, at::kCPU, cut);
    REQUIRE(batch.loss_rows.numel() == 256);  // the least number of rows
    const auto labels = batch.labels.flatten();
    const auto bearing = labels.ne(data::ignored_label).nonzero().flatten();
    CHECK(bearing.numel() == static_cast<std::int64_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(bearing[static_cast<std::int64_t>(i)].item<std::int64_t>() == rows[i]);
      CHECK(batch.loss_rows.eq(rows[i]).any().item<bool>());
    }
    CHECK(at::equal(batch.positions.select(0, 0), at::arange(begin, 600, at::kLong)));
    CHECK(batch.real.select(0, 1).sum().item<std::int64_t>() == 310 - begin);
  }
}

namespace {

// Hardly any sample is cut to the same length as others.
std::vector<std::string> with_room(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"data.max_length=700", "model.seq_length=700"});
  return overrides;
}

// The micro-batches that one rank of `world` draws in a step: sample ids of each.
struct Drawn {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<std::int64_t> lengths;  // of all rows, in order
  std::int64_t padded = 0;
};

Drawn drawn(int world, int rank, std::int64_t step, std::vector<std::string> overrides) {
  const auto job = testing::prepare_small(testing::small_config(), with_room(std::move(overrides)), world, rank);
  step::Feed feed(job);
  const auto input = feed.draw(step);
  Drawn drawn;
  for (const auto& micro : input.micro) {
    drawn.ids.push_back(micro.sample_ids);
    drawn.lengths.insert(drawn.lengths.end(), micro.lengths.begin(), micro.lengths.end());
  }
  drawn.padded = input.padded_tokens;
  return drawn;
}

std::vector<std::int64_t> sorted_ids(const Drawn& drawn) {
  std::vector<std::int64_t> all;
  for (const auto& ids : drawn.ids) all.insert(all.end(), ids.begin(), ids.end());
  std::sort(all.begin(), all.end());
  return all;
}

const std::vector<std::string> in_eight{"train.accumulation=8"};
const std::vector<std::string> as_drawn{"train.accumulation=8", "train.sort_by_length=false"};

}  // namespace

TEST_CASE("the samples of a step go into its micro-batches by length, and are the same ones") {
  const auto got = drawn(1, 0, 0, in_eight), expected = drawn(1, 0, 0, as_drawn);
  CHECK(sorted_ids(got) == sorted_ids(expected));
  CHECK(std::is_sorted(got.lengths.begin(), got.lengths.end()));
  CHECK_FALSE(std::is_sorted(expected.lengths.begin(), expected.lengths.end()));
  CHECK(got.padded < expected.padded);
  std::vector<std::int64_t> in_order(48);
  std::iota(in_order.begin(), in_order.end(), std::int64_t{0});
  CHECK(expected.ids.front() == std::vector<std::int64_t>(in_order.begin(), in_order.begin() + 6));
  // One micro-batch has no other to be like, and stays as it is.
  CHECK(drawn(1, 0, 0, {}).ids.front() == in_order);
}

TEST_CASE(
    "a micro-step has the same samples on any number of ranks, sorted ones too, and an epoch's last empty places") {
  // 70 samples: the second step has 22, and 26 empty places, which come first.
  const auto step = GENERATE(std::int64_t{0}, std::int64_t{1});
  const auto alone = drawn(1, 0, step, in_eight), first = drawn(2, 0, step, in_eight),
             second = drawn(2, 1, step, in_eight);
  for (std::size_t micro = 0; micro < 8; ++micro) {
    auto ids = first.ids[micro];
    ids.insert(ids.end(), second.ids[micro].begin(), second.ids[micro].end());
    CHECK(std::is_permutation(ids.begin(), ids.end(), alone.ids[micro].begin(), alone.ids[micro].end()));
    // One rank has the shorter ones, the other the longer ones.
    CHECK((std::equal(ids.begin(), ids.end(), alone.ids[micro].begin()) ||
           std::equal(ids.begin(), ids.begin() + 3, alone.ids[micro].begin() + 3)));
  }
  CHECK(std::count(alone.lengths.begin(), alone.lengths.end(), 0) == (step == 0 ? 0 : 26));
}

TEST_CASE("ranks compute about as many columns in a step: none always has the longer samples of a micro-step") {
  const std::vector<std::string> exact{"train.accumulation=8", "train.pad_to_multiple=1"};
  for (const std::int64_t step : {0, 1}) {
    const auto alone = drawn(1, 0, step, exact);
    std::vector<std::int64_t> columns;
    for (int rank = 0; rank < 2; ++rank) columns.push_back(drawn(2, rank, step, exact).padded);
    // What they would compute if the second rank had the longer half of each micro-step.
    std::int64_t more = 0, widest = 0;
    for (std::size_t micro = 0; micro < 8; ++micro) {
      const auto* lengths = &alone.lengths[micro * 6];
      more += 3 * (lengths[5] - lengths[2]);
      widest = std::max(widest, 3 * (lengths[5] - lengths[2]));
    }
    const auto apart = std::abs(columns[0] - columns[1]);
    INFO("step " << step << ": " << columns[0] << " and " << columns[1] << " columns");
    CHECK(apart <= widest);
    CHECK(apart < more / 2);
  }
}

TEST_CASE("samples that are evaluated stand side by side with others of their length") {
  const auto job = testing::prepare_small(testing::small_config(), with_room({}), 1, 0);
  const step::Feed feed(job);
  std::vector<std::int64_t> some{4, 9, 17, 30, 31, 60};
  const auto order = feed.by_length(*job.samples.train, some);
  const auto& lengths = feed.rows(*job.samples.train, order).lengths;
  CHECK(std::is_sorted(lengths.begin(), lengths.end()));
  CHECK(order != some);
  CHECK(std::is_permutation(order.begin(), order.end(), some.begin(), some.end()));
}

TEST_CASE("steps of sorted samples learn what they learn in the order in which they are drawn") {
  const std::string fsdp = "[strategy.fsdp]\n",
                    lora = "[strategy.lora]\nrank = 2\ndropout = 0.2\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
  const std::string apart = "data.packing=false", packed = "data.packing=true";
  // Each strategy with rows of both kinds; each kind of rows on one rank and on two.
  const auto [world, strategy, rows] = GENERATE_COPY(table<int, std::string, std::string>(
      {{1, "", apart}, {2, "", packed}, {2, fsdp, apart}, {2, fsdp, packed}, {2, lora, apart}, {1, lora, packed}}));
  INFO(world << " ranks, " << rows << "\n" << strategy);
  const auto learn = [&](auto overrides) {
    overrides.insert(overrides.end(), {rows, "model.dropout=0.1", "train.global_batch=32"});
    return testing::run_small(world, with_room(std::move(overrides)), 2, strategy);
  };
  // Sums in another order, in float64. Dropout is each sample's own.
  CHECK(testing::differences(learn(in_eight), learn(as_drawn), 1e-10) == "");
}

}  // namespace feed_test
