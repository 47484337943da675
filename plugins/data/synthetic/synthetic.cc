#include "synthetic.h"

#include <capstan/base/philox.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>

namespace synthetic {

using namespace capstan;

void SyntheticOptions::describe(config::OptionTable<SyntheticOptions>& t) {
  t.add("samples", &SyntheticOptions::samples).min(1).doc("training samples");
  t.add("eval_samples", &SyntheticOptions::eval_samples).min(0).doc("evaluation samples; 0: no evaluation");
  t.add("max_length", &SyntheticOptions::max_length)
      .min(0)
      .doc(
          "tokens of every sample, one more than the positions that are computed; 0: as many as the model has "
          "positions");
  t.add("seed", &SyntheticOptions::seed).min(0).max(9e18).doc("another seed gives other tokens");
  t.add("target_share", &SyntheticOptions::target_share)
      .min(0)
      .max(1)
      .doc(
          "of a sample's tokens, the share that bears loss: its last ones, at least one and never the first; 0.024 is "
          "SQuAD's");
}

void SyntheticData::check(Diagnostics& diagnostics) const {
  if (options_->max_length != 1) return;
  diagnostics.add(options_.where(&SyntheticOptions::max_length),
                  options_.name(&SyntheticOptions::max_length) + " is 1, which leaves no token to predict",
                  "use 2 or more, or 0 for the model's length");
}

std::shared_ptr<data::DataSource> SyntheticData::open(const data::SplitRequest& request) const {
  const bool train = request.split == data::Split::train;
  const auto samples = train ? options_->samples : options_->eval_samples;
  if (samples == 0) return nullptr;
  if (request.max_length < 2) {
    throw Error("the model has 1 position, which leaves no token to predict", "use a model with 2 positions or more",
                options_.section().origin.text());
  }
  const auto share = std::llround(options_->target_share * static_cast<double>(request.max_length));
  const auto targets = std::clamp<std::int64_t>(share, 1, request.max_length - 1);
  const auto stream = 2 * static_cast<std::uint64_t>(options_->seed) + (train ? 0 : 1);
  return std::make_shared<SyntheticSource>(samples, SyntheticSource::Shape{request.max_length, targets},
                                           request.vocab_size, mix_bits(stream));
}

data::Sample SyntheticSource::get(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < samples_);
  data::Sample sample;
  sample.id = cat("synthetic-", index);
  sample.tokens.reserve(static_cast<std::size_t>(shape_.length));
  // A separate generator for each sample: SplitMix64 (Steele, Lea and Flood 2014), started at a mixed state.
  auto state = mix_bits(stream_ ^ static_cast<std::uint64_t>(index));
  for (std::int64_t t = 0; t < shape_.length; ++t) {
    state += 0x9E3779B97F4A7C15U;
    sample.tokens.push_back(static_cast<std::int64_t>(mix_bits(state) % static_cast<std::uint64_t>(vocab_size_)));
  }
  const auto prompt = shape_.length - shape_.targets;
  sample.is_target.assign(sample.tokens.size(), false);
  std::fill(sample.is_target.begin() + prompt, sample.is_target.end(), true);
  sample.prompt_length = prompt;
  return sample;
}

}  // namespace synthetic

CAPSTAN_DATA("synthetic", "1.0", "random tokens over the model's vocabulary, to measure speed and memory",
             synthetic::SyntheticData, synthetic::SyntheticOptions)
