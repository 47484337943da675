#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/nn/batch.h>
#include <capstan_catch.h>

#include <stdexcept>

namespace batch_test {

using namespace capstan;

namespace {

/// Two rows of four: a sample of three tokens and padding; one of one token, one of two, and padding.
nn::Documents three_samples() {
  nn::Documents documents;
  documents.packed = at::tensor({0, 1, 2, 4, 5, 6}, at::kLong);
  documents.alone = at::tensor({0, 1, 2, 3, 6, 7}, at::kLong);
  documents.sample_ids = at::tensor({20, 21, 22}, at::kLong);
  documents.count = 3;
  documents.longest = 3;
  return documents;
}

}  // namespace

TEST_CASE("packed samples get rows of their own, zero after each, and come back with zeros for padding") {
  const auto documents = three_samples();
  const auto x = at::arange(1, 9, at::kDouble).view({2, 4, 1}).repeat({1, 1, 5});
  const auto apart = documents.apart(x);
  REQUIRE(apart.sizes() == at::IntArrayRef({3, 3, 5}));
  CHECK(at::equal(apart.select(2, 4), at::tensor({1, 2, 3, 5, 0, 0, 6, 7, 0}, at::kDouble).view({3, 3})));
  const auto together = documents.together(apart, 2, 4);
  REQUIRE(together.sizes() == x.sizes());
  CHECK(at::equal(together.select(2, 4), at::tensor({1, 2, 3, 0, 5, 6, 7, 0}, at::kDouble).view({2, 4})));
}

TEST_CASE("a batch taken apart counts each sample's positions from 0, and has no tokens") {
  nn::Batch batch;
  CHECK_THROWS_AS(batch.apart(), std::logic_error);
  batch.documents = three_samples();
  batch.tokens = batch.labels = at::zeros({2, 4}, at::kLong);
  batch.positions = at::tensor({0, 1, 2, 0, 0, 0, 1, 0}, at::kLong).view({2, 4});
  batch.step = 7;
  const auto apart = batch.apart();
  CHECK_FALSE(apart.documents.has_value());
  CHECK(at::equal(apart.positions, at::tensor({0, 1, 2, 0, 1, 2, 0, 1, 2}, at::kLong).view({3, 3})));
  CHECK(at::equal(apart.sample_ids, batch.documents->sample_ids));
  CHECK_FALSE(apart.tokens.defined());
  CHECK_FALSE(apart.labels.defined());
  CHECK(apart.step == 7);
}

TEST_CASE("values of positions with logits are summed by sequence, and gradients find their way back") {
  nn::Batch batch;
  batch.tokens = at::zeros({2, 4}, at::kLong);
  batch.sample_ids = at::tensor({6, -1}, at::kLong);
  batch.samples.count = 2;
  batch.loss_rows = at::tensor({1, 2, 5, 6}, at::kLong);
  const auto values = at::tensor({1.0, 2.0, 10.0, 20.0}, at::kDouble).set_requires_grad(true);
  const auto sums = batch.sum_by_sequence(values);
  CHECK(at::equal(sums, at::tensor({3.0, 30.0}, at::kDouble)));
  CHECK(at::equal(batch.label_sequences(), at::tensor({0, 0, 1, 1}, at::kLong)));
  CHECK(at::equal(batch.has_sample(), at::tensor({1, 0}, at::kLong).to(at::kBool)));
  sums.mul(at::tensor({1.0, 2.0}, at::kDouble)).sum().backward();
  CHECK(at::equal(values.grad(), at::tensor({1.0, 1.0, 2.0, 2.0}, at::kDouble)));
  batch.loss_rows = at::Tensor();  // all positions
  CHECK(at::equal(batch.sum_by_sequence(at::arange(8, at::kDouble)), at::tensor({6.0, 22.0}, at::kDouble)));
  CHECK(at::equal(batch.label_sequences(), at::tensor({0, 0, 0, 0, 1, 1, 1, 1}, at::kLong)));
}

TEST_CASE("sums by sequence of packed rows are in the order of samples, 0 for a sequence without positions") {
  nn::Batch batch;
  batch.tokens = at::zeros({2, 4}, at::kLong);
  batch.documents = three_samples();
  batch.documents->sequences = at::tensor({3, 0, 1}, at::kLong);
  batch.samples.count = 2;
  batch.samples.per_sample = 2;
  batch.loss_rows = at::tensor({1, 2, 3, 4, 6}, at::kLong);  // 3 is padding
  const auto values = at::tensor({1.0, 2.0, 100.0, 10.0, 20.0}, at::kDouble).set_requires_grad(true);
  const auto sums = batch.sum_by_sequence(values);
  CHECK(at::equal(sums, at::tensor({10.0, 20.0, 0.0, 3.0}, at::kDouble)));
  const auto sequences = batch.label_sequences();
  CHECK(at::equal(sequences.index_select(0, at::tensor({0, 1, 3, 4}, at::kLong)), at::tensor({3, 3, 0, 1}, at::kLong)));
  CHECK(batch.has_sample().all().item<bool>());
  sums.sum().backward();
  CHECK(at::equal(values.grad(), at::tensor({1.0, 1.0, 0.0, 1.0, 1.0}, at::kDouble)));
}

TEST_CASE("a sequence's last label is found in rows, in packed rows, and by ranks that share columns") {
  const auto is = [](const at::Tensor& found, std::vector<std::int64_t> expected) {
    return at::equal(found.to(at::kLong), at::tensor(expected, at::kLong));
  };
  nn::Batch batch;
  batch.tokens = at::zeros({2, 4}, at::kLong);
  batch.labels = at::tensor({-100, 5, 0, -100, -100, -100, -100, -100}, at::kLong).view({2, 4});
  CHECK(is(batch.last_labels(), {0, 0, 1, 0, 0, 0, 0, 0}));
  batch.loss_rows = at::tensor({1, 2, 3, 6}, at::kLong);
  CHECK(is(batch.last_labels(), {0, 1, 0, 0}));
  batch.documents = three_samples();
  batch.labels = at::tensor({4, 5, -100, -100, 6, 7, 8, -100}, at::kLong).view({2, 4});
  batch.loss_rows = at::tensor({0, 1, 4, 5, 6, 7}, at::kLong);
  CHECK(is(batch.last_labels(), {0, 1, 1, 0, 1, 0}));
  nn::SequenceCut cut;
  cut.own = [](std::int64_t columns) { return std::vector<nn::ColumnRange>{{1, 1}, {columns - 1, 1}}; };
  batch.positions = batch.labels;
  const auto part = nn::cut_columns(std::make_shared<const nn::Batch>(batch), cut);
  CHECK(is(part.last_labels(), {1, 0, 0, 0}));
}

namespace {

// Columns 1 and 3 of four, on the rank that represents samples or on the other; sums are doubled, as if both ranks had
// the same.
nn::SequenceCut odd_columns(bool represents_sample) {
  nn::SequenceCut cut;
  cut.own = [](std::int64_t columns) { return std::vector<nn::ColumnRange>{{1, 1}, {columns - 1, 1}}; };
  cut.sum = [](const at::Tensor& x) { return 2 * x; };
  cut.represents_sample = represents_sample;
  return cut;
}

std::shared_ptr<nn::Batch> two_rows() {
  auto batch = std::make_shared<nn::Batch>();
  batch->tokens = at::arange(8, at::kLong).view({2, 4});
  batch->labels = batch->tokens + 100;
  batch->positions = at::arange(4, at::kLong).expand({2, 4});
  batch->real = batch->tokens.lt(7);
  batch->loss_rows = at::tensor({0, 5}, at::kLong);
  batch->sample_ids = at::tensor({6, 7}, at::kLong);
  batch->samples.count = 2;
  batch->samples.fields = {{"weight", batch->tokens * 2}, {"group", at::tensor({3, 4}, at::kLong)}};
  return batch;
}

}  // namespace

TEST_CASE("a rank's columns of a batch: what is each token's is cut, and what is each row's stays") {
  const auto batch = nn::cut_columns(two_rows(), odd_columns(true));
  const auto own = at::tensor({1, 3, 5, 7}, at::kLong).view({2, 2});
  CHECK(at::equal(batch.tokens, own));
  CHECK(at::equal(batch.labels, own + 100));
  CHECK(at::equal(batch.positions, at::tensor({1, 3, 1, 3}, at::kLong).view({2, 2})));
  CHECK(at::equal(batch.real, own.lt(7)));
  CHECK(at::equal(batch.field("weight"), own * 2));
  CHECK(batch.field("group").size(0) == 2);
  CHECK(at::equal(batch.sample_ids, at::tensor({6, 7}, at::kLong)));
  CHECK_FALSE(batch.loss_rows.defined());
  const auto x = at::arange(8, at::kDouble).view({2, 4, 1});
  CHECK(at::equal(batch.own_columns(x).flatten(), at::tensor({1.0, 3.0, 5.0, 7.0}, at::kDouble)));
  CHECK(at::equal(batch.among_all_columns(batch.own_columns(x)).flatten(),
                  at::tensor({0.0, 1.0, 0.0, 3.0, 0.0, 5.0, 0.0, 7.0}, at::kDouble)));
}

TEST_CASE("the whole of a rank's columns is in the same forward") {
  auto batch = nn::cut_columns(two_rows(), odd_columns(true));
  batch.step = 5;
  batch.seed = 9;
  batch.training = true;
  batch.pass.adapters = false;
  const auto whole = batch.whole();
  CHECK(whole.tokens.size(1) == 4);
  CHECK(whole.part == nullptr);
  CHECK(whole.step == 5);
  CHECK(whole.seed == 9);
  CHECK(whole.training);
  CHECK_FALSE(whole.pass.adapters);
}

TEST_CASE("sums by sequence are all ranks', and one of them represents a sample") {
  auto batch = nn::cut_columns(two_rows(), odd_columns(true));
  batch.loss_rows = at::tensor({1, 2}, at::kLong);
  const auto values = at::tensor({10.0, 20.0}, at::kDouble);
  CHECK(at::equal(batch.sum_by_sequence(values), at::tensor({20.0, 40.0}, at::kDouble)));
  CHECK(at::equal(batch.label_sequences(), at::tensor({0, 1}, at::kLong)));
  CHECK(batch.has_sample().all().item<bool>());
  CHECK_FALSE(nn::cut_columns(two_rows(), odd_columns(false)).has_sample().any().item<bool>());
}

TEST_CASE("sums by sequence of a rank's columns of packed rows know whose each position is") {
  const auto whole = two_rows();
  whole->documents = three_samples();
  whole->documents->sequences = at::tensor({3, 0, 1}, at::kLong);
  whole->samples.per_sample = 2;
  const auto batch = nn::cut_columns(whole, odd_columns(true));
  CHECK_FALSE(batch.documents.has_value());
  const auto values = at::tensor({1.0, 100.0, 10.0, 1000.0}, at::kDouble);  // the second and the last are padding
  CHECK(at::equal(batch.sum_by_sequence(values), at::tensor({0.0, 20.0, 0.0, 2.0}, at::kDouble)));
  CHECK(
      at::equal(batch.label_sequences().index_select(0, at::tensor({0, 2}, at::kLong)), at::tensor({3, 1}, at::kLong)));
  CHECK(batch.has_sample().all().item<bool>());
}

TEST_CASE("a field that the data has not declared is refused by its name, and those that there are named") {
  nn::Batch batch;
  CHECK_THROWS_WITH(batch.field("reward"), Contains("the data has no field 'reward'") && Contains("declares none"));
  batch.samples.fields = {{"weight", at::ones({2})}, {"group", at::zeros({1})}};
  CHECK(batch.field("group").size(0) == 1);
  CHECK_THROWS_WITH(batch.field("reward"), Contains("weight, group"));
}

TEST_CASE("the cache puts each row's keys and values at that row's positions, and keeps the others") {
  nn::KVCache cache(5);
  const auto k = at::arange(1, 13, at::kDouble).view({2, 1, 2, 3}), v = k + 100;
  const auto keys = cache.put(1, k, v, at::tensor({0, 1, 2, 3}, at::kLong).view({2, 2})).keys;
  REQUIRE(keys.sizes() == at::IntArrayRef({2, 1, 5, 3}));
  CHECK(at::equal(keys[0].narrow(1, 0, 2), k[0]));
  CHECK(at::equal(keys[1].narrow(1, 2, 2), k[1]));
  CHECK(keys.sum().item<double>() == k.sum().item<double>());
  const auto& entry = cache.put(1, k.narrow(2, 0, 1), v.narrow(2, 0, 1), at::full({2, 1}, 4, at::kLong));
  CHECK(at::equal(entry.keys[0].narrow(1, 0, 2), k[0]));
  CHECK(at::equal(entry.values[1].select(1, 4), v[1].select(1, 0)));
}

TEST_CASE("prompts are put into some rows of a cache: these forget what they had, and the others keep it") {
  nn::KVCache cache(5);
  const auto numbers = [](std::int64_t rows, std::int64_t tokens, double first) {
    return at::arange(rows * 2 * tokens * 3, at::kDouble).view({rows, 2, tokens, 3}) + first;
  };
  const auto positions = [](std::int64_t rows, std::int64_t tokens) {
    return at::arange(tokens, at::kLong).expand({rows, tokens});
  };
  cache.begin_rows(at::tensor({0, 1, 2}, at::kLong), 4);
  CHECK_FALSE(cache.is_filled());
  const auto k = numbers(3, 4, 1);
  const auto first = cache.put(0, k, k + 100, positions(3, 4));
  REQUIRE(first.keys.sizes() == at::IntArrayRef({4, 2, 5, 3}));
  cache.set_filled();
  const auto token = numbers(4, 1, 500);
  cache.put(0, token, token + 100, at::full({4, 1}, 4, at::kLong));
  const auto before = first.keys.clone(), values_before = first.values.clone();
  CHECK(at::equal(before.narrow(0, 0, 3).narrow(2, 0, 4), k));
  CHECK(at::equal(values_before.narrow(2, 4, 1), token + 100));

  cache.begin_rows(at::tensor({2, 0}, at::kLong), 4);
  CHECK_FALSE(cache.is_filled());
  const auto other = numbers(2, 2, 900);
  const auto& entry = cache.put(0, other, other + 100, positions(2, 2));
  cache.set_filled();
  CHECK(cache.is_filled());
  CHECK(entry.keys.data_ptr() == first.keys.data_ptr());
  for (const auto& [row, from] : {std::pair{2, 0}, std::pair{0, 1}}) {
    CHECK(at::equal(entry.keys[row].narrow(1, 0, 2), other[from]));
    CHECK(at::equal(entry.values[row].narrow(1, 0, 2), other[from] + 100));
    CHECK(entry.keys[row].narrow(1, 2, 3).eq(0).all().item<bool>());
    CHECK(entry.values[row].narrow(1, 2, 3).eq(0).all().item<bool>());
  }
  for (const int row : {1, 3}) {
    CHECK(at::equal(entry.keys[row], before[row]));
    CHECK(at::equal(entry.values[row], values_before[row]));
  }
}

TEST_CASE("the cache says which layers have a state, also on a rank where none was put") {
  nn::KVCache cache(4);
  CHECK_FALSE(cache.has_state(1));
  cache.put_state(1, {at::ones({2, 3})});
  CHECK(cache.has_state(1));
  CHECK(cache.state(1).size() == 1);
  CHECK_FALSE(cache.has_state(0));
  CHECK_FALSE(cache.has_state(2));
}

}  // namespace batch_test
