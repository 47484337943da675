// A fault in one of the things that sharing tokens must get right is seen in what is learnt.
#include <ATen/ATen.h>
#include <capstan/strategy.h>
#include <capstan_catch.h>

#include "plugins/strategies/context_parallel/attention.h"
#include "plugins/strategies/context_parallel/cases.h"
#include "plugins/strategies/context_parallel/columns.h"

namespace faults_test {

using namespace capstan;
using namespace capstan::testing;
using layout::Axis;

namespace {

struct FaultyOptions {
  std::string fault = "none";
  static void describe(config::OptionTable<FaultyOptions>& t) {
    t.add("fault", &FaultyOptions::fault).doc("what is done wrong");
  }
};

// Two ranks share tokens, by heads.
class Faulty : public strategy::Strategy {
 public:
  explicit Faulty(const config::Options<FaultyOptions>& options) : fault_(options->fault) {}
  void mesh(layout::MeshSpec& spec) override { spec.set(Axis::cp, 2, "strategy.faulty", "the test"); }
  void claim(strategy::Claims& claims) const override {
    if (fault_ != "unclaimed") claims.exclusive(strategy::sequence_cut_point);
  }

  void place(nn::Unit& unit, const strategy::Placement& placement) override {
    unit.each<nn::Attention>([&](nn::Attention& attention) {
      const context_parallel::Ulysses right(placement.group({Axis::cp}), unit.name());
      attention.around.fill(
          "faulty", [right, fault = fault_](const nn::Attention::Core& core, const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const nn::Batch& batch) {
            const auto wrong = [&](const at::Tensor& some_q, const at::Tensor& some_k, const at::Tensor& some_v,
                                   const nn::Batch& given) {
              auto whole = given;
              if (fault == "borders") whole.documents.reset();
              if (fault == "heads") whole.heads->first = 0;
              return core(some_q, some_k, some_v, whole);
            };
            return right(wrong, q, k, v, batch);
          });
    });
  }

  nn::SequenceCut cut_sequence(const strategy::Placement& placement) override {
    if (fault_ == "no cut") return {};
    const auto rank = placement.mesh.coordinate(placement.rank, Axis::cp);
    const auto group = placement.group({Axis::cp});
    nn::SequenceCut cut;
    cut.own = [rank, fault = fault_](std::int64_t columns) {
      auto own = context_parallel::own_columns(columns, 2, rank);
      // The last column of a chunk counts in two chunks: its tokens are the next one's.
      if (fault == "columns" && own[0].begin + own[0].length < columns) ++own[0].begin;
      return own;
    };
    const ops::ReduceFromGroup sum(group, "all-reduce sums");
    const ops::CopyToGroup spread(group, "all-reduce gradients");
    cut.sum = [sum, spread, fault = fault_](const at::Tensor& x) {
      if (fault == "no sum") return x;
      return fault == "gradients of sums" ? sum(x) : spread(sum(x));
    };
    cut.represents_sample = rank == 0 || fault_ == "both speak";
    return cut;
  }

 private:
  std::string fault_;
};

// BLOOM's heads differ by their biases.
const std::string bloom = family_config(families()[1]);
const std::string packed = "[data]\npacking = true\n";
const std::string pairs = "[data]\nsequences = 2\n[objective]\nplugin = \"dpo\"\nloss = \"orpo\"\nlambda = 0.3\n";

std::string found(const std::string& same, const std::string& split, const std::string& fault) {
  auto run = context_setting(same + split + "[strategy.faulty]\nfault = \"" + fault + "\"\n", 2);
  run.types.push_back(type<strategy::Strategy, Faulty, FaultyOptions>("strategy", "faulty"));
  return differences(train(run), alone(same), context_tolerance);
}

}  // namespace

TEST_CASE("faults in columns, in packed samples' borders and in heads are seen", "[matrix]") {
  CHECK(found(bloom, "", "none") == "");
  CHECK(found(bloom, packed, "none") == "");
  for (const std::string fault : {"columns", "heads"}) {
    INFO(fault);
    CHECK(found(bloom, "", fault) != "");
  }
  CHECK(found(bloom, packed, "borders") != "");
}

TEST_CASE("faults in what ranks add up of a pair are seen", "[matrix]") {
  CHECK(found(bloom + pairs, "", "none") == "");
  for (const std::string fault : {"no sum", "gradients of sums", "both speak"}) {
    INFO(fault);
    CHECK(found(bloom + pairs, "", fault) != "");
  }
}

TEST_CASE("a mesh with cp whose strategy does not share tokens is refused") {
  CHECK_THROWS_WITH(found(bloom, "", "unclaimed"), Contains("the mesh has cp = 2, but no strategy shares"));
  CHECK_THROWS_WITH(found(bloom, "", "no cut"), Contains("claims the override point 'sequence cut'"));
}

}  // namespace faults_test
