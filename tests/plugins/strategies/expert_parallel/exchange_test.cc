// The exchange against experts that are all on one rank: any routing, any number of rows, the same calls on all ranks.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/comm/communicator.h>
#include <capstan/strategy/recompute.h>
#include <capstan/strategy_parts/collectives.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <numeric>

#include "nn/weights.h"
#include "peers/call_log.h"
#include "plugins/strategies/expert_parallel/exchange.h"

namespace exchange_test {

using namespace capstan;
using expert_parallel::Exchange;
using testing::difference;
using testing::numbers;

namespace {

constexpr std::int64_t hidden = 6, ff = 5, count = 4, chosen = 2;

/// A group that notes the all-to-alls that go through it: 'c' for counts and ids, 'r' for rows. Where it says that it
/// records them, each rank sends as much to each.
class Noted final : public comm::Group {
 public:
  explicit Noted(std::shared_ptr<comm::Group> group, bool recorded = false)
      : Group("noted", group->ranks(), group->rank(), group->device(), std::make_shared<peers::CallLog>()),
        group_(std::move(group)),
        recorded_(recorded) {}
  std::string calls;

 private:
  bool is_recorded() const override { return recorded_; }
  void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                     const std::vector<std::int64_t>& in_counts) override {
    calls += in.scalar_type() == at::kLong ? 'c' : 'r';
    const std::vector<std::int64_t> equal(in_counts.size(), in_counts.front());
    if (recorded_ && (in_counts != equal || out_counts != equal)) throw std::logic_error("a host knew how many rows");
    group_->all_to_all(out, in, out_counts, in_counts, "noted");
  }
  [[noreturn]] static void unexpected() { throw std::logic_error("the exchange makes all-to-alls only"); }
  void do_all_reduce(const at::Tensor&, comm::ReduceOp) override { unexpected(); }
  void do_all_gather(const at::Tensor&, const at::Tensor&) override { unexpected(); }
  void do_reduce_scatter(const at::Tensor&, const at::Tensor&) override { unexpected(); }
  void do_broadcast(const at::Tensor&, int) override { unexpected(); }
  void do_barrier() override { unexpected(); }
  Rest do_start_send(const at::Tensor&, int) override { unexpected(); }
  void do_receive(const at::Tensor&, int) override { unexpected(); }

  std::shared_ptr<comm::Group> group_;
  bool recorded_;
};

const at::Tensor gate_up = numbers({count, 2, ff, hidden}, 0.5);
const at::Tensor down = numbers({count, hidden, ff}, 0.7);

nn::WeightPtr part_of(const std::string& name, const at::Tensor& whole, std::int64_t begin, std::int64_t length) {
  auto weight = std::make_shared<nn::Weight>(
      std::vector<layout::Param>{nn::record(name, whole.sizes().vec(), layout::Init::zeros(), true)});
  weight->bind(whole.narrow(0, begin, length).clone().requires_grad_(true));
  return weight;
}

/// What one rank brings along.
struct Tokens {
  at::Tensor x;        ///< [T, hidden]
  at::Tensor experts;  ///< [T, chosen]
  at::Tensor weights;  ///< [T, chosen]
};

using Choose = std::function<std::int64_t(std::int64_t rank, std::int64_t token, std::int64_t which)>;

Tokens tokens_of(std::int64_t rank, const std::vector<std::int64_t>& lengths, const Choose& choose) {
  const auto n = lengths[static_cast<std::size_t>(rank)];
  const auto phase = 3.0 * static_cast<double>(rank);
  Tokens out{numbers({n, hidden}, phase), at::empty({n, chosen}, at::kLong), numbers({n, chosen}, phase + 1).abs()};
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t k = 0; k < chosen; ++k) out.experts[t][k] = choose(rank, t, k);
  }
  return out;
}

/// Outputs and gradients.
struct Result {
  at::Tensor y, x, weights, gate_up, down;
  std::string calls;
};

/// The loss is the sum of y², which depends on every output in its own way.
Result run(nn::Experts& experts, const Tokens& tokens, bool recompute) {
  const auto x = tokens.x.clone().requires_grad_(true);
  const auto weights = tokens.weights.clone().requires_grad_(true);
  const auto kept = std::make_shared<nn::RecomputeContext>();
  const nn::Region::Body body = [&, kept](const at::Tensor& in) {
    return experts.forward(in, {tokens.experts, weights}, kept.get());
  };
  const auto y = recompute ? strategy::recomputed(body, x) : body(x);
  (y * y).sum().backward();
  return {y.detach(), x.grad(), weights.grad(), experts.gate_up()->value().grad(), experts.down()->value().grad(), ""};
}

// Adds to each row what only this token has at this expert.
void tell_apart(nn::Experts& experts, std::int64_t first, std::int64_t tokens) {
  experts.token_ids.fill("test", [=] { return at::arange(first, first + tokens, at::kLong); });
  experts.gate_up_adapter.fill("test", [](const auto&, const auto& y, const auto&, const auto& ids) {
    return y + ids.to(at::kDouble).sin().unsqueeze(1);
  });
}

Result alone(const std::vector<std::int64_t>& lengths, const Choose& choose, bool ids) {
  std::vector<at::Tensor> x, chosen_experts, weights;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto mine = tokens_of(static_cast<std::int64_t>(rank), lengths, choose);
    x.push_back(mine.x);
    chosen_experts.push_back(mine.experts);
    weights.push_back(mine.weights);
  }
  nn::Layer root("root");
  nn::Experts experts(root, "experts", part_of("gate_up", gate_up, 0, count), part_of("down", down, 0, count));
  if (ids) tell_apart(experts, 0, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  return run(experts, {at::cat(x), at::cat(chosen_experts), at::cat(weights)}, false);
}

// `body` with the experts of each rank, all on one group.
void on_ranks(std::size_t size, bool recorded, const std::function<void(nn::Experts&, Noted&)>& body) {
  comm::run_in_process(static_cast<int>(size), [&](comm::Communicator& communicator) {
    std::vector<int> ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = std::make_shared<Noted>(communicator.group("ep", ranks, at::kCPU), recorded);
    const auto own = count / static_cast<std::int64_t>(size);
    nn::Layer root("root");
    nn::Experts experts(root, "experts", part_of("gate_up", gate_up, own * group->rank(), own),
                        part_of("down", down, own * group->rank(), own));
    const Exchange exchange(group, "blocks.0");
    experts.exchange.fill("test",
                          [&](const auto& computed, const auto& rows, const auto& counts, const auto& row_ids,
                              nn::RecomputeContext* kept) { return exchange(computed, rows, counts, row_ids, kept); });
    body(experts, *group);
  });
}

std::vector<Result> spread(const std::vector<std::int64_t>& lengths, const Choose& choose, bool recompute, bool ids) {
  std::vector<Result> results(lengths.size());
  on_ranks(lengths.size(), false, [&](nn::Experts& experts, Noted& group) {
    const auto before = lengths.begin() + group.rank();
    if (ids) tell_apart(experts, std::accumulate(lengths.begin(), before, std::int64_t{0}), *before);
    auto result = run(experts, tokens_of(group.rank(), lengths, choose), recompute);
    result.calls = group.calls;
    results[static_cast<std::size_t>(group.rank())] = std::move(result);
  });
  return results;
}

void check(const std::vector<std::int64_t>& lengths, const Choose& choose, bool recompute, bool ids) {
  const auto whole = alone(lengths, choose, ids);
  const auto parts = spread(lengths, choose, recompute, ids);
  const auto joined = [&](at::Tensor Result::*member) {
    std::vector<at::Tensor> list;
    for (const auto& part : parts) list.push_back(part.*member);
    return at::cat(list);
  };
  // Each row takes part in the same products; only the sums over rows of weights' gradients are in another order.
  for (const auto member : {&Result::y, &Result::x, &Result::weights, &Result::gate_up, &Result::down}) {
    const auto& expected = whole.*member;
    CHECK(difference(joined(member), expected) <= 1e-12 * expected.abs().max().item<double>());
  }
  // Counts, ids, rows and results; gradients of results and of rows. Run again: rows and results, by what the first run
  // has kept.
  const std::string calls = std::string(ids ? "cc" : "c") + (recompute ? "rrrrrr" : "rrrr");
  for (const auto& part : parts) CHECK(part.calls == calls);
}

struct Case {
  const char* name;
  std::vector<std::int64_t> lengths;
  Choose choose;
};

const std::vector<Case> cases{
    {"spread", {7, 5}, [](auto rank, auto t, auto k) { return (rank + t + 2 * k) % count; }},
    {"one expert gets everything", {6, 3}, [](auto, auto, auto) { return 0; }},
    {"the last one does", {6, 3}, [](auto, auto, auto) { return count - 1; }},
    {"one expert gets nothing", {6, 6}, [](auto rank, auto t, auto k) { return 1 + (rank + t + k) % 3; }},
    {"all rows change sides", {4, 5}, [](auto rank, auto t, auto k) { return (rank == 0 ? 2 : 0) + (t + k) % 2; }},
    {"no rank's rows leave", {4, 5}, [](auto rank, auto t, auto k) { return (rank == 0 ? 0 : 2) + (t + k) % 2; }},
    {"one token each", {1, 1, 1, 1}, [](auto rank, auto, auto k) { return (rank + k) % count; }},
    {"four ranks, all to one", {3, 1, 4, 2}, [](auto, auto, auto) { return 2; }},
    {"four ranks, spread", {3, 8, 4, 5}, [](auto rank, auto t, auto k) { return (rank * t + k) % count; }},
};

}  // namespace

TEST_CASE("whatever the routing, experts on several ranks compute what they compute on one") {
  for (const auto& one : cases) {
    for (const bool recompute : {false, true}) {
      for (const bool ids : {false, true}) {
        INFO(one.name << ", recompute " << recompute << ", ids " << ids);
        check(one.lengths, one.choose, recompute, ids);
      }
    }
  }
}

namespace {

// Adds to each row what only its expert has, by where each expert's rows end: all rows are some expert's, filling too.
void tell_experts_apart(nn::Experts& experts) {
  experts.down_adapter.fill("test", [](const auto&, const auto& y, const auto& ends, const auto&) {
    const auto counts = at::diff(ends, 1, 0, at::zeros({1}, ends.options()));
    const auto expert = at::arange(ends.size(0), at::kLong).repeat_interleave(counts.to(at::kLong));
    return y + (expert + 1).to(y).unsqueeze(1);
  });
}

}  // namespace

TEST_CASE("where calls are recorded ranks send each other as many rows, and compute the same") {
  const at::NoGradGuard no_grad;
  for (const auto& one : cases) {
    const std::vector<std::int64_t> lengths(one.lengths.size(), one.lengths.front());
    INFO(one.name);
    std::vector<at::Tensor> eager(lengths.size()), recorded(lengths.size());
    for (auto* results : {&eager, &recorded}) {
      on_ranks(lengths.size(), results == &recorded, [&](nn::Experts& experts, Noted& group) {
        const at::NoGradGuard no_grad_here;
        tell_experts_apart(experts);
        const auto tokens = tokens_of(group.rank(), lengths, one.choose);
        auto& result = (*results)[static_cast<std::size_t>(group.rank())];
        result = experts.forward(tokens.x, {tokens.experts, tokens.weights});
        if (group.calls != "crr") throw std::logic_error("counts, rows and results are three calls");
      });
    }
    // Products of other numbers of rows: the same sums, in an order that a CPU's library chooses.
    for (std::size_t i = 0; i < eager.size(); ++i)
      CHECK(difference(recorded[i], eager[i]) <= 1e-12 * eager[i].abs().max().item<double>());
  }
}

}  // namespace exchange_test
