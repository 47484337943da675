#include <capstan/nn/experts.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/swiglu.h>

#include <utility>

namespace capstan::nn {
namespace {

at::ScalarType wide(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace

Router::Router(Linear gate, std::int64_t experts_per_token)
    : gate_(std::move(gate)), experts_per_token_(experts_per_token) {}

at::Tensor Router::probabilities(const at::Tensor& x) const { return at::softmax(gate_.forward(x), -1, wide(x)); }

Routing Router::forward(const at::Tensor& x) const {
  auto [weights, experts] = probabilities(x).topk(experts_per_token_, -1);
  weights = weights / weights.sum(-1, /*keepdim=*/true);
  return {experts, weights.to(x.scalar_type())};
}

std::vector<at::Tensor> Router::no_load(const at::Tensor& like) const {
  const auto experts = gate_.weight()->value().size(0);
  const auto options = like.options().dtype(wide(like));
  return {at::zeros({experts}, options), at::zeros({experts}, options), at::zeros({}, options)};
}

void Router::add_load(std::vector<at::Tensor>& load, const at::Tensor& x, const Batch& batch) const {
  auto probability = probabilities(x);
  auto counted = at::ones({x.size(0), 1}, probability.options());
  if (batch.real.defined()) {
    const auto real = own_positions ? own_positions(batch.real) : batch.real;
    counted = real.reshape({-1, 1}).to(counted.scalar_type());
  }
  const auto chosen = std::get<1>(probability.detach().topk(experts_per_token_, -1));
  const auto choices = at::zeros_like(probability.detach()).scatter_(1, chosen, 1.0);
  load[0] = load[0] + (choices * counted).sum(0);
  load[1] = load[1] + (probability * counted).sum(0);
  load[2] = load[2] + counted.sum();
}

at::Tensor balancing_loss(const std::vector<at::Tensor>& load) {
  const auto experts = static_cast<double>(load[0].size(0));
  return (load[0] * load[1]).sum() * experts / load[2].square().clamp_min(1);
}

at::Tensor LoadBalance::loss(const std::vector<at::Tensor>& load) const {
  if (!over_positions) return balancing_loss(load);
  const auto experts = load[0].size(0);
  const auto all = over_positions(at::cat({load[0], load[1], load[2].view({1})}));
  return balancing_loss({all.narrow(0, 0, experts), all.narrow(0, experts, experts), all[2 * experts]});
}

Experts::Experts(std::string name, WeightPtr gate_up, WeightPtr down)
    : name_(std::move(name)), gate_up_(std::move(gate_up)), down_(std::move(down)) {}

at::Tensor Experts::compute(const at::Tensor& rows, const at::Tensor& counts) const {
  const auto ends = counts.cumsum(0).to(at::kInt);
  auto gate_up = ops::grouped_linear(rows, gate_up_->value().flatten(1, 2), ends);
  if (gate_up_adapter) gate_up = gate_up_adapter(rows, gate_up, ends);
  const auto inner = ops::swiglu(gate_up);
  auto result = ops::grouped_linear(inner, down_->value(), ends);
  return down_adapter ? down_adapter(inner, result, ends) : result;
}

at::Tensor Experts::forward(const at::Tensor& x, const Routing& routing) const {
  const auto input = before ? before(x) : x;
  const auto weights = before_weights ? before_weights(routing.weights) : routing.weights;
  const auto copies = routing.experts.size(1);
  const auto expert = routing.experts.flatten();
  const auto order = at::argsort(expert, /*stable=*/true);
  const auto back = at::empty_like(order).scatter_(0, order, at::arange(order.numel(), order.options()));
  auto experts = gate_up_->records().front().shape.front();
  const auto counts = at::zeros({experts}, expert.options()).scatter_add_(0, expert, at::ones_like(expert));
  const auto rows = ops::permute_rows(input, order, back, copies);
  const Body body = [this](const at::Tensor& own, const at::Tensor& own_counts) { return compute(own, own_counts); };
  const auto results = exchange ? exchange(body, rows, counts) : body(rows, counts);
  const auto sorted_back = ops::permute_rows(results, back, order).view({x.size(0), copies, -1});
  const auto y = (sorted_back * weights.unsqueeze(-1)).sum(1);
  return after ? after(y) : y;
}

}  // namespace capstan::nn
