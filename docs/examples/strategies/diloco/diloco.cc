// DiLoCo (Douillard et al. 2023): each data rank trains by itself for H steps; then a step of Nesterov descent moves
// the anchor, which all share, by the mean of their ways from it, and all continue from there. With `overlap` they
// train on while the mean is taken (Douillard et al. 2025, "Streaming DiLoCo with overlapping communication").
#include <ATen/ATen.h>
#include <capstan/strategy.h>

namespace {
using namespace capstan;

struct DilocoOptions {
  std::int64_t every = 100, overlap = 0;
  double keep = 0.5, lr = 0.7, momentum = 0.9;
  static void describe(config::OptionTable<DilocoOptions>& t) {
    t.add("every", &DilocoOptions::every).min(1).doc("H: steps between two outer steps");
    t.add("overlap", &DilocoOptions::overlap).min(0).doc("steps of a rank while the mean is taken, fewer than every");
    t.add("keep", &DilocoOptions::keep).min(0).max(1).doc("share of its own that a rank keeps after overlapping");
    t.add("lr", &DilocoOptions::lr).above(0).doc("learning rate of the outer step");
    t.add("momentum", &DilocoOptions::momentum).min(0).max(1).doc("Nesterov momentum of the outer step");
  }
};

class Outer : public strategy::StepHooks {
 public:
  explicit Outer(const DilocoOptions& options) : options_(options) {}
  void begin(strategy::StepContext& step) override {
    if (step.state->has("anchor")) return;  // it came from a checkpoint
    for (auto& part : step.parts) kept(step, part, "anchor").copy_(part.master);
  }
  void after_step(strategy::StepContext& step) override {
    const auto since = step.number % options_.every + 1;  // the last exchange began
    const bool under_way = step.number >= options_.every && since <= options_.overlap;
    if (under_way && (since == options_.overlap || step.last)) outer_step(step, options_.keep);
    if (since != options_.every && !step.last) return;
    auto& group = step.own_group(layout::Axis::dp, step.device);
    std::vector<at::Tensor> ways;
    for (auto& part : step.parts) ways.push_back((kept(step, part, "anchor") - part.master.cpu()) / group.size());
    mean_ = at::cat(ways).to(step.device);
    pending_ = group.start_all_reduce(mean_, comm::ReduceOp::sum, "diloco outer gradient");
    if (options_.overlap == 0 || step.last) outer_step(step, 0);
  }
  void before_save(strategy::StepContext& step) override { finish(step); }
  void evaluation_weights(strategy::StepContext& step) override {
    for (auto& part : step.parts) part.master.copy_(kept(step, part, "anchor"));
  }

 private:
  static at::Tensor kept(strategy::StepContext& step, const strategy::StepPart& part, const char* name) {
    return step.state->of_part(part, name, part.master.options().device(at::kCPU));
  }
  void finish(strategy::StepContext& step) {
    if (!pending_) return;  // nothing is under way, or it was finished for a checkpoint
    std::exchange(pending_, nullptr)->wait();
    std::int64_t offset = 0;
    for (auto& part : step.parts) {
      const auto gradient = kept(step, part, "gradient");
      gradient.copy_(mean_.narrow(0, std::exchange(offset, offset + gradient.numel()), gradient.numel()));
    }
    mean_.reset();
  }
  void outer_step(strategy::StepContext& step, double keep) {
    finish(step);
    for (auto& part : step.parts) {
      const auto gradient = kept(step, part, "gradient");
      const auto momentum = kept(step, part, "momentum").mul_(options_.momentum).add_(gradient);
      const auto anchor = kept(step, part, "anchor").sub_(gradient.add(momentum, options_.momentum), options_.lr);
      part.master.lerp_(anchor.to(part.master.device()), 1 - keep);
    }
  }

  DilocoOptions options_;
  at::Tensor mean_;
  std::unique_ptr<comm::Pending> pending_;
};

class Diloco : public strategy::Strategy {
 public:
  explicit Diloco(config::Options<DilocoOptions> options) : options_(std::move(options)) {}
  void claim(strategy::Claims& claims) const override {
    claims.exclusive("summed gradients on dp");
    claims.exclusive(strategy::evaluation_weights_point);
  }
  void check(const strategy::Facts&, Diagnostics& diagnostics) const override {
    if (options_->overlap < options_->every) return;
    diagnostics.add(options_.where(&DilocoOptions::overlap), "overlap is not below every", "make it smaller");
  }
  void place(nn::Unit& unit, const strategy::Placement&) override {
    for (auto* record : nn::parameters(unit)) record->local_axes = {layout::Axis::dp, layout::Axis::ep};
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Outer>(*options_); }
  std::vector<layout::Footprint> footprint(const strategy::Facts& facts) const override {
    std::int64_t bytes = 0;
    for (const auto& part : facts.updated) bytes += part.box.numel() * 4;
    return {{"diloco state", 3 * bytes, "host", "always"}, {"diloco exchange", bytes, facts.device, "step"}};
  }

 private:
  config::Options<DilocoOptions> options_;
};
}  // namespace

CAPSTAN_STRATEGY("diloco", "1.0", "Nesterov descent on what data ranks learn in H steps each", Diloco, DilocoOptions)
