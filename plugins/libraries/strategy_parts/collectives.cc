#include <capstan/base/error.h>
#include <capstan/strategy_parts/collectives.h>

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace capstan::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Bound = std::shared_ptr<const BoundGroup>;

// The plain collectives along a dimension, uneven pieces included.

std::int64_t piece_length(std::int64_t full, int size) { return (full + size - 1) / size; }

/// x with dimension 0 filled up with zeros to `rows`, contiguous.
at::Tensor padded(const at::Tensor& x, std::int64_t rows) {
  if (x.size(0) == rows) return x.contiguous();
  auto shape = x.sizes().vec();
  shape[0] = rows;
  at::Tensor out = at::zeros(shape, x.options());
  out.narrow(0, 0, x.size(0)).copy_(x);
  return out;
}

/// A tensor like `rows`, with another number of them.
at::Tensor room(const at::Tensor& rows, std::int64_t count) {
  auto shape = rows.sizes().vec();
  shape[0] = count;
  return at::empty(shape, rows.options());
}

/// The first `length` rows as dimension `dim` again.
at::Tensor in_place(const at::Tensor& rows, std::int64_t length, std::int64_t dim) {
  return rows.narrow(0, 0, length).movedim(0, dim).contiguous();
}

/// A fresh tensor with the sum over ranks.
at::Tensor sum_over(comm::Group& group, const at::Tensor& x, std::string_view label) {
  at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(out, comm::ReduceOp::sum, label);
  return out;
}

/// This rank's piece of `dim`, a copy.
at::Tensor cut(const comm::Group& group, const at::Tensor& x, std::int64_t dim) {
  const ShardRange piece = piece_of(x.size(dim), group.size(), group.rank());
  return x.narrow(dim, piece.begin, piece.length).clone(at::MemoryFormat::Contiguous);
}

/// The pieces of `dim`, `full` elements in all, concatenated.
// Every piece but the last ones is full, so all padding of the gathered pieces comes after `full`.
at::Tensor gather(comm::Group& group, const at::Tensor& x, std::int64_t dim, std::int64_t full,
                  std::string_view label) {
  CAPSTAN_ASSERT(x.size(dim) == piece_of(full, group.size(), group.rank()).length);
  const at::Tensor mine = padded(x.movedim(dim, 0), piece_length(full, group.size()));
  const at::Tensor all = room(mine, mine.size(0) * group.size());
  group.all_gather(all, mine, label);
  return in_place(all, full, dim);
}

/// This rank's piece of `dim` of the sum over ranks.
at::Tensor reduce_pieces(comm::Group& group, const at::Tensor& x, std::int64_t dim, std::string_view label) {
  const std::int64_t length = piece_length(x.size(dim), group.size());
  const at::Tensor all = padded(x.movedim(dim, 0), length * group.size());
  const at::Tensor mine = room(all, length);
  group.reduce_scatter(mine, all, label);
  return in_place(mine, piece_of(x.size(dim), group.size(), group.rank()).length, dim);
}

/// Carries the group through an autograd context.
struct BoundHolder : torch::CustomClassHolder {
  explicit BoundHolder(Bound b) : bound(std::move(b)) {}
  Bound bound;
};

void keep(AutogradContext* ctx, const Bound& bound) {
  ctx->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<BoundHolder>(bound));
}

Bound kept(AutogradContext* ctx) {
  const auto holder = ctx->saved_data["group"].toCapsule();
  return static_cast<const BoundHolder*>(holder.get())->bound;
}

class CopyFunction : public Function<CopyFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound) {
    keep(ctx, bound);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    return {sum_over(*bound->group, gradients[0], bound->backward_label), {}};
  }
};

class ReduceFunction : public Function<ReduceFunction> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const Bound& bound) {
    return sum_over(*bound->group, x, bound->forward_label);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) { return {gradients[0], {}}; }
};

class GatherFunction : public Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound, std::int64_t dim,
                            std::int64_t full, GatheredGradient gradient) {
    keep(ctx, bound);
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["sum"] = gradient == GatheredGradient::part;
    return gather(*bound->group, x, dim, full, bound->forward_label);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    const std::int64_t dim = ctx->saved_data["dim"].toInt();
    const bool sum = ctx->saved_data["sum"].toBool();
    return {sum ? reduce_pieces(*bound->group, gradients[0], dim, bound->backward_label)
                : cut(*bound->group, gradients[0], dim),
            {},
            {},
            {},
            {}};
  }
};

class ScatterFunction : public Function<ScatterFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound, std::int64_t dim,
                            ScatteredValue value) {
    keep(ctx, bound);
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["full"] = x.size(dim);
    return value == ScatteredValue::part ? reduce_pieces(*bound->group, x, dim, bound->forward_label)
                                         : cut(*bound->group, x, dim);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    return {gather(*bound->group, gradients[0], ctx->saved_data["dim"].toInt(), ctx->saved_data["full"].toInt(),
                   bound->backward_label),
            {},
            {},
            {}};
  }
};

using Counts = std::vector<std::int64_t>;

at::Tensor exchange(comm::Group& group, const at::Tensor& x, const Counts& sent, const Counts& received,
                    std::string_view label) {
  at::Tensor out = room(x, std::accumulate(received.begin(), received.end(), std::int64_t{0}));
  group.all_to_all(out, x.contiguous(), received, sent, label);
  return out;
}

class AllToAllFunction : public Function<AllToAllFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound, const Counts& sent,
                            const Counts& received) {
    keep(ctx, bound);
    ctx->saved_data["sent"] = sent;
    ctx->saved_data["received"] = received;
    return exchange(*bound->group, x, sent, received, bound->forward_label);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    const auto counts = [&](const char* name) { return ctx->saved_data[name].toIntVector(); };
    return {
        exchange(*bound->group, gradients[0], counts("received"), counts("sent"), bound->backward_label), {}, {}, {}};
  }
};

}  // namespace

ShardRange piece_of(std::int64_t full, int size, int rank) {
  const std::int64_t length = piece_length(full, size);
  const std::int64_t begin = std::min(full, rank * length);
  return {begin, std::min(length, full - begin)};
}

OnGroup::OnGroup(std::shared_ptr<comm::Group> group, const std::string& label)
    : bound_(std::make_shared<const BoundGroup>(BoundGroup{std::move(group), label, label + ", backward"})) {
  CAPSTAN_ASSERT(bound_->group != nullptr);
}

at::Tensor CopyToGroup::operator()(const at::Tensor& x) const {
  return bound_->group->size() == 1 ? x : CopyFunction::apply(x, bound_);
}

at::Tensor ReduceFromGroup::operator()(const at::Tensor& x) const {
  return bound_->group->size() == 1 ? x : ReduceFunction::apply(x, bound_);
}

GatherFromGroup::GatherFromGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, GatheredGradient gradient,
                                 const std::string& label)
    : OnGroup(std::move(group), label), dim_(dim), gradient_(gradient) {}

at::Tensor GatherFromGroup::operator()(const at::Tensor& x, std::int64_t full) const {
  return bound_->group->size() == 1 ? x : GatherFunction::apply(x, bound_, dim_, full, gradient_);
}

ScatterToGroup::ScatterToGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, ScatteredValue value,
                               const std::string& label)
    : OnGroup(std::move(group), label), dim_(dim), value_(value) {}

at::Tensor ScatterToGroup::operator()(const at::Tensor& x) const {
  return bound_->group->size() == 1 ? x : ScatterFunction::apply(x, bound_, dim_, value_);
}

at::Tensor AllToAllRows::operator()(const at::Tensor& x, const Counts& sent, const Counts& received) const {
  return bound_->group->size() == 1 ? x : AllToAllFunction::apply(x, bound_, sent, received);
}

}  // namespace capstan::ops
