#pragma once
// Adafactor (Shazeer & Stern 2018) with a learning rate of its user's, as transformers' with scale_parameter and
// without relative_step: a matrix's second moments are kept as averages of its rows and of its columns, and an update
// is as large as the parameter. Both need sums over a whole record, which no rank may have.
#include <ATen/ATen.h>
#include <capstan/matrix_rules/summing_rule.h>
#include <capstan/optimizer.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace adafactor {

using namespace capstan;
using matrix_rules::Kept;
using matrix_rules::SummedSlice;

struct AdafactorOptions {
  double decay_rate = 0.8;
  double clip_threshold = 1;
  double eps = 1e-30;
  double least_scale = 1e-3;
  static void describe(config::OptionTable<AdafactorOptions>& t) {
    t.add("decay_rate", &AdafactorOptions::decay_rate).above(0).max(1).doc("averages keep 1 - step^-decay_rate");
    t.add("clip_threshold", &AdafactorOptions::clip_threshold).above(0).doc("an update's largest root mean square");
    t.add("eps", &AdafactorOptions::eps).above(0).doc("added to a gradient's squares");
    t.add("least_scale", &AdafactorOptions::least_scale)
        .above(0)
        .doc("the learning rate is multiplied by a parameter's root mean square, but by this at least");
  }
};

class Adafactor : public matrix_rules::SummingRule {
 public:
  explicit Adafactor(config::Options<AdafactorOptions> options) : options_(std::move(options)) {}

  std::vector<optimizer::StateSpec> states(const layout::Param& record) const override {
    return is_matrix(record) ? std::vector<optimizer::StateSpec>{} : std::vector<optimizer::StateSpec>{{"exp_avg_sq"}};
  }
  std::vector<matrix_rules::RecordState> record_states(const layout::Param& record) const override {
    if (!is_matrix(record)) return {};
    return {{"exp_avg_sq_row", rows(record)}, {"exp_avg_sq_col", columns(record)}};
  }
  std::int64_t working_copies() const override { return 4; }
  // First the parameter's squares and those of its gradient, by rows and columns; then those of the update that they
  // make.
  std::vector<std::vector<Kept>> sums(const layout::Param& record) const override {
    if (!is_matrix(record)) return {{Kept{}}, {Kept{}}};
    return {{Kept{}, rows(record), columns(record)}, {Kept{}}};
  }
  std::vector<at::Tensor> terms(std::size_t pass, const SummedSlice& slice,
                                const optimizer::Update& update) const override {
    if (pass == 1) return {direction(slice, update).square()};
    std::vector<at::Tensor> terms{slice.master.square()};
    if (is_matrix(*slice.record)) terms.insert(terms.end(), 2, squares(slice, update));
    return terms;
  }
  void summed(std::size_t pass, SummedSlice& slice, const optimizer::Update& update) override {
    if (pass == 1) return;
    const auto share =
        (update.count.clamp_min(1).pow(-options_->decay_rate) * (1 - update.skip)).to(slice.master.scalar_type());
    if (!is_matrix(*slice.record)) {
      slice.state[0].lerp_(squares(slice, update), share);
      return;
    }
    const auto& shape = slice.record->shape;
    for (std::size_t i = 0; i < 2; ++i) {
      auto& average = slice.record_state[i];
      average.lerp_(slice.sums[0][1 + i] / shape[shape.size() - 1 - i], share.to(average.scalar_type()));
    }
  }
  void finish(SummedSlice& slice, const optimizer::Update& update) override {
    const auto elements = static_cast<double>(slice.record->numel());
    const auto parameter = (slice.sums[0][0] / elements).sqrt(), size = (slice.sums[1][0] / elements).sqrt();
    const auto rate = slice.lr * parameter.clamp_min(options_->least_scale);
    auto next = slice.master - slice.master * (rate * slice.weight_decay).to(slice.master.scalar_type());
    next.sub_(direction(slice, update) * (rate / (size / options_->clip_threshold).clamp_min(1)));
    slice.master.copy_(at::where(update.skip.ne(0), slice.master, next));
  }

 private:
  static bool is_matrix(const layout::Param& record) { return record.shape.size() > 1; }
  // The last two dimensions are a matrix: a sum keeps one of them, and those that count matrices.
  static Kept kept(std::size_t matrices, std::size_t dim) {
    Kept keeps;
    for (std::size_t d = 0; d < matrices; ++d) keeps.push_back(d);
    keeps.push_back(dim);
    return keeps;
  }
  static Kept rows(const layout::Param& record) { return kept(record.shape.size() - 2, record.shape.size() - 2); }
  static Kept columns(const layout::Param& record) { return kept(record.shape.size() - 2, record.shape.size() - 1); }

  static at::Tensor gradient(const SummedSlice& slice, const optimizer::Update& update) {
    return at::nan_to_num(slice.grad / update.grad_scale, 0.0, 0.0, 0.0);
  }
  at::Tensor squares(const SummedSlice& slice, const optimizer::Update& update) const {
    return gradient(slice, update).square_().add_(options_->eps);
  }
  at::Tensor direction(const SummedSlice& slice, const optimizer::Update& update) const {
    auto step = gradient(slice, update);
    if (!is_matrix(*slice.record)) return step.div_(slice.state[0].sqrt());
    const auto& row = slice.record_state[0];
    const auto by_row = (row / row.mean(-1, /*keepdim=*/true)).rsqrt(), by_column = slice.record_state[1].rsqrt();
    auto matrices = step.view(slice.box.size);
    matrices.mul_(slice.here(by_row, rows(*slice.record))).mul_(slice.here(by_column, columns(*slice.record)));
    return step;
  }

  config::Options<AdafactorOptions> options_;
};

}  // namespace adafactor
