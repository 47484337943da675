#include "checkpoint/decoded_source.h"

#include "job/halves.h"

namespace decoded_source_test {

using namespace capstan;

namespace {

class Nothing : public layout::Source {
 public:
  bool has(const layout::Param&) const override { return false; }
  void fill(const layout::Param&, const layout::Box&, const at::Tensor&) override {}
};

}  // namespace

TEST_CASE("what a codec keeps is rounded as a run computes with it, and all else is as it is") {
  const auto job = halves::job_with("[strategy.halves]\n");
  const auto units = job::pointers(job.model->units);
  nn::InitSource values(7);
  int kept = 0;
  for (const auto compute : {at::kFloat, at::kBFloat16}) {
    checkpoint::DecodedSource decoded(values, units, compute);
    for (const auto* unit : units) {
      for (const auto& weight : unit->weights()) {
        for (const auto& record : weight->records()) {
          INFO(record.name);
          const auto whole = layout::Box::whole(record.shape);
          auto exact = at::empty(record.shape), out = at::empty(record.shape);
          values.fill(record, whole, exact);
          decoded.fill(record, whole, out);
          const auto rounded = exact.to(compute).to(at::kHalf).to(compute).to(at::kFloat);
          CHECK(at::equal(out, weight->codec() ? rounded : exact));
          kept += weight->codec() ? 1 : 0;
        }
      }
    }
  }
  CHECK(kept > 0);
}

TEST_CASE("a coded record that no file has is refused with what to do, and one that is not coded is asked for") {
  const auto job = halves::job_with("[strategy.halves]\n");
  const auto units = job::pointers(job.model->units);
  Nothing nothing;
  checkpoint::DecodedSource decoded(nothing, units, at::kFloat, "export the adapters alone");
  int refused = 0;
  for (const auto* record : job::records_of(units)) {
    auto out = at::empty(record->shape);
    try {
      decoded.fill(*record, layout::Box::whole(record->shape), out);
    } catch (const Error& error) {
      ++refused;
      CHECK_THAT(error.diagnostics().front().what, Contains(record->name) && Contains("strategy 'halves'"));
      CHECK(error.diagnostics().front().fix == "export the adapters alone");
    }
  }
  CHECK(refused == 14);
}

}  // namespace decoded_source_test
