#include <capstan/base/error.h>
#include <capstan/base/philox.h>
#include <capstan/base/text.h>
#include <capstan/ops/random.h>

#include "ops/make_box.h"
#include "ops/operator.h"
#include "ops/parallel.h"
#include "ops/philox_bits.h"

namespace capstan::ops {
namespace {

/// Which stream of words a row of x reads, and where.
struct RowMask {
  kernels::DropoutRule rule;
  std::int64_t step;
  std::int64_t sample;
};

template <class T>
void drop_run(T* out, const T* x, std::int64_t index, std::int64_t length, const RowMask& mask) {
  using Product = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto scale = static_cast<Product>(mask.rule.scale);
  PhiloxBlock words{};
  for (std::int64_t i = 0; i < length; ++i, ++index) {
    const auto lane = index % kernels::dropout_lanes;
    if (i == 0 || lane == 0) {
      words = kernels::dropout_words(mask.rule.key, mask.step, mask.sample, index / kernels::dropout_lanes);
    }
    const bool kept = words.word[lane] >= mask.rule.threshold;
    out[i] = kept ? static_cast<T>(static_cast<Product>(x[i]) * scale) : static_cast<T>(0);
  }
}

at::Tensor dropout_cpu(const at::Tensor& x, double p, std::int64_t key, std::int64_t step, const Maybe& device_step,
                       const at::Tensor& sample_ids, at::IntArrayRef row_shape, at::IntArrayRef row_offset) {
  const at::Tensor in = x.contiguous();
  const at::Tensor ids = sample_ids.contiguous();
  at::Tensor out = at::empty_like(in);
  if (in.numel() == 0) return out;
  const kernels::BoxIndex box = make_box(in.sizes().slice(1), row_shape, row_offset);
  const std::int64_t row = in.numel() / in.size(0);
  const std::int64_t now = device_step ? device_step->item<std::int64_t>() : step;
  const kernels::DropoutRule rule = dropout_rule(p, key);
  const auto* samples = ids.const_data_ptr<std::int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, in.scalar_type(), "dropout", [&] {
    const auto* from = in.const_data_ptr<scalar_t>();
    auto* to = out.data_ptr<scalar_t>();
    parallel_ranges(in.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin / row; b * row < end; ++b) {
        const std::int64_t start = std::max(begin - b * row, std::int64_t{0}), stop = std::min(end - b * row, row);
        const RowMask mask{rule, now, samples[b]};
        box.for_each_run(start, stop, [&](std::int64_t local, std::int64_t logical, std::int64_t length) {
          drop_run(to + b * row + local, from + b * row + local, logical, length, mask);
        });
      }
    });
  });
  return out;
}

at::Tensor dropout_meta(const at::Tensor& x, double, std::int64_t, std::int64_t, const Maybe&, const at::Tensor&,
                        at::IntArrayRef, at::IntArrayRef) {
  return room_for(x);
}

/// Carries a DropoutKey through an autograd context.
struct KeyHolder : torch::CustomClassHolder {
  explicit KeyHolder(DropoutKey k) : key(std::move(k)) {}
  DropoutKey key;
};

class DropoutFunction : public Function<DropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, double p, const DropoutKey& key) {
    ctx->saved_data["p"] = p;
    ctx->saved_data["key"] = c10::IValue::make_capsule(c10::make_intrusive<KeyHolder>(key));
    static const auto op = find_operator<decltype(dropout_cpu)>("capstan::dropout");
    const auto bits = key_bits(make_key(key.seed, RandomPurpose::dropout, key.site));
    const auto row = x.sizes().slice(1);
    const std::vector<std::int64_t> origin(row.size(), 0);
    return op.call(x, p, bits, key.step, maybe(key.device_step), key.sample_ids,
                   key.row_shape.empty() ? row : key.row_shape, key.row_offset.empty() ? origin : key.row_offset);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto holder = ctx->saved_data["key"].toCapsule();
    const DropoutKey& key = static_cast<const KeyHolder*>(holder.get())->key;
    return {dropout(gradients[0], ctx->saved_data["p"].toDouble(), key), at::Tensor(), at::Tensor()};
  }
};

void check(const at::Tensor& x, double p, const DropoutKey& key) {
  if (!(p >= 0 && p < 1)) {
    throw Error(cat("a dropout probability of ", number_text(p), " is out of range"), "give one from 0 to below 1");
  }
  CAPSTAN_ASSERT(x.dim() >= 1 && key.sample_ids.defined());
  CAPSTAN_ASSERT(key.sample_ids.dim() == 1 && key.sample_ids.size(0) == x.size(0));
  CAPSTAN_ASSERT(key.sample_ids.scalar_type() == at::kLong && key.sample_ids.device() == x.device());
  CAPSTAN_ASSERT(!key.device_step.defined() ||
                 (key.device_step.scalar_type() == at::kLong && key.device_step.numel() == 1));
  CAPSTAN_ASSERT(key.row_shape.empty() == key.row_offset.empty());
  const auto row = key.row_shape.empty() ? x.sizes().slice(1) : at::IntArrayRef(key.row_shape);
  CAPSTAN_ASSERT(c10::multiply_integers(row) <= std::int64_t{kernels::dropout_lanes} << 32);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m,
         "dropout(Tensor x, float p, int key, int step, Tensor? device_step, Tensor sample_ids, int[] row_shape, int[] "
         "row_offset) -> Tensor",
         &dropout_cpu, &dropout_meta);
}

at::Tensor dropout(const at::Tensor& x, double p, const DropoutKey& key) {
  check(x, p, key);
  return p == 0 || x.numel() == 0 ? x : DropoutFunction::apply(x, p, key);
}

}  // namespace capstan::ops
