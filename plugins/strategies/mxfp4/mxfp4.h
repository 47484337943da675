#pragma once
#include <capstan/strategy.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mxfp4 {

struct Mxfp4Options {
  static void describe(capstan::config::OptionTable<Mxfp4Options>& /*t*/) {}
};

/// Keeps experts' frozen weights in MXFP4, as gpt-oss is published. The products are what they were, with the decoded
/// weights.
class Mxfp4 : public capstan::strategy::Strategy {
 public:
  explicit Mxfp4(capstan::config::Options<Mxfp4Options> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  /// Throws Error for a model without experts.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  /// Throws Error for a weight that is trained: other strategies' structure() has said by now.
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  std::vector<std::string> notes() const override { return notes_; }

 private:
  capstan::config::Options<Mxfp4Options> options_;
  std::vector<std::string> notes_;
};

}  // namespace mxfp4
