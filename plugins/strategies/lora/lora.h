#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "names.h"
#include "peft.h"

namespace lora {

struct LoraOptions {
  std::int64_t rank = 8;
  std::optional<double> alpha;
  double dropout = 0;
  std::vector<std::string> targets{"linear_qkv", "linear_proj"};
  std::string init = "kaiming";
  bool rank_stabilised = false;
  std::string bias = "none";
  std::vector<std::string> modules_to_save;
  std::optional<std::string> adapter;
  static void describe(capstan::config::OptionTable<LoraOptions>& t);
  static std::vector<capstan::config::FileKeys> file_keys() { return {peft_keys()}; }

  double alpha_value() const { return alpha.value_or(static_cast<double>(rank)); }
};

/// Low-rank adaptation (Hu et al. 2021): freezes the model and puts two thin trainable matrices next to chosen ones.
class Lora : public capstan::strategy::Strategy {
 public:
  explicit Lora(capstan::config::Options<LoraOptions> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  /// Throws Error that lists every name that means nothing in the model, and all that cannot be trained as asked.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  std::vector<std::string> notes() const override { return notes_; }
  std::shared_ptr<capstan::layout::Source> values(const capstan::layout::FileMap& files) override;
  std::vector<std::shared_ptr<const capstan::strategy::Exporter>> exporters() const override;

 private:
  void adapt_linears(capstan::nn::Unit& unit);
  void adapt_experts(capstan::nn::Unit& unit);
  std::vector<std::vector<std::size_t>> chosen_parts(const capstan::nn::Linear& linear);
  capstan::nn::Adapter make_adapter(const std::string& layer, const capstan::nn::WeightPtr& base,
                                    std::vector<std::size_t> parts, std::size_t stacked) const;
  const capstan::nn::Adapter* add(capstan::nn::Unit& unit, capstan::nn::Adapter adapter);
  void place_beside(capstan::nn::Experts& experts, capstan::nn::Unit& unit,
                    const capstan::strategy::Placement& placement) const;
  void train_biases(const capstan::nn::Unit& unit, capstan::Diagnostics& faults);
  void train_bias(const capstan::nn::Unit& unit, const capstan::nn::Linear& linear, capstan::Diagnostics& faults);
  void train_whole(const capstan::nn::Unit& unit, capstan::Diagnostics& faults);
  void refuse_unused(const Units& units, capstan::Diagnostics& faults) const;
  void refuse_nothing_trained(const Units& units, capstan::Diagnostics& faults) const;

  capstan::config::Options<LoraOptions> options_;
  Names targets_;
  Names whole_;  // what modules_to_save names: apart, since what is trained whole gets no adapter
  // Adapters by layer of the units at hand, which live in their unit; structure() makes them again.
  std::map<const capstan::nn::Linear*, std::vector<std::size_t>> of_linear_;
  std::map<const capstan::nn::Experts*, std::pair<std::size_t, std::size_t>> of_experts_;
  std::vector<std::string> notes_;
  Adapted adapted_;
};

}  // namespace lora
