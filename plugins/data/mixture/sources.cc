#include "sources.h"

#include <capstan/base/counted.h>
#include <capstan/base/philox.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <exception>
#include <iomanip>
#include <sstream>

#include "order.h"

namespace mixture {

using namespace capstan;

namespace {

/// The mean length of some samples of a source.
struct Length {
  double mean = 0;
  std::int64_t of = 0;
};

Length length_of(const OpenedPart& part, std::uint64_t seed) {
  constexpr std::int64_t most = 256;
  const auto size = part.source->size();
  const auto order_key = mix_bits(seed ^ stable_hash("length of " + part.part.name));
  Length length;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < std::min(size, most); ++i) {
    const auto word = mix_bits(order_key + static_cast<std::uint64_t>(i)) >> 11;
    const auto index = static_cast<std::int64_t>(static_cast<double>(word) * 0x1p-53 * static_cast<double>(size));
    try {
      const auto sample = part.source->get(size <= most ? i : std::min(index, size - 1));
      for (const auto& sequence : data::sequences_of(sample)) tokens += std::ssize(sequence.tokens);
      ++length.of;
    } catch (const std::exception&) {
      continue;  // the run says so when it comes there
    }
  }
  if (length.of > 0) length.mean = static_cast<double>(tokens) / static_cast<double>(length.of);
  if (length.mean <= 0) {
    throw Error(cat("the source '", part.part.name, "' has no tokens by which its weight could count"),
                R"(set data.weights = "samples", or take the source out)", part.part.where);
  }
  return length;
}

std::string short_text(double number) {
  std::ostringstream text;
  text << std::setprecision(4) << number;
  return text.str();
}

std::string line_of(const MixtureOrder& order, const Stock& stock, std::size_t index, const Length& length) {
  auto text = cat("source '", stock.name, "': ", counted(stock.samples, "sample"), ", ", short_text(stock.share),
                  " of those drawn, each seen ", short_text(order.passes(index)), " x an epoch");
  if (length.of > 0)
    text += cat("; ", short_text(length.mean), " tokens in the mean of ", counted(length.of, "sample"));
  return text + "\n";
}

}  // namespace

Sources::Sources(std::vector<OpenedPart> parts, config::Options<MixtureOptions> options)
    : parts_(std::move(parts)), begins_{0}, options_(std::move(options)) {
  for (const auto& part : parts_) begins_.push_back(begins_.back() + part.source->size());
}

std::pair<const OpenedPart*, std::int64_t> Sources::place(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < size());
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), index);
  const auto part = static_cast<std::size_t>(after - begins_.begin()) - 1;
  return {&parts_[part], index - begins_[part]};
}

// Ids of several sources may be alike, such as "line 3".
data::Sample Sources::marked(data::Sample sample, const OpenedPart& of) const {
  sample.id = cat(of.part.name, "/", sample.id);
  sample.fields.emplace_back(std::vector<std::int64_t>{static_cast<std::int64_t>(of.index)});
  return sample;
}

data::Sample Sources::get(std::int64_t index) const {
  const auto [part, inside] = place(index);
  return marked(part->source->get(inside), *part);
}

data::Sample Sources::question(std::int64_t index, std::int64_t most) const {
  const auto [part, inside] = place(index);
  return marked(part->source->question(inside, most), *part);
}

monitor::Values Sources::score(const data::Sample& sample, const std::string& text) const {
  const auto* of = sample.fields.empty() ? nullptr : std::get_if<std::vector<std::int64_t>>(&sample.fields.back());
  for (const auto& part : parts_) {
    if (of && of->size() == 1 && of->front() == static_cast<std::int64_t>(part.index))
      return part.source->score(sample, text);
  }
  return {};
}

std::size_t Sources::answer_end(std::string_view text) const {
  auto end = std::string_view::npos;
  for (const auto& part : parts_) end = std::min(end, part.source->answer_end(text));
  return end;
}

std::vector<std::int64_t> Sources::end_ids() const {
  std::vector<std::int64_t> ids;
  for (const auto& part : parts_) {
    for (const auto id : part.source->end_ids()) {
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

std::string Sources::content() const {
  std::vector<std::string> all;
  for (const auto& part : parts_) {
    if (auto content = part.source->content(); !content.empty()) all.push_back(cat(part.part.name, ": ", content));
  }
  return join(all);
}

std::unique_ptr<data::SampleOrder> Sources::order(const data::OrderRequest& request) const {
  const auto stop = options_->stop == "first" ? Stop::first : options_->stop == "all" ? Stop::all : Stop::steps;
  if (stop == Stop::steps && !request.max_steps) {
    throw Error("data.stop is \"steps\", and the run's length is not given in steps", "set train.max_steps",
                options_.where(&MixtureOptions::stop));
  }
  std::vector<Stock> stocks;
  std::vector<Length> lengths;
  double all = 0;
  for (const auto& part : parts_) {
    lengths.push_back(options_->weights == "tokens" ? length_of(part, request.seed) : Length());
    const auto samples = lengths.back().of > 0 ? part.part.weight / lengths.back().mean : part.part.weight;
    stocks.push_back({part.part.name, part.source->size(), samples});
    all += samples;
  }
  for (auto& stock : stocks) stock.share /= all;
  auto order = std::make_unique<MixtureOrder>(stocks, stop, request);
  std::string text;
  for (std::size_t i = 0; i < stocks.size(); ++i) text += line_of(*order, stocks[i], i, lengths[i]);
  order->set_text(std::move(text));
  return order;
}

}  // namespace mixture
