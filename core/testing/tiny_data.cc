#include <capstan/data/source.h>
#include <capstan/testing.h>

#include <algorithm>
#include <utility>

#include "testing/tiny.h"

namespace capstan::testing {
namespace {

constexpr std::int64_t prompt = 2;

struct DataOptions {
  std::int64_t samples = 70;
  std::int64_t length = 0;
  static void describe(config::OptionTable<DataOptions>& t) {
    t.add("samples", &DataOptions::samples).min(1).doc("sequences");
    t.add("length", &DataOptions::length).min(0).doc("tokens of each, at least 3; 0: 4 to 16");
  }
};

// Sequences in which the previous token determines the next one, so that there is something to learn.
class Sequences : public data::DataSource {
 public:
  Sequences(std::int64_t count, const data::SplitRequest& request, bool is_even)
      : count_(count),
        longest_(request.max_length),
        alphabet_(std::min<std::int64_t>(29, request.vocab_size)),
        is_even_(is_even) {}
  std::int64_t size() const override { return count_; }

  data::Sample get(std::int64_t index) const override {
    data::Sample sample;
    sample.id = std::to_string(index);
    const auto length = is_even_ ? longest_ : std::min<std::int64_t>(longest_, 4 + index * 7 % 13);
    auto token = index * 11 % alphabet_;
    for (std::int64_t i = 0; i < length; ++i) {
      sample.tokens.push_back(token);
      sample.is_target.push_back(i >= prompt);
      token = (3 * token + 1) % alphabet_;
    }
    sample.prompt_length = std::min(prompt, length);
    return sample;
  }

 private:
  std::int64_t count_;
  std::int64_t longest_;
  std::int64_t alphabet_;
  bool is_even_;
};

class TinyData : public data::Data {
 public:
  explicit TinyData(config::Options<DataOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics& diagnostics) const override {
    if (options_->length == 0 || options_->length > prompt) return;
    diagnostics.add(options_.where(&DataOptions::length), "data.length leaves no token to predict",
                    "use 3 or more, or 0");
  }
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    if (request.split == data::Split::eval) return nullptr;
    return std::make_shared<Sequences>(options_->samples, request, options_->length > 0);
  }
  std::int64_t max_length() const override { return options_->length; }
  bool uses_tokenizer() const override { return false; }

 private:
  config::Options<DataOptions> options_;
};

}  // namespace

plugin::Registration tiny_data() { return type<data::Data, TinyData, DataOptions>("data", "tiny"); }

}  // namespace capstan::testing
