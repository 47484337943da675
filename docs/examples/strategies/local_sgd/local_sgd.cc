// Local SGD (Stich 2019, "Local SGD Converges Fast and Communicates Little"): each data rank trains on its own samples
// by itself, and every H steps all take the mean of their parameters.
#include <ATen/ATen.h>
#include <capstan/strategy.h>

namespace {

using namespace capstan;

struct LocalSgdOptions {
  std::int64_t every = 8;
  static void describe(config::OptionTable<LocalSgdOptions>& t) {
    t.add("every", &LocalSgdOptions::every).min(1).doc("steps between two averages of the parameters");
  }
};

class Average : public strategy::StepHooks {
 public:
  explicit Average(std::int64_t every) : every_(every) {}

  void after_step(strategy::StepContext& step) override {
    if ((step.number + 1) % every_ != 0 && !step.last) return;
    auto& group = step.group(layout::Axis::dp);
    for (auto& part : step.parts) {
      group.all_reduce(part.master, comm::ReduceOp::sum, "local_sgd average of " + part.record->name);
      part.master.div_(group.size());
    }
  }

 private:
  std::int64_t every_;
};

class LocalSgd : public strategy::Strategy {
 public:
  explicit LocalSgd(config::Options<LocalSgdOptions> options) : options_(std::move(options)) {}

  void claim(strategy::Claims& claims) const override {
    claims.exclusive("summed gradients on dp");  // no strategy may shard what differs between ranks
  }
  void place(nn::Unit& unit, const strategy::Placement&) override {
    for (const auto& weight : unit.weights()) {
      for (auto& record : weight->records()) record.local_axes = {layout::Axis::dp, layout::Axis::ep};
    }
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Average>(options_->every); }

 private:
  config::Options<LocalSgdOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("local_sgd", "1.0", "averages parameters every H steps instead of gradients in each", LocalSgd,
                 LocalSgdOptions)
