#pragma once
#include <capstan/strategy.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nf4 {

struct Nf4Options {
  std::vector<std::string> targets{"all-linear"};
  static void describe(capstan::config::OptionTable<Nf4Options>& t) {
    t.add("targets", &Nf4Options::targets)
        .doc(
            "layers whose frozen weights are kept in 4 bits, by their role (linear_qkv, linear_proj, linear_fc1, "
            "linear_fc2, experts), or \"all-linear\": all of each block, but not routers");
  }
};

/// Keeps chosen layers' frozen weights in 4 bits an element (Dettmers et al. 2023, "QLoRA"), with magnitudes in 8. The
/// products are what they were, with the decoded weights.
class Nf4 : public capstan::strategy::Strategy {
 public:
  explicit Nf4(capstan::config::Options<Nf4Options> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  /// Throws Error for targets that no block has.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  /// Throws Error for a weight that is trained: other strategies' structure() has said by now.
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<capstan::nn::PackedForm> packed_forms() const override;

 private:
  using Units = std::vector<std::unique_ptr<capstan::nn::Unit>>;
  void take(const std::string& role, capstan::nn::Weight& weight, std::size_t stacked);
  void say_what_was_taken();

  capstan::config::Options<Nf4Options> options_;
  std::map<std::string, std::int64_t> taken_;  ///< weights of each role
  std::int64_t elements_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace nf4
