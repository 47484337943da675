// An all-reduce in bfloat16 with error feedback (Karimireddy et al. 2019; both sides as in Tang et al. 2021, "1-bit
// Adam"): what rounding loses, of this rank's gradient and of the sum that this rank makes, is added the next time.
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
    const auto ranks = bucket.group.size();
    const auto n = bucket.gradient.numel();
    const auto padded = at::constant_pad_nd(bucket.gradient, {0, (ranks - n % ranks) % ranks});
    const auto mine = rounded(bucket, "error", padded).view({ranks, -1});
    const auto parts = at::empty_like(mine);
    const std::vector<std::int64_t> a_row_each(static_cast<std::size_t>(ranks), 1);
    bucket.group.all_to_all(parts, mine, a_row_each, a_row_each, "error_feedback " + bucket.name);
    const auto sum = parts.to(padded.scalar_type()).sum(0);  // this rank's piece
    if (bucket.out.numel() != n) {                           // gradients are sharded: no other rank needs it
      bucket.out.copy_(sum);
      return;
    }
    const auto all = at::empty({padded.numel()}, mine.options());
    bucket.group.all_gather(all, rounded(bucket, "error of the sum", sum), "error_feedback " + bucket.name);
    bucket.out.copy_(all.narrow(0, 0, n));
  }

 private:
  at::Tensor rounded(strategy::Bucket& bucket, const std::string& name, const at::Tensor& exact) const {
    if (!feedback_) return exact.to(c10::ScalarType::BFloat16);
    const auto error = bucket.state->tensor(name, exact.sizes(), exact.options());
    const auto corrected = exact + error;
    const auto result = corrected.to(c10::ScalarType::BFloat16);
    error.copy_(corrected - result.to(exact.scalar_type()));
    return result;
  }
  bool feedback_;
};

class ErrorFeedback : public strategy::Strategy {
 public:
  explicit ErrorFeedback(config::Options<ErrorFeedbackOptions> options) : options_(std::move(options)) {}

  void claim(strategy::Claims& claims) const override {
    claims.exclusive(strategy::gradient_reduction_point(layout::Axis::dp));
    claims.shared("summed gradients on dp");
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Reduce>(options_->feedback); }
  std::vector<layout::Footprint> footprint(const strategy::Facts& facts) const override {
    if (!options_->feedback || facts.mesh.size({layout::Axis::dp, layout::Axis::ep}) == 1) return {};
    const auto ranks = facts.mesh.size({layout::Axis::dp, layout::Axis::ep});
    const auto elements = facts.trainable_parameters + facts.trainable_parameters / ranks;
    return {{"error_feedback state", elements * 4, facts.device, "always"}};
  }

 private:
  config::Options<ErrorFeedbackOptions> options_;
};

}  // namespace

CAPSTAN_STRATEGY("error_feedback", "1.0", "sums gradients in bfloat16 with error feedback", ErrorFeedback,
                 ErrorFeedbackOptions)
