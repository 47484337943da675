#include <capstan/data/source.h>
#include <capstan/testing.h>

#include <algorithm>
#include <utility>

#include "testing/tiny.h"

namespace capstan::testing {
namespace {

struct DataOptions {
  std::int64_t samples = 70;
  static void describe(config::OptionTable<DataOptions>& t) {
    t.add("samples", &DataOptions::samples).min(1).doc("sequences");
  }
};

// Sequences of uneven length in which the previous token determines the next one, so that there is something to learn.
class Sequences : public data::DataSource {
 public:
  Sequences(std::int64_t count, std::int64_t longest) : count_(count), longest_(longest) {}
  std::int64_t size() const override { return count_; }

  data::Sample get(std::int64_t index) const override {
    constexpr std::int64_t alphabet = 29;
    constexpr std::int64_t prompt = 2;
    data::Sample sample;
    sample.id = std::to_string(index);
    const auto length = std::min<std::int64_t>(longest_, 4 + index * 7 % 13);
    auto token = index * 11 % alphabet;
    for (std::int64_t i = 0; i < length; ++i) {
      sample.tokens.push_back(token);
      sample.is_target.push_back(i >= prompt);
      token = (3 * token + 1) % alphabet;
    }
    sample.prompt_length = std::min(prompt, length);
    return sample;
  }

 private:
  std::int64_t count_;
  std::int64_t longest_;
};

class TinyData : public data::Data {
 public:
  explicit TinyData(config::Options<DataOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::OpenRequest& request) const override {
    if (request.split == data::Split::eval) return nullptr;
    return std::make_shared<Sequences>(options_->samples, request.max_length);
  }
  std::int64_t max_length() const override { return 0; }

 private:
  config::Options<DataOptions> options_;
};

}  // namespace

plugin::Registration tiny_data() { return type<data::Data, TinyData, DataOptions>("data", "tiny"); }

}  // namespace capstan::testing
