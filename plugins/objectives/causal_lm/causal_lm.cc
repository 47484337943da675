// The cross entropy of the next token, as a mean over all tokens that bear loss.
#include <capstan/objective.h>

#include <utility>
#include <vector>

namespace {

using namespace capstan;

struct CausalOptions {
  static void describe(config::OptionTable<CausalOptions>& /*t*/) {}
};

class CausalLm final : public objective::Objective {
 public:
  explicit CausalLm(const config::Options<CausalOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"model"}};
    plan.counts = {"target tokens"};
    plan.terms = {{}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.target_tokens)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const override {
    return {{outputs.front()}, {}};
  }
};

}  // namespace

CAPSTAN_OBJECTIVE("causal_lm", "1.0", "the next token's cross entropy, a mean over the tokens that bear loss", CausalLm,
                  CausalOptions)
