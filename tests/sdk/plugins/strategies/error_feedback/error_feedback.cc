// Gradients are summed in bfloat16, and what rounding loses on a rank is added to its next gradient (Karimireddy et al.
// 2019, "Error Feedback Fixes SignSGD and other Gradient Compression Schemes").
#include <ATen/ATen.h>
#include <capstan/strategy.h>

namespace {

using namespace capstan;

struct ErrorFeedbackOptions {
  bool feedback = true;
  static void describe(config::OptionTable<ErrorFeedbackOptions>& t) {
    t.add("feedback", &ErrorFeedbackOptions::feedback).doc("false: what rounding loses is lost");
  }
};

class Reduce : public strategy::StepHooks {
 public:
  explicit Reduce(bool feedback) : feedback_(feedback) {}

  void reduce(strategy::Bucket& bucket, layout::Axis) override {
    const auto& gradient = bucket.gradient;
    if (feedback_) gradient.add_(error(bucket));
    const auto rounded = gradient.to(c10::ScalarType::BFloat16);
    if (feedback_) error(bucket).copy_(gradient - rounded.to(gradient.scalar_type()));
    if (bucket.out.numel() == gradient.numel()) {
      bucket.group.all_reduce(rounded, comm::ReduceOp::sum, "error_feedback " + bucket.name);
      bucket.out.copy_(rounded);
    } else {  // gradients are cut: this rank needs its piece of the sum only
      const auto piece = at::empty({bucket.out.numel()}, rounded.options());
      bucket.group.reduce_scatter(piece, rounded, "error_feedback " + bucket.name);
      bucket.out.copy_(piece);
    }
  }

 private:
  static at::Tensor error(strategy::Bucket& bucket) {
    return bucket.state("error", bucket.gradient.sizes(), bucket.gradient.scalar_type());
  }
  bool feedback_;
};

class ErrorFeedback : public strategy::Strategy {
 public:
  explicit ErrorFeedback(config::Options<ErrorFeedbackOptions> options) : options_(std::move(options)) {}

  void claim(strategy::Claims& claims) const override {
    claims.exclusive(strategy::gradient_reduction_seat(layout::Axis::dp));
    claims.shared("summed gradients on dp");
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Reduce>(options_->feedback); }
  std::vector<layout::Footprint> footprint(const strategy::Facts& facts) const override {
    if (!options_->feedback || facts.mesh.size({layout::Axis::dp, layout::Axis::ep}) == 1) return {};
    return {{"error feedback", facts.trainable_parameters * 4, facts.device, "always"}};
  }

 private:
  config::Options<ErrorFeedbackOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("error_feedback", "1.0", "sums gradients in bfloat16 with error feedback", ErrorFeedback,
                 ErrorFeedbackOptions)
