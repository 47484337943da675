#include "statistics.h"

#include <capstan/base/counted.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace looking {

using namespace capstan;

namespace {

// FNV-1a over the tokens of all sequences.
std::uint64_t sum_of(const data::Sample& sample) {
  constexpr std::uint64_t prime = 1099511628211ULL;
  std::uint64_t sum = 14695981039346656037ULL;
  for (const auto& sequence : data::sequences_of(sample)) {
    for (const auto token : sequence.tokens) sum = (sum ^ static_cast<std::uint64_t>(token)) * prime;
    sum = (sum ^ sequence.tokens.size()) * prime;
  }
  return sum;
}

bool has_same_tokens(const data::Sample& a, const data::Sample& b) {
  const auto one = data::sequences_of(a), other = data::sequences_of(b);
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto& left, const auto& right) { return left.tokens == right.tokens; });
}

// What the lengths in the files say of those that are too long; nothing where this split is another part of them.
std::optional<TooLong> too_long_of(const std::vector<session::SampleLength>& whole, std::int64_t most,
                                   std::int64_t samples) {
  TooLong found;
  found.all = static_cast<std::int64_t>(whole.size());
  for (const auto& one : whole) {
    if (one.tokens > most) ++found.samples;
    found.targets += one.targets;
  }
  found.left_out = samples < found.all;
  if (found.all == 0 || (found.left_out && samples != found.all - found.samples)) return {};
  return found;
}

// 1, 2 or 5 times a power of ten, at least `least`.
std::int64_t round_step(double least) {
  const auto power = std::pow(10.0, std::floor(std::log10(std::max(1.0, least))));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return static_cast<std::int64_t>(factor * power);
  }
  return static_cast<std::int64_t>(10 * power);
}

std::string one_decimal(double number) { return number_text(std::round(number * 10) / 10); }

std::string lengths_sentence(const Statistics& s) {
  const auto& lengths = s.lengths;
  const auto mean = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) /
                    static_cast<double>(lengths.size());
  constexpr double half = 0.5, nine_tenths = 0.9, nearly_all = 0.99;
  const auto text = [&](double share) { return thousands(quantile(lengths, share)); };
  return cat("tokens of a sample: shortest ", thousands(lengths.front()), ", median ", text(half), ", mean ",
             one_decimal(mean), ", 90 % have at most ", text(nine_tenths), ", 99 % at most ", text(nearly_all),
             ", longest ", thousands(lengths.back()));
}

std::string too_long_sentence(const Statistics& s) {
  const auto& found = *s.too_long;
  const auto of = cat(" of ", thousands(found.all), plural(found.all, " sample", " samples"));
  if (found.samples == 0) return cat("none", of, " is longer than max_length ", thousands(s.max_length));
  const auto lost = found.targets - s.targets;
  return cat(thousands(found.samples), of, " (", percent(found.samples, found.all), ") ",
             plural(found.samples, "is", "are"), " longer than max_length ", thousands(s.max_length), " and ",
             found.left_out ? "left out" : "cut", "; ",
             lost > 0 ? cat(percent(lost, found.targets), " of the tokens that bear loss are lost")
                      : "no token that bears loss is lost");
}

}  // namespace

std::int64_t targets_of(const data::SequenceView& sequence) {
  const auto& flags = sequence.is_target;
  return std::count(flags.begin() + (flags.empty() ? 0 : 1), flags.end(), true);
}

std::optional<std::size_t> SourceNames::index(const data::Sample& sample) const {
  const auto* values =
      field < sample.fields.size() ? std::get_if<std::vector<std::int64_t>>(&sample.fields[field]) : nullptr;
  if (values == nullptr || values->size() != 1) return {};
  const auto index = static_cast<std::size_t>(values->front());
  return index < names.size() ? std::optional(index) : std::nullopt;
}

Counter::Counter(std::function<data::Sample(std::int64_t)> again, SourceNames sources)
    : again_(std::move(again)), sources_(std::move(sources)) {
  for (const auto& name : sources_.names) statistics_.sources.emplace_back(name, 0);
}

void Counter::add(const data::Sample& sample) {
  std::int64_t targets = 0;
  std::size_t longest = 0;
  for (const auto& sequence : data::sequences_of(sample)) {
    targets += targets_of(sequence);
    longest = std::max(longest, sequence.tokens.size());
    statistics_.tokens += static_cast<std::int64_t>(sequence.tokens.size());
  }
  statistics_.lengths.push_back(static_cast<std::int64_t>(longest));
  statistics_.targets += targets;
  if (targets == 0) ++statistics_.without_target;
  if (const auto source = sources_.index(sample)) ++statistics_.sources[*source].second;
  find_duplicate(sample, statistics_.samples++);
}

void Counter::find_duplicate(const data::Sample& sample, std::int64_t index) {
  const auto [first, is_new] = first_.emplace(sum_of(sample), index);
  if (is_new) return;
  const auto original = again_(first->second);
  if (!has_same_tokens(original, sample)) return;
  auto& found = statistics_.duplicates;
  if (found.count++ > 0) return;
  found.first = original.id;
  found.copy_id = sample.id;
}

Statistics Counter::finish(std::int64_t max_length, const std::vector<session::SampleLength>& whole) {
  std::sort(statistics_.lengths.begin(), statistics_.lengths.end());
  statistics_.max_length = max_length;
  statistics_.too_long = too_long_of(whole, max_length, statistics_.samples);
  return std::move(statistics_);
}

std::int64_t quantile(const std::vector<std::int64_t>& ascending, double share) {
  if (ascending.empty()) return 0;
  const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(ascending.size())));
  return ascending[std::clamp<std::size_t>(place, 1, ascending.size()) - 1];
}

std::vector<Bin> bins_of(const std::vector<std::int64_t>& ascending) {
  if (ascending.empty()) return {};
  constexpr double most_bins = 10, nearly_all = 0.99;
  const auto end = quantile(ascending, nearly_all);
  const auto step = round_step(static_cast<double>(end + 1) / most_bins);
  std::vector<Bin> bins;
  for (std::int64_t from = ascending.front() / step * step; from <= end; from += step)
    bins.push_back({from, from + step - 1, 0});
  if (ascending.back() > bins.back().to) bins.push_back({bins.back().to + 1, -1, 0});
  auto bin = bins.begin();
  for (const auto length : ascending) {
    while (bin->to >= 0 && length > bin->to) ++bin;
    ++bin->samples;
  }
  return bins;
}

std::string range_text(const Bin& bin) {
  if (bin.to < 0) return cat(thousands(bin.from), " and more");
  return bin.to == bin.from ? thousands(bin.from) : cat(thousands(bin.from), " to ", thousands(bin.to));
}

std::string percent(std::int64_t part, std::int64_t all) {
  constexpr double hundred = 100;
  return cat(all > 0 ? one_decimal(hundred * static_cast<double>(part) / static_cast<double>(all)) : "0", " %");
}

std::vector<std::string> sentences(const Statistics& s) {
  if (s.lengths.empty()) return {};
  std::vector<std::string> all{lengths_sentence(s)};
  if (s.too_long) all.push_back(too_long_sentence(s));
  all.push_back(cat(percent(s.targets, s.tokens), " of all tokens bear loss (", thousands(s.targets), " of ",
                    thousands(s.tokens), ")"));
  if (s.without_target > 0) {
    all.push_back(cat(counted(s.without_target, "sample"), " ", plural(s.without_target, "has", "have"),
                      " no token that bears loss"));
  }
  std::vector<std::string> of_sources;
  for (const auto& [name, samples] : s.sources)
    of_sources.push_back(cat(printable(name), " ", thousands(samples), " (", percent(samples, s.samples), ")"));
  if (!of_sources.empty()) all.push_back("samples of each source: " + join(of_sources));
  const auto& twice = s.duplicates;
  all.push_back(twice.count == 0
                    ? std::string("no two samples have the same tokens")
                    : cat(counted(twice.count, "sample"), " (", percent(twice.count, s.samples), ") ",
                          plural(twice.count, "has", "have"), " the tokens of an earlier one; the first is ",
                          printable(twice.copy_id), ", as ", printable(twice.first)));
  return all;
}

std::string statistics_text(const Statistics& statistics) {
  std::string text;
  for (const auto& sentence : sentences(statistics)) text += sentence + "\n";
  constexpr std::int64_t widest = 40;
  std::int64_t most = 1;
  const auto bins = bins_of(statistics.lengths);
  for (const auto& bin : bins) most = std::max(most, bin.samples);
  std::vector<std::vector<std::string>> rows{{"tokens", "samples", "share", ""}};
  for (const auto& bin : bins) {
    const auto bar = (bin.samples * widest + most - 1) / most;  // one sample shows
    rows.push_back({range_text(bin), thousands(bin.samples), percent(bin.samples, statistics.samples),
                    std::string(static_cast<std::size_t>(bar), '#')});
  }
  return bins.empty() ? text : text + "\n" + table_text(rows);
}

}  // namespace looking
