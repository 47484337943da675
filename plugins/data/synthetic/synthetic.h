#pragma once
#include <capstan/data.h>

#include <cstdint>
#include <memory>

namespace synthetic {

struct SyntheticOptions {
  std::int64_t samples = 1024;
  std::int64_t eval_samples = 0;
  std::int64_t max_length = 0;
  std::int64_t seed = 1;
  double target_share = 1;

  static void describe(capstan::config::OptionTable<SyntheticOptions>& t);
};

/// Random token ids over the model's whole vocabulary, all samples of one length: speed and memory without a file.
class SyntheticData final : public capstan::data::Data {
 public:
  explicit SyntheticData(capstan::config::Options<SyntheticOptions> options) : options_(std::move(options)) {}
  void check(capstan::Diagnostics& diagnostics) const override;
  std::shared_ptr<capstan::data::DataSource> open(const capstan::data::SplitRequest& request) const override;
  std::int64_t max_length() const override { return options_->max_length; }
  bool evaluates() const override { return options_->eval_samples > 0; }
  bool uses_tokenizer() const override { return false; }

 private:
  capstan::config::Options<SyntheticOptions> options_;
};

/// Sample i is the same at every call and on every rank; its last tokens bear loss, at most all but the first.
class SyntheticSource final : public capstan::data::DataSource {
 public:
  struct Shape {
    std::int64_t length;   ///< tokens per sample, at least 2
    std::int64_t targets;  ///< how many of them bear loss, at least 1
  };
  SyntheticSource(std::int64_t samples, Shape shape, std::int64_t vocab_size, std::uint64_t stream)
      : samples_(samples), shape_(shape), vocab_size_(vocab_size), stream_(stream) {}
  std::int64_t size() const override { return samples_; }
  capstan::data::Sample get(std::int64_t index) const override;

 private:
  std::int64_t samples_;
  Shape shape_;
  std::int64_t vocab_size_;
  std::uint64_t stream_;
};

}  // namespace synthetic
