// What a checkpoint has of a session, and what comes back from it.
#include "step/saved_state.h"

#include <algorithm>
#include <set>

#include "job/halves.h"

namespace saved_state_test {

using namespace capstan;

namespace {

using Boxes = std::vector<checkpoint::TensorBox>;

/// How many tensors have names that begin so.
std::size_t count(const Boxes& boxes, const std::string& begin) {
  return static_cast<std::size_t>(
      std::count_if(boxes.begin(), boxes.end(), [&](const auto& box) { return box.tensor.starts_with(begin); }));
}

void set_all(const Boxes& boxes, const std::string& begin, double value) {
  for (const auto& box : boxes) {
    if (box.tensor.starts_with(begin)) box.data.fill_(value);
  }
}

}  // namespace

TEST_CASE("a checkpoint has the parameters and each of the optimizer's states; weights alone are the parameters") {
  const auto job = halves::job_with("");
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto session = step::materialise(job, communicator);
    std::set<std::string> records;
    for (const auto* record : job::records_of(session.units)) records.insert(record->name);
    const auto boxes = step::saved_boxes(session);
    CHECK(count(boxes, "model/") == records.size());
    for (const std::string state : {"exp_avg", "exp_avg_sq"})
      CHECK(count(boxes, "optimizer/" + state + "/") == records.size());
    CHECK(boxes.size() == 3 * records.size());
    const auto weights = step::saved_weights(session);
    CHECK(weights.size() == records.size());
    CHECK(count(weights, "model/") == records.size());
  });
}

TEST_CASE("the optimizer's state comes back, and another optimizer's is refused by its names") {
  const Scratch scratch;
  const auto job = halves::job_with("");
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    auto boxes = step::saved_boxes(session);
    const std::string kind = "optimizer/exp_avg";
    set_all(boxes, kind + "/", 3);
    checkpoint::save(scratch / "whole", *session.world_host, {}, boxes);
    set_all(boxes, kind + "/", 0);
    checkpoint::Reader whole(scratch / "whole");
    CHECK(step::restore_state(session, whole).empty());
    for (const auto& box : boxes) {
      if (box.tensor.starts_with(kind + "/")) CHECK(box.data.eq(3).all().item<bool>());
    }

    for (auto& box : boxes) {
      if (box.tensor.starts_with(kind + "/")) box.tensor = "optimizer/another" + box.tensor.substr(kind.size());
    }
    checkpoint::save(scratch / "other", *session.world_host, {}, boxes);
    checkpoint::Reader other(scratch / "other");
    try {
      (void)step::restore_state(session, other);
      FAIL("another optimizer's state was taken");
    } catch (const Error& error) {
      const auto& faults = error.diagnostics();
      REQUIRE(faults.size() == 2);
      CHECK_THAT(faults[0].what, Contains("it has no '" + kind + "'"));
      CHECK_THAT(faults[1].what, Contains("it has 'optimizer/another'"));
      CHECK(faults[0].where == (scratch / "other").string());
      CHECK_FALSE(faults[0].fix.empty());
    }
  });
}

}  // namespace saved_state_test
