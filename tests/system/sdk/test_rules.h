#pragma once
#include <ATen/ATen.h>
#include <capstan/data.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>

/// Parts that tests of several plugins share.
namespace sdk_test {

using namespace capstan;

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

/// Plain gradient descent: its updates are proportional to gradients, so that means of either are the same.
class Descent : public strategy::Strategy {
 public:
  explicit Descent(config::Options<NoOptions>) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::optimizer_rule_point); }
  std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const strategy::AdamWOptions&) override {
    return std::make_unique<Rule>();
  }

 private:
  class Rule : public strategy::OptimizerRule {
   public:
    std::size_t states() const override { return 0; }
    void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
      for (auto& slice : slices) slice.master.sub_(slice.grad, update.lr);
    }
  };
};

inline plugin::Registration descent() {
  return testing::type<strategy::Strategy, Descent, NoOptions>("strategy", "descent");
}

/// Sequences of one length: every rank has as many target tokens.
class EvenData : public data::Data {
 public:
  explicit EvenData(config::Options<NoOptions>) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::OpenRequest& request) const override {
    return request.split == data::Split::eval ? nullptr : std::make_shared<Source>();
  }
  std::int64_t max_length() const override { return 0; }

 private:
  class Source : public data::DataSource {
   public:
    std::int64_t size() const override { return 24; }
    data::Sample get(std::int64_t index) const override {
      data::Sample sample;
      sample.id = std::to_string(index);
      for (std::int64_t i = 0; i < 9; ++i) {
        sample.tokens.push_back((index * 5 + i * i) % 29);
        sample.is_target.push_back(i > 0);
      }
      sample.prompt_length = 1;
      return sample;
    }
  };
};

inline plugin::Registration even_data() { return testing::type<data::Data, EvenData, NoOptions>("data", "even"); }

/// The largest difference of two runs' weights.
inline double weight_distance(const testing::Run& a, const testing::Run& b) {
  double most = 0;
  for (const auto& [name, weight] : a.weights)
    most = std::max(most, (weight - b.weights.at(name)).abs().max().item<double>());
  return most;
}

}  // namespace sdk_test
