// Who owns which whole matrix, and that all ranks plan the same exchange.
#include "plugins/libraries/matrix_rules/plan.h"

#include <capstan_catch.h>

#include <map>
#include <memory>
#include <set>

#include "plugins/libraries/matrix_rules/rounds.h"
#include "shard/rig.h"
#include "shard/slices.h"

namespace plan_test {

using namespace capstan;
using namespace capstan::testing;
using layout::Axis;
using namespace capstan::matrix_rules;

namespace {

// Asks for all matrices whole; work is their elements. One-dimensional records would be matrices for it, too.
class AllWhole : public MatrixRule {
 public:
  using MatrixRule::MatrixRule;
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {}; }
  std::optional<WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType /*master*/,
                                      c10::DeviceType /*device*/) const override {
    const auto elements = record.shape.at(record.shape.size() - 2) * record.shape.back();
    return WholeSpec{at::kFloat, static_cast<double>(elements), 100};
  }
  void begin(std::vector<Part>& /*parts*/, const optimizer::Update& /*update*/) override {}
  void whole(const Matrices& /*matrices*/, const optimizer::Update& /*update*/) override {}
  void finish(std::vector<Part>& /*parts*/, const optimizer::Update& /*update*/) override {}
  void apply(std::vector<optimizer::Slice>& /*slices*/, const optimizer::Update& /*update*/) override {}
};

class Weights : public TinyUnit {
 public:
  explicit Weights(const std::vector<layout::Param>& records) : TinyUnit("weights") {
    for (const auto& record : records) add(std::make_shared<nn::Weight>(std::vector<layout::Param>{record}));
  }

 private:
  nn::Hidden compute(nn::Hidden hidden, const nn::Batch& /*batch*/) override { return hidden; }
};

// Rows and columns split over tp, key heads that two ranks share, experts, a vector, and a matrix that stays whole.
TinyChain matrices() {
  auto columns = tiny_record("columns", {11, 6}, true), rows = tiny_record("rows", {6, 11}, true);
  columns.compute = layout::Layout{{{0, {Axis::tp}}}};
  rows.compute = layout::Layout{{{1, {Axis::tp}}}};
  auto keys = tiny_record("keys", {4, 6}, true);
  keys.compute = layout::Layout{{{0, {Axis::tp}, 2}}};
  auto experts = tiny_record("experts", {4, 2, 5, 3}, true);
  experts.compute = layout::Layout{{{0, {Axis::ep}}, {2, {Axis::tp}}}};
  experts.data_axes = {Axis::replicate, Axis::dp};
  experts.shard_dims = {0, 2};
  TinyChain chain;
  chain.push_back(std::make_unique<Weights>(
      std::vector{columns, rows, keys, experts, tiny_record("bias", {9}, true), tiny_record("router", {4, 6}, true)}));
  return chain;
}

struct MeshSizes {
  int replicate, dp, ep, tp;
  int world() const { return replicate * dp * ep * tp; }
};

struct Rank {
  TinyChain chain = matrices();
  std::vector<shard::PlannedSlice> slices;
  std::vector<MatrixRound> rounds;
  std::unique_ptr<optimizer::JointUpdate> update;
};

// What this rank's rule plans, as its joint update does.
void plan_for(Rank& out, shard::EngineOptions options, std::int64_t most_whole) {
  static const auto rule = std::make_shared<AllWhole>();
  options.optimizer = std::make_shared<strategy::Optimizer>(rule);
  const auto plan = shard::make_plan(pointers(out.chain), options);
  out.slices = shard::plan_slices(plan, options);
  const auto sharing = shard::sharing_of(*rule, plan, options);
  out.rounds = plan_matrices(whole_records(*rule, sharing), sharing.position, most_whole);
  out.update = rule->joint(sharing);
}

Rank plan_of(const MeshSizes& sizes, int rank, int stage, std::int64_t most_whole) {
  Rank out;
  shard::EngineOptions options;
  options.mesh = layout::Mesh(
      {{Axis::replicate, sizes.replicate}, {Axis::dp, sizes.dp}, {Axis::ep, sizes.ep}, {Axis::tp, sizes.tp}});
  options.rank = rank;
  set_stage(options.policy, stage);
  plan_for(out, options, most_whole);
  return out;
}

// What a rank sends to its owner, or the owner expects, in order: the record and its elements.
std::vector<std::string> given(const std::vector<WholePart>& parts, int rank) {
  std::vector<std::string> out;
  for (const auto& part : parts) {
    if (part.rank != rank) continue;
    const auto& rect = part.rect;
    out.push_back(part.record->name + " " + std::to_string(part.begin) + ": " + std::to_string(rect.row) + "+" +
                  std::to_string(rect.rows) + ", " + std::to_string(rect.col) + "+" + std::to_string(rect.cols) +
                  (part.gives ? " given" : ""));
  }
  return out;
}

std::vector<WholePart> own_of(const MatrixRound& round, int owner) {
  std::vector<WholePart> out;
  for (const auto& part : round.own) {
    if (part.owner == owner) out.push_back(part.whole);
  }
  return out;
}

}  // namespace

TEST_CASE("ranks plan one exchange, in which every element of every matrix is given to its owner once") {
  // Key heads that two ranks share need two ranks along tp.
  const auto sizes =
      GENERATE(values<MeshSizes>({{1, 1, 1, 2}, {1, 1, 1, 4}, {1, 3, 1, 2}, {2, 2, 1, 2}, {1, 1, 2, 2}, {1, 2, 2, 2}}));
  const int stage = GENERATE(0, 1, 3);
  const std::int64_t most = GENERATE(20, 1000);
  std::vector<Rank> ranks;
  for (int r = 0; r < sizes.world(); ++r) ranks.push_back(plan_of(sizes, r, stage, most));
  std::map<std::string, std::int64_t> given_elements;
  std::size_t matrices_owned = 0;
  for (int me = 0; me < sizes.world(); ++me) {
    const auto& mine = ranks[static_cast<std::size_t>(me)];
    REQUIRE(mine.rounds.size() == ranks[0].rounds.size());
    for (std::size_t i = 0; i < mine.rounds.size(); ++i) {
      const auto& round = mine.rounds[i];
      CHECK(round.exchanges == ranks[0].rounds[i].exchanges);
      for (const auto& batch : round.batches) matrices_owned += batch.records.size();
      for (int other = 0; other < sizes.world(); ++other) {
        const auto& theirs = ranks[static_cast<std::size_t>(other)].rounds[i];
        auto parts = own_of(theirs, me);
        if (other != me) CHECK(given(round.others, other) == given(parts, other));
        const auto here = static_cast<std::size_t>(me), there = static_cast<std::size_t>(other);
        CHECK(round.to_owners.others[there] == theirs.to_owners.own[here]);
        CHECK(round.back.others[there] == theirs.back.own[here]);
        for (const auto& part : parts) {
          if (part.gives) given_elements[part.record->name] += part.rect.numel();
        }
      }
    }
  }
  CHECK(matrices_owned == 3 + 8 + 1);
  CHECK(given_elements == std::map<std::string, std::int64_t>{
                              {"columns", 66}, {"rows", 66}, {"keys", 24}, {"experts", 120}, {"router", 24}});
}

TEST_CASE("a rank's parts are its slices, one matrix each") {
  const MeshSizes sizes{1, 2, 2, 2};
  for (int r = 0; r < sizes.world(); ++r) {
    const auto rank = plan_of(sizes, r, 3, 40);
    std::map<std::size_t, std::set<std::int64_t>> begins;
    std::map<std::size_t, std::int64_t> elements;
    for (const auto& round : rank.rounds) {
      for (const auto& part : round.own) {
        const auto& slice = rank.slices[part.slice];
        CHECK(rank.update->takes(*slice.record));
        CHECK(part.box.numel() == part.elements());
        CHECK(layout::intersect(part.box, slice.box) == part.box);
        CHECK(part.begin + part.elements() <= slice.elements);
        CHECK(begins[part.slice].insert(part.begin).second);
        elements[part.slice] += part.elements();
      }
    }
    for (std::size_t i = 0; i < rank.slices.size(); ++i) {
      const bool is_matrix = rank.slices[i].record->shape.size() > 1;
      CHECK(rank.update->takes(*rank.slices[i].record) == is_matrix);
      if (is_matrix) CHECK(elements[i] == rank.slices[i].elements);
    }
  }
}

TEST_CASE("owners have about the same work, and a round no more than its limit, or one matrix") {
  const MeshSizes sizes{1, 2, 1, 2};
  constexpr std::int64_t most = 80;  // of two rounds, which are there at once
  std::vector<std::int64_t> work;
  for (int r = 0; r < sizes.world(); ++r) {
    const auto rank = plan_of(sizes, r, 0, most);
    work.push_back(0);
    for (const auto& round : rank.rounds) {
      work.back() += round.elements();
      std::size_t matrices = 0;
      for (const auto& batch : round.batches) {
        matrices += batch.records.size();
        CHECK(batch.work_bytes == 100 * static_cast<std::int64_t>(batch.records.size()));
      }
      CHECK((round.elements() <= most / 2 || matrices == 1));
    }
  }
  const auto [least, largest] = std::minmax_element(work.begin(), work.end());
  CHECK(*largest - *least <= 66);
  CHECK(std::accumulate(work.begin(), work.end(), std::int64_t{0}) == 66 + 66 + 24 + 120 + 24);
}

TEST_CASE("one rank exchanges nothing, and has matrices of one shape together") {
  Rank rank{rig_chain({}), {}, {}, {}};
  plan_for(rank, {}, MatrixRule::usual_most_whole);
  REQUIRE(rank.rounds.size() == 1);
  const auto& round = rank.rounds[0];
  CHECK_FALSE(round.exchanges);
  CHECK(round.others.empty());
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const auto& batch : round.batches)
    CHECK(shapes.insert({batch.records[0]->shape[0], batch.records[0]->shape[1]}).second);
  // Every part is read and written in its matrix, so that only matrices and the rule's own memory are needed.
  std::int64_t work = 0;
  for (const auto& batch : round.batches) work = std::max(work, batch.work_bytes);
  CHECK(bytes_of(rank.rounds).device == round.elements() * 4 + work);
  CHECK(bytes_of(rank.rounds).host == 0);
}

TEST_CASE("an update's work is the rule's for the matrices that a rank owns, and its parts cross in each exchange") {
  const MeshSizes sizes{1, 2, 1, 2};
  double flops = 0;
  for (int r = 0; r < sizes.world(); ++r) {
    const auto rank = plan_of(sizes, r, 3, 40);
    const auto work = work_of(rank.rounds);
    double own = 0;
    std::int64_t parts = 0, exchanges = 0;
    for (const auto& round : rank.rounds) {
      for (const auto& batch : round.batches) {
        for (const auto* record : batch.records)
          own += AllWhole().whole_spec(*record, at::kFloat, at::kCPU).value().work;
      }
      if (!round.exchanges) continue;
      ++exchanges;
      for (const auto& part : round.own) parts += part.elements() * 4;
    }
    CHECK(work.flops == own);
    CHECK(work.exchanges == exchanges);
    CHECK(work.exchanges > 0);
    CHECK(work.sent_parts == parts);
    flops += work.flops;
  }
  CHECK(flops == 66 + 66 + 24 + 120 + 24);  // of all five matrices, each once
}

TEST_CASE("where gradients are not summed, ranks have matrices of their own") {
  TinyChain chain = matrices();
  shard::EngineOptions options;
  options.mesh = layout::Mesh({{Axis::replicate, 2}, {Axis::dp, 2}});
  options.optimizer = std::make_shared<strategy::Optimizer>(std::make_shared<AllWhole>());
  for (const auto& weight : all_weights(chain)) {
    for (auto& record : weight->records()) {
      record.compute = {};
      record.local_axes = {Axis::replicate};
    }
  }
  const auto plan = shard::make_plan(pointers(chain), options);
  CHECK(options.mesh.ranks_along(shard::joint_axes(plan, options), 2) == std::vector<int>{2, 3});
}

TEST_CASE("a round that exchanges parts begins before the one ahead of it is computed, which ends after the next is") {
  std::vector<MatrixRound> rounds(4);
  rounds[0].exchanges = rounds[1].exchanges = rounds[3].exchanges = true;
  std::string order;
  each_phase(rounds, [&](MatrixPhase phase, const MatrixRound& round) {
    order +=
        std::string("bacge").substr(static_cast<std::size_t>(phase), 1) + std::to_string(&round - rounds.data()) + " ";
  });
  CHECK(order == "b0 a0 b1 c0 g0 a1 c1 e0 g1 b2 a2 b3 c2 e1 g2 a3 c3 e2 g3 e3 ");
}

}  // namespace plan_test
