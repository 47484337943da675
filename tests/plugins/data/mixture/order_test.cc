// Which samples are drawn when.
#include "plugins/data/mixture/order.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace order_test {

using namespace capstan;
using namespace mixture;

namespace {

data::OrderRequest request(std::int64_t global_batch = 8, bool shuffle = true) {
  data::OrderRequest request;
  request.seed = 5;
  request.shuffle = shuffle;
  request.global_batch = global_batch;
  request.max_steps = 100;
  return request;
}

const std::vector<Stock> three{{"a", 100, 0.5}, {"b", 37, 0.3}, {"c", 260, 0.2}};

// All that an epoch draws, batch by batch.
std::vector<std::int64_t> epoch_of(MixtureOrder& order, std::int64_t epoch, std::int64_t batch = 8) {
  std::vector<std::int64_t> all;
  const auto length = order.samples_per_epoch();
  for (std::int64_t first = 0; first < length; first += batch) {
    const auto drawn = order.samples(epoch, first, std::min(batch, length - first));
    all.insert(all.end(), drawn.begin(), drawn.end());
  }
  return all;
}

// How often each sample was drawn.
std::vector<std::int64_t> visits(const std::vector<std::int64_t>& drawn, std::int64_t samples = 397) {
  std::vector<std::int64_t> visits(static_cast<std::size_t>(samples));
  for (const auto sample : drawn) ++visits.at(static_cast<std::size_t>(sample));
  return visits;
}

// The least and the most visits of a source's samples.
std::pair<std::int64_t, std::int64_t> range(const std::vector<std::int64_t>& visits, std::int64_t begin,
                                            std::int64_t end) {
  const auto [least, most] = std::minmax_element(visits.begin() + begin, visits.begin() + end);
  return {*least, *most};
}

using Range = std::pair<std::int64_t, std::int64_t>;

}  // namespace

TEST_CASE("every stretch of draws has the sources by their shares, whatever they are") {
  const std::vector<std::vector<double>> cases{
      {1}, {0.5, 0.5}, {0.5, 0.3, 0.2}, {0.001, 0.999}, {1e-5, 0.4, 0.6 - 1e-5}, std::vector<double>(40, 1.0 / 40)};
  for (const auto& shares : cases) {
    const Schedule schedule(shares);
    const auto drawn = schedule.sources(0, 20000);
    REQUIRE(drawn.size() == 20000);
    std::vector<std::int64_t> counts(shares.size());
    for (std::int64_t n = 0; n <= 20000; ++n) {
      if (n % 997 == 0 || n == 1024) CHECK(schedule.counts(n) == counts);
      if (n % 64 == 0) {
        for (std::size_t s = 0; s < shares.size(); ++s) {
          // Rounded at the block's borders, and within a block by less than a draw for each source.
          const auto off = std::abs(static_cast<double>(counts[s]) - shares[s] * static_cast<double>(n));
          if (off > 2 + static_cast<double>(shares.size())) FAIL(shares[s] << " of " << n << " is off by " << off);
        }
      }
      if (n < 20000) ++counts[drawn[static_cast<std::size_t>(n)]];
    }
    const auto later = schedule.sources(1000, 3000);
    CHECK(std::equal(later.begin(), later.end(), drawn.begin() + 1000));
  }
}

TEST_CASE("each batch is mixed by the weights") {
  MixtureOrder order(three, Stop::all, request(40));
  const std::vector<std::int64_t> ends{100, 137, 397};
  for (std::int64_t first = 0; first + 40 <= order.samples_per_epoch(); first += 40) {
    std::vector<int> counts(3);
    for (const auto sample : order.samples(0, first, 40))
      ++counts[static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin())];
    CHECK(std::abs(counts[0] - 20) <= 2);
    CHECK(std::abs(counts[1] - 12) <= 2);
    CHECK(std::abs(counts[2] - 8) <= 2);
  }
}

TEST_CASE("stop = all: an epoch ends with the last sample that was not seen; no source's samples are favoured") {
  MixtureOrder order(three, Stop::all, request());
  const auto drawn = epoch_of(order, 0);
  CHECK(std::ssize(drawn) == order.samples_per_epoch());
  // c has 260 samples and a fifth of the draws.
  CHECK(std::abs(order.samples_per_epoch() - 1300) <= 5);
  const auto all = visits(drawn);
  CHECK(range(all, 0, 100) == Range{6, 7});
  CHECK(range(all, 100, 137) == Range{10, 11});
  CHECK(range(all, 137, 397) == Range{1, 1});
  CHECK(order.passes(2) == 1);
  // Later epochs continue the passes.
  auto more = drawn;
  for (const auto sample : epoch_of(order, 1)) more.push_back(sample);
  const auto twice = visits(more);
  CHECK(range(twice, 0, 100).second - range(twice, 0, 100).first <= 1);
  CHECK(range(twice, 137, 397) == Range{2, 2});
}

TEST_CASE("stop = first: an epoch ends before a sample comes again") {
  MixtureOrder order(three, Stop::first, request());
  const auto all = visits(epoch_of(order, 0));
  CHECK(range(all, 0, 100) == Range{0, 1});
  CHECK(range(all, 100, 137) == Range{1, 1});
  CHECK(range(all, 137, 397) == Range{0, 1});
  CHECK(std::abs(order.samples_per_epoch() - 123) <= 4);  // 37 are 0.3 of them
}

TEST_CASE("stop = steps: an epoch is as long as the run") {
  MixtureOrder order(three, Stop::steps, request());
  CHECK(order.samples_per_epoch() == 800);
  // A longer run begins as the shorter one does.
  auto longer = request();
  longer.max_steps = 1000;
  MixtureOrder other(three, Stop::steps, longer);
  CHECK(order.samples(0, 792, 8) == other.samples(0, 792, 8));
}

TEST_CASE("batches are the same from any place on, keyed by the seed; passes have orders of their own") {
  MixtureOrder order(three, Stop::all, request());
  const auto drawn = epoch_of(order, 0);
  MixtureOrder resumed(three, Stop::all, request());
  for (const std::int64_t step : {90, 3, 41, 42, 160}) {
    const auto batch = resumed.samples(0, step * 8, 8);
    CHECK(std::equal(batch.begin(), batch.end(), drawn.begin() + step * 8));
  }
  auto other = request();
  other.seed = 6;
  MixtureOrder keyed(three, Stop::all, other);
  CHECK(epoch_of(keyed, 0) != drawn);
  CHECK(epoch_of(order, 1) != drawn);
  std::vector<std::int64_t> of_a;
  for (const auto sample : drawn) {
    if (sample < 100) of_a.push_back(sample);
  }
  // Two passes may overlap in a batch, whose places are shuffled.
  const auto half = [&](std::int64_t begin) {
    return std::vector<std::int64_t>(of_a.begin() + begin, of_a.begin() + begin + 50);
  };
  CHECK(half(0) != half(100));
}

TEST_CASE("without shuffling each source is read in its order") {
  MixtureOrder order(three, Stop::all, request(8, false));
  std::vector<std::int64_t> of_b;
  for (const auto sample : epoch_of(order, 0)) {
    if (sample >= 100 && sample < 137) of_b.push_back(sample - 100);
  }
  for (std::size_t i = 0; i < of_b.size(); ++i) CHECK(of_b[i] == static_cast<std::int64_t>(i % 37));
}

TEST_CASE("one source, sources of one sample, and weights that lie too far apart") {
  MixtureOrder alone({{"a", 9, 1}}, Stop::all, request(4));
  CHECK(range(visits(epoch_of(alone, 0, 4), 9), 0, 9) == Range{1, 1});
  MixtureOrder tiny({{"a", 1, 0.5}, {"b", 1, 0.5}}, Stop::first, request(4));
  CHECK(tiny.samples_per_epoch() == 2);
  CHECK_THROWS_WITH(MixtureOrder({{"a", 1000, 1e-14}, {"b", 5, 1 - 1e-14}}, Stop::all, request()),
                    Contains("the weights of the sources lie so far apart"));
}

}  // namespace order_test
