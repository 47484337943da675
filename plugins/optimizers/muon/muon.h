#pragma once
#include <capstan/matrix_rules/matrix_rule.h>
#include <capstan/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muon {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  std::string scale = "match_rms_adamw";
  bool adapters = false;
  std::vector<double> adamw_betas{0.9, 0.999};
  double adamw_eps = 1e-8;
  double adamw_lr_factor = 1;
  static void describe(capstan::config::OptionTable<MuonOptions>& t);
};

/// Muon (Jordan et al. 2024): a matrix moves by its momentum made orthogonal, which needs the whole matrix. AdamW
/// updates what is no matrix of a layer: embeddings, the head, norms, biases (docs/muon.md).
class Muon : public capstan::matrix_rules::MatrixRule {
 public:
  explicit Muon(capstan::config::Options<MuonOptions> options);
  std::vector<capstan::optimizer::StateSpec> states(const capstan::layout::Param& record) const override;
  std::optional<capstan::matrix_rules::WholeSpec> whole_spec(const capstan::layout::Param& record,
                                                             c10::ScalarType master,
                                                             c10::DeviceType device) const override;
  void begin(std::vector<capstan::matrix_rules::Part>& parts, const capstan::optimizer::Update& update) override;
  void whole(const capstan::matrix_rules::Matrices& matrices, const capstan::optimizer::Update& update) override;
  void finish(std::vector<capstan::matrix_rules::Part>& parts, const capstan::optimizer::Update& update) override;
  void apply(std::vector<capstan::optimizer::Slice>& slices, const capstan::optimizer::Update& update) override;

 private:
  bool takes(const capstan::layout::Param& record) const;
  double scale_of(const capstan::layout::Param& record) const;

  capstan::config::Options<MuonOptions> options_;
  std::unique_ptr<capstan::optimizer::Rule> adamw_;
};

}  // namespace muon
