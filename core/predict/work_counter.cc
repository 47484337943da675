#include "predict/work_counter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/call_watch.h"

namespace capstan::predict {
namespace {

// How an operator's work follows from its tensors.
enum class Rule {
  nothing,       ///< views, empty tensors, what only looks at shapes
  traffic,       ///< reads its inputs, writes its outputs
  overwrite,     ///< the same; the tensor that it changes is not read
  rows,          ///< reads and writes as many rows as its output has
  product,       ///< multiplies the first two tensors
  added_product  ///< multiplies the second and third tensors, and adds the first
};

Rule rule_by_name(std::string_view name) {
  static const std::vector<std::pair<Rule, std::set<std::string_view>>> rules{
      {Rule::product,
       {"aten::mm", "aten::bmm", "aten::_grouped_mm", "aten::_scaled_mm", "aten::_scaled_mm_v2",
        "aten::_scaled_grouped_mm"}},
      {Rule::added_product, {"aten::addmm", "aten::addmm_", "aten::baddbmm"}},
      {Rule::overwrite, {"aten::copy_", "aten::fill_", "aten::zero_"}},
      {Rule::rows, {"aten::embedding", "aten::index_select", "aten::gather"}}};
  for (const auto* none : {"aten::empty", "aten::new_empty", "aten::resize", "aten::set_", "aten::detach",
                           "aten::requires_grad_", "aten::is_", "aten::_version", "aten::_has_"}) {
    if (name.starts_with(none)) return Rule::nothing;
  }
  for (const auto& [rule, names] : rules) {
    if (names.contains(name)) return rule;
  }
  return Rule::traffic;
}

// What a schema says of an operator.
struct OperatorKind {
  Rule rule = Rule::traffic;
  std::vector<bool> writes;  ///< by argument
  bool returns_new = false;  ///< tensors that are no argument's memory
};

OperatorKind kind_of(const c10::FunctionSchema& schema) {
  OperatorKind kind;
  kind.rule = rule_by_name(schema.name());
  bool changes = false;
  for (const auto& argument : schema.arguments()) {
    kind.writes.push_back(argument.alias_info() && argument.alias_info()->isWrite());
    changes = changes || kind.writes.back();
  }
  for (const auto& result : schema.returns()) kind.returns_new = kind.returns_new || !result.alias_info();
  if (!kind.returns_new && !changes) kind.rule = Rule::nothing;  // a view
  return kind;
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_meta() || !tensor.has_storage()) return 0;  // sparse ones are made of others
  const auto shown = tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
  return std::min<std::int64_t>(shown, static_cast<std::int64_t>(tensor.storage().nbytes()));  // expanded ones
}

std::int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  if (!value.isTensorList()) return 0;
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  return bytes;
}

// The n-th tensor among the arguments.
at::Tensor tensor_at(at::ArrayRef<c10::IValue> inputs, std::size_t n) {
  for (const auto& input : inputs) {
    if (input.isTensor() && n-- == 0) return input.toTensor();
  }
  return {};
}

// The groups of rows of a grouped product, which each meet a matrix of their own. Where both factors are rows, of whose
// groups each makes a matrix, all of these are whole.
std::int64_t groups_of(const at::Tensor& matrices) { return matrices.dim() == 3 ? matrices.size(0) : 1; }

// An operator between its call and its return.
struct Call {
  Rule rule = Rule::nothing;
  std::int64_t bytes = 0;  ///< bytes of inputs
  bool returns_new = false;
  std::int64_t kernels_before = 0;
  plan::Product product = {};
  bool multiplies = false;
};

}  // namespace

class WorkCounter::Counter : public ops::CallWatch {
 public:
  plan::Work work;
  static thread_local Counter* current;

  void called(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>& stack) override;

  Call begin(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> inputs) {
    const auto& kind = kind_for(schema);
    Call call;
    call.rule = kind.rule;
    call.kernels_before = work.kernels;
    if (kind.rule == Rule::nothing) return call;
    const bool rereads = kind.rule == Rule::traffic;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      call.bytes += (rereads && kind.writes[i] ? 2 : 1) * bytes_of(inputs[i]);
    call.returns_new = kind.returns_new;
    if (kind.rule == Rule::product) multiply(call, tensor_at(inputs, 0), tensor_at(inputs, 1));
    if (schema.name() == "aten::_grouped_mm" || schema.name() == "aten::_scaled_grouped_mm")
      call.product.groups = groups_of(tensor_at(inputs, 1));
    call.product.in_blocks = schema.name() == "aten::_scaled_mm_v2";
    if (kind.rule == Rule::added_product) multiply(call, tensor_at(inputs, 1), tensor_at(inputs, 2));
    return call;
  }

  void end(const Call& call, at::ArrayRef<c10::IValue> outputs) {
    if (call.rule == Rule::nothing) return;
    if (work.kernels != call.kernels_before) return;  // its parts have been counted
    std::int64_t written = 0;
    if (call.returns_new) {
      for (const auto& output : outputs) written += bytes_of(output);
    }
    if (call.multiplies) {
      auto product = call.product;
      product.bytes = call.bytes + written;
      ++work.products[product];
    } else if (call.bytes + written > 0) {
      work.bytes += static_cast<double>(call.rule == Rule::rows ? 2 * written : call.bytes + written);
    } else {
      return;
    }
    ++work.kernels;
  }

 private:
  static void multiply(Call& call, const at::Tensor& a, const at::Tensor& b) {
    if (!a.defined() || !b.defined() || !a.is_meta() || a.numel() == 0 || b.numel() == 0) return;
    // Rows in groups, and those of a batch, meet one matrix each: together as many rows as there are, in one launch.
    const auto batch = a.dim() == 3 && b.dim() == 3 ? a.size(0) : 1;
    call.product = {batch * a.size(-2), b.size(-1), a.size(-1)};
    call.product.eight_bits = a.element_size() == 1;
    call.product.single = a.element_size() >= 4;
    call.multiplies = true;
  }

  const OperatorKind& kind_for(const c10::FunctionSchema& schema) {
    const auto key = schema.name() + "." + schema.overload_name();
    const auto found = kinds_.find(key);
    if (found != kinds_.end()) return found->second;
    return kinds_.emplace(key, kind_of(schema)).first->second;
  }

  std::unordered_map<std::string, OperatorKind> kinds_;
};

thread_local WorkCounter::Counter* WorkCounter::Counter::current = nullptr;

// RecordFunction, which is made for this, has another layout in LibTorch's release build than in code that is built
// without NDEBUG.
void WorkCounter::Counter::called(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                  std::vector<c10::IValue>& stack) {
  const auto& schema = op.schema();
  const auto last = [&](std::size_t n) { return at::ArrayRef<c10::IValue>(stack.data() + stack.size() - n, n); };
  const auto call = begin(schema, last(schema.arguments().size()));
  pass(op, keys, stack);
  end(call, last(schema.returns().size()));
}

WorkCounter::WorkCounter() : counter_(std::make_unique<Counter>()) { Counter::current = counter_.get(); }

WorkCounter::~WorkCounter() { Counter::current = nullptr; }

plan::Work& WorkCounter::work() const { return counter_->work; }

void WorkCounter::attend(const plan::AttentionShape& shape, bool is_backward) {
  auto* counter = Counter::current;
  if (!counter) return;
  ++(is_backward ? counter->work.attention_backward : counter->work.attention)[shape];
  ++counter->work.kernels;
}

}  // namespace capstan::predict
