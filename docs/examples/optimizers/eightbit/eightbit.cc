// Adam whose moments are stored in 8 bits: blocks of 256 elements share a scale, and a code is the cube root of an
// element's part of it, so that small numbers have finer steps.
#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>
#include <capstan/optimizer.h>

#include <memory>
#include <vector>

namespace {

using namespace capstan;

constexpr std::int64_t block = 256;

struct EightbitOptions {
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  std::int64_t smallest = 4096;
  static void describe(config::OptionTable<EightbitOptions>& t) {
    t.add("betas", &EightbitOptions::betas).doc("the moments' shares of what they were");
    t.add("eps", &EightbitOptions::eps).above(0).doc("added to the root of the second moment");
    t.add("smallest", &EightbitOptions::smallest).min(1).doc("records with fewer elements are AdamW's");
  }
};

at::Tensor in_blocks(const at::Tensor& x) {
  return at::constant_pad_nd(x, {0, (block - x.numel() % block) % block}).view({-1, block});
}

at::Tensor decoded(const at::Tensor& codes, const at::Tensor& scales) {
  const auto parts = in_blocks(codes.to(at::kFloat)) / 127;
  return (parts.pow(3) * scales.unsqueeze(1)).flatten().narrow(0, 0, codes.numel());
}

// Writes nothing where `skip` is 1.
void encode(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& skip) {
  const auto blocks = in_blocks(values), largest = blocks.abs().amax(1);
  const auto parts = blocks / largest.clamp_min(1e-30).unsqueeze(1);
  const auto found = (parts.sign() * parts.abs().pow(1.0 / 3) * 127).round().flatten().narrow(0, 0, codes.numel());
  scales.copy_(at::where(skip.gt(0), scales, largest));
  codes.copy_(at::where(skip.gt(0), codes, found.to(at::kChar)));
}

class Eightbit : public optimizer::Rule {
 public:
  explicit Eightbit(config::Options<EightbitOptions> options)
      : options_(std::move(options)),
        plain_(optimizer::adamw({{options_->betas.at(0), options_->betas.at(1)}, options_->eps})) {}

  // Norms, embeddings and small records are AdamW's.
  std::vector<optimizer::StateSpec> states(const layout::Param& record) const override {
    if (!record.decay || record.usage == layout::Usage::table || record.numel() < options_->smallest)
      return plain_->states(record);
    return {{"m", at::kChar}, {"m_scale", at::kFloat, block}, {"v", at::kChar}, {"v_scale", at::kFloat, block}};
  }
  optimizer::Grain grain() const override { return optimizer::Grain::record; }

  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    std::vector<optimizer::Slice> others;
    for (auto& slice : slices) {
      if (slice.state.size() == 4) {
        step(slice, update);
      } else {
        others.push_back(slice);
      }
    }
    plain_->apply(others, update);
  }

  std::vector<at::Tensor> unpacked(const layout::Param& /*record*/,
                                   const std::vector<at::Tensor>& state) const override {
    return {decoded(state[0], state[1]), decoded(state[2], state[3])};
  }
  void pack(const layout::Param& /*record*/, const std::vector<at::Tensor>& values,
            const std::vector<at::Tensor>& state) const override {
    encode(values[0], state[0], state[1], at::zeros({}));
    encode(values[1], state[2], state[3], at::zeros({}));
  }

 private:
  void step(optimizer::Slice& slice, const optimizer::Update& update) const {
    const double b1 = options_->betas[0], b2 = options_->betas[1];
    const auto grad = at::nan_to_num(slice.grad.to(at::kFloat) / update.grad_scale, 0.0, 0.0, 0.0);
    const auto m = decoded(slice.state[0], slice.state[1]) * b1 + grad * (1 - b1);
    const auto v = decoded(slice.state[2], slice.state[3]) * b2 + grad.square() * (1 - b2);
    const auto root = (v / (1 - at::pow(b2, update.count))).sqrt() + options_->eps;
    const auto move = m / (1 - at::pow(b1, update.count)) / root + slice.weight_decay * slice.master;
    slice.master.sub_(move * slice.lr * (1 - update.skip));
    encode(m, slice.state[0], slice.state[1], update.skip);
    encode(v, slice.state[2], slice.state[3], update.skip);
  }

  config::Options<EightbitOptions> options_;
  std::unique_ptr<optimizer::Rule> plain_;
};

}  // namespace

CAPSTAN_OPTIMIZER("eightbit", "0.1.0", "Adam with moments in 8 bits", Eightbit, EightbitOptions)
