#include "order.h"

#include <capstan/base/error.h>
#include <capstan/base/philox.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace mixture {

using namespace capstan;

namespace {

constexpr std::int64_t shortest_block = 1024;
constexpr std::int64_t most_draws = std::int64_t{1} << 46;  // shares of them are exact in a double

std::vector<double> shares_of(const std::vector<Stock>& stocks) {
  std::vector<double> shares;
  for (const auto& stock : stocks) shares.push_back(stock.share);
  return shares;
}

std::vector<std::int64_t> sizes_of(const std::vector<Stock>& stocks) {
  std::vector<std::int64_t> sizes;
  for (const auto& stock : stocks) sizes.push_back(stock.samples);
  return sizes;
}

}  // namespace

// With blocks of at least the number of sources squared the largest source's count grows, too.
Schedule::Schedule(std::vector<double> shares) : shares_(std::move(shares)) {
  CAPSTAN_ASSERT(!shares_.empty());
  largest_ = static_cast<std::size_t>(std::max_element(shares_.begin(), shares_.end()) - shares_.begin());
  length_ = std::max(shortest_block, std::ssize(shares_) * std::ssize(shares_));
}

std::int64_t Schedule::at_border(std::size_t source, std::int64_t block) const {
  return std::llround(shares_[source] * static_cast<double>(block * length_));
}

std::vector<std::int64_t> Schedule::borders(std::int64_t block) const {
  std::vector<std::int64_t> counts(shares_.size());
  auto rest = block * length_;
  for (std::size_t source = 0; source < shares_.size(); ++source) {
    if (source == largest_) continue;
    counts[source] = at_border(source, block);
    rest -= counts[source];
  }
  counts[largest_] = rest;
  return counts;
}

std::vector<std::size_t> Schedule::block_of(std::int64_t block) const {
  const auto begin = borders(block), end = borders(block + 1);
  std::vector<std::int64_t> given(shares_.size());
  std::vector<std::size_t> sources;
  for (std::int64_t draw = 1; draw <= length_; ++draw) {
    std::size_t next = shares_.size();
    auto most = -std::numeric_limits<double>::infinity();
    for (std::size_t source = 0; source < shares_.size(); ++source) {
      const auto quota = end[source] - begin[source];
      if (given[source] == quota) continue;
      const auto share = static_cast<double>(quota * draw) / static_cast<double>(length_);
      const auto missing = share - static_cast<double>(given[source]);
      if (missing <= most) continue;
      most = missing;
      next = source;
    }
    ++given.at(next);
    sources.push_back(next);
  }
  return sources;
}

std::vector<std::int64_t> Schedule::counts(std::int64_t n) const {
  const auto block = n / length_;
  auto counts = borders(block);
  if (n == block * length_) return counts;
  for (const auto source : sources(block * length_, n - block * length_)) ++counts[source];
  return counts;
}

std::vector<std::size_t> Schedule::sources(std::int64_t first, std::int64_t count) const {
  std::vector<std::size_t> all;
  for (auto block = first / length_; std::ssize(all) < count; ++block) {
    const auto own = block_of(block);
    const auto begin = std::max<std::int64_t>(0, first - block * length_);
    const auto end = std::min(length_, first + count - block * length_);
    all.insert(all.end(), own.begin() + begin, own.begin() + end);
  }
  return all;
}

std::int64_t Schedule::first_with(const std::vector<std::int64_t>& wanted, bool all) const {
  const auto reached = [&](const std::vector<std::int64_t>& counts) {
    const auto enough = std::inner_product(counts.begin(), counts.end(), wanted.begin(), std::size_t{0}, std::plus<>(),
                                           std::greater_equal<>());
    return all ? enough == wanted.size() : enough > 0;
  };
  std::int64_t least = 0, most = most_draws / length_;
  if (!reached(borders(most))) return most_draws;
  while (least < most) {  // the first block that ends with them
    const auto middle = (least + most) / 2;
    if (reached(borders(middle + 1))) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  auto counts = borders(least);
  auto n = least * length_;
  for (const auto source : block_of(least)) {
    if (reached(counts)) break;
    ++counts[source];
    ++n;
  }
  return n;
}

std::int64_t Schedule::first_with_all(const std::vector<std::int64_t>& wanted) const {
  return first_with(wanted, true);
}
std::int64_t Schedule::first_with_any(const std::vector<std::int64_t>& wanted) const {
  return first_with(wanted, false);
}

MixtureOrder::MixtureOrder(std::vector<Stock> stocks, Stop stop, const data::OrderRequest& request)
    : stocks_(std::move(stocks)), request_(request), schedule_(shares_of(stocks_)), passes_(stocks_.size()) {
  auto sizes = sizes_of(stocks_);
  if (stop == Stop::all) length_ = schedule_.first_with_all(sizes);
  if (stop == Stop::steps) length_ = request.max_steps.value_or(0) * request.global_batch;
  if (stop == Stop::first) {
    for (auto& size : sizes) ++size;
    length_ = schedule_.first_with_any(sizes) - 1;
  }
  if (length_ >= most_draws - 1) {
    throw Error("the weights of the sources lie so far apart that an epoch would never end",
                R"(raise the smallest weight, or set data.stop = "steps")");
  }
  CAPSTAN_ASSERT(length_ > 0);
  of_epoch_ = schedule_.counts(length_);
}

double MixtureOrder::passes(std::size_t source) const {
  return static_cast<double>(of_epoch_.at(source)) / static_cast<double>(stocks_.at(source).samples);
}

// The sample of a source that comes at this position of all that is ever drawn from it.
std::int64_t MixtureOrder::drawn(std::size_t source, std::int64_t position) {
  const auto size = stocks_[source].samples;
  const auto pass = position / size;
  auto& known = passes_[source];
  if (!known.contains(pass)) {
    if (known.size() > 1) known.erase(known.begin());  // a batch may have the end of one pass and begin the next
    const auto seed = mix_bits(request_.seed ^ stable_hash(stocks_[source].name));
    known[pass] = data::epoch_order(size, seed, pass, request_.shuffle);
  }
  return known[pass][static_cast<std::size_t>(position % size)];
}

std::vector<std::int64_t> MixtureOrder::samples(std::int64_t epoch, std::int64_t first, std::int64_t count) {
  auto done = schedule_.counts(first);
  std::vector<std::int64_t> begins(stocks_.size());
  for (std::size_t source = 0; source < stocks_.size(); ++source) {
    done[source] += epoch * of_epoch_[source];
    if (source > 0) begins[source] = begins[source - 1] + stocks_[source - 1].samples;
  }
  std::vector<std::int64_t> drawn_here;
  for (const auto source : schedule_.sources(first, count))
    drawn_here.push_back(begins[source] + drawn(source, done[source]++));
  if (!request_.shuffle) return drawn_here;
  // Else the same places of a batch, which are some rank's, would always be of the same source.
  const auto places = data::epoch_order(count, mix_bits(request_.seed ^ stable_hash("places of a batch")),
                                        epoch * length_ + first, true);
  std::vector<std::int64_t> batch;
  for (const auto place : places) batch.push_back(drawn_here[static_cast<std::size_t>(place)]);
  return batch;
}

}  // namespace mixture
