#include "ring.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <optional>
#include <utility>

#include "columns.h"
#include "fused_tiles.h"

namespace context_parallel {

using namespace capstan;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// A tensor on its way to the next rank, and one on its way from the rank before.
class Rotation {
 public:
  Rotation(comm::Group& group, at::Tensor sent, at::Tensor received, const std::string& label)
      : sent_(std::move(sent)), received_(std::move(received)) {
    const int size = group.size(), next = (group.rank() + 1) % size, before = (group.rank() + size - 1) % size;
    // On CUDA a group's calls run one after the other: if all ranks sent first, each would wait for the next one.
    const bool sends_first = group.rank() % 2 == 0;
    if (sends_first) sending_ = group.start_send(sent_, next, label);
    receiving_ = group.start_receive(received_, before, label);
    if (!sends_first) sending_ = group.start_send(sent_, next, label);
  }
  /// Waits for both, once, and keeps neither.
  at::Tensor arrived() {
    receiving_->wait();
    sending_->wait();
    sent_.reset();
    return std::exchange(received_, {});
  }

 private:
  at::Tensor sent_;
  at::Tensor received_;
  std::unique_ptr<comm::Pending> sending_;
  std::unique_ptr<comm::Pending> receiving_;
};

// Where blocks are at each step: in step s a rank has that of the rank s places before it.
class Blocks {
 public:
  Blocks(const RingCall& call, const at::Tensor& queries)
      : call_(call),
        rank_(call.group->rank()),
        ranks_(static_cast<int>(call.columns.size())),
        longest_(has_fused_tiles(queries, call.rules) ? std::numeric_limits<std::int64_t>::max() : call.longest_tile) {
    CAPSTAN_ASSERT(ranks_ == call.group->size() && ranks_ > 1);
  }
  int count() const { return ranks_; }
  std::vector<Tile> tiles(int step) const {
    return visible_tiles(columns_of(rank_), columns_of(owner(step)), call_.rules.window, longest_);
  }
  /// Sends this step's block, or what belongs to it, and receives the next step's.
  void pass_on(std::optional<Rotation>& rotation, const at::Tensor& block, int step, const char* what) const {
    auto shape = block.sizes().vec();
    shape[3] = 0;
    for (const auto& range : columns_of(owner(step + 1))) shape[3] += range.length;
    rotation.emplace(*call_.group, block, at::empty(shape, block.options()), cat(what, call_.layer));
  }

 private:
  int owner(int step) const { return (rank_ + 2 * ranks_ - step) % ranks_; }
  const std::vector<nn::ColumnRange>& columns_of(int rank) const {
    return call_.columns[static_cast<std::size_t>(rank)];
  }
  const RingCall& call_;
  int rank_;
  int ranks_;
  std::int64_t longest_;  // columns of a tile
};

// [B, heads, S, dim] -> [B, key heads, group, S, dim].
at::Tensor grouped(const at::Tensor& heads, std::int64_t key_heads) {
  return heads.unflatten(1, {key_heads, heads.size(1) / key_heads});
}

/// Carries the call through an autograd context.
struct CallHolder : torch::CustomClassHolder {
  explicit CallHolder(RingCall c) : call(std::move(c)) {}
  RingCall call;
};

class RingFunction : public torch::autograd::Function<RingFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const RingCall& call) {
    const at::AutoDispatchBelowADInplaceOrView guard;  // no view that autograd follows: the result may be written to
    const auto queries = grouped(q, k.size(1));
    const Blocks blocks(call, queries);
    const auto seen = nothing_seen(queries);
    auto block = at::stack({k, v});
    std::optional<Rotation> next;
    for (int step = 0; step < blocks.count(); ++step) {
      const bool is_last = step + 1 == blocks.count();
      if (!is_last) blocks.pass_on(next, block, step, "ring k v cp ");
      attend(seen, queries, block, blocks.tiles(step), call.rules);
      if (!is_last) block = next->arrived();
    }
    auto out = seen.out.to(q.scalar_type()).flatten(1, 2);
    ctx->saved_data["call"] = c10::IValue::make_capsule(c10::make_intrusive<CallHolder>(call));
    ctx->save_for_backward({q, k, v, out, seen.log_of_weights});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto holder = ctx->saved_data["call"].toCapsule();
    const auto& call = static_cast<const CallHolder*>(holder.get())->call;
    const auto saved = ctx->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3];
    const auto type = statistics_type(q);
    const auto queries = grouped(q, k.size(1)), of_out = grouped(gradients[0], k.size(1));
    const auto all = grouped(out, k.size(1));
    const auto mean = (of_out.to(type) * all).sum(-1, /*keepdim=*/true);
    const QueryGradients of{of_out, all, saved[4], mean, at::zeros(queries.sizes(), queries.options().dtype(type))};
    const Blocks blocks(call, queries);
    auto block = at::stack({k, v});
    std::optional<Rotation> next, home;
    for (int step = 0; step < blocks.count(); ++step) {
      const bool is_last = step + 1 == blocks.count();
      if (!is_last) blocks.pass_on(next, block, step, "ring k v again cp ");
      const auto of_block = at::zeros(block.sizes(), block.options().dtype(type));
      add_gradients(of, of_block, queries, block, blocks.tiles(step), call.rules);
      if (home) of_block.add_(home->arrived());  // what the ranks before gave it; it travelled meanwhile
      blocks.pass_on(home, of_block, step, "ring gradients of k v cp ");
      if (!is_last) block = next->arrived();
    }
    const auto of_own = home->arrived().to(q.scalar_type());
    return {of.of_queries.to(q.scalar_type()).flatten(1, 2), of_own.select(0, 0), of_own.select(0, 1), {}};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RingCall& call) {
  CAPSTAN_ASSERT(q.size(1) % k.size(1) == 0 && k.sizes() == v.sizes());
  return RingFunction::apply(q, k, v, call);
}

Ring::Ring(std::shared_ptr<comm::Group> group, std::string layer)
    : group_(std::move(group)), layer_(std::move(layer)) {}

RingCall Ring::call(const nn::AttentionCall& attention) const {
  const auto& whole = *attention.batch->part->whole;
  RingCall call{group_, layer_, {}, {}};
  for (int rank = 0; rank < group_->size(); ++rank)
    call.columns.push_back(own_columns(whole.tokens.size(1), group_->size(), rank));
  auto& rules = call.rules;
  rules.scale = attention.scale();
  rules.window = attention.spec->window;
  rules.slopes = attention.slopes;
  if (rules.slopes.defined()) rules.positions = whole.positions;
  if (whole.documents) {
    auto all = whole;
    all.loss_rows =
        at::Tensor();  // of all positions; padding, which no token before it sees, is said to be the first's
    rules.sequences = all.label_sequences().view_as(all.tokens);
  }
  return call;
}

nn::AttentionRow Ring::row() const {
  const auto takes = [](const nn::AttentionCall& call) -> nn::Verdict {
    if (!call.batch->part) return nn::WhyNot{"columns that ranks share", false};
    return {};
  };
  const auto run = [ring = *this](const nn::AttentionCall& call) -> nn::AttentionResult {
    return {ring_attention(call.q, call.k, call.v, ring.call(call))};
  };
  using enum nn::AttentionFeature;
  nn::AttentionRow row{"ring", {window, linear_biases}, takes, run};
  row.is_wrapped = false;  // each tile's result would be kept
  return row;
}

}  // namespace context_parallel
