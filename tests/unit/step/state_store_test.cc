// Strategies' own tensors: where they lie, and what is refused.
#include "step/state_store.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <cstdint>
#include <map>
#include <string>

namespace state_store_test {

using namespace capstan;

TEST_CASE("state lies on the run's device, or in host memory where that is asked for") {
  step::StateStore store(c10::Device(c10::kMeta));
  auto& state = store.of("mine", "step");
  CHECK(state.tensor("near", {2}, at::kFloat).is_meta());
  CHECK(state.tensor("far", {2}, at::device(at::kCPU).dtype(at::kDouble)).is_cpu());
  layout::Param record;
  record.name = "w";
  record.shape = {2, 3};
  const strategy::StepPart part{&record, layout::Box{{0, 0}, {1, 3}}, at::ones({3}), {}};
  const auto shared = state.of_part(part, "momentum", part.master.options());
  CHECK(shared.is_cpu());
  CHECK(at::equal(shared, at::zeros({3})));
  CHECK(state.of_part(part, "momentum", part.master.options()).is_same(shared));
  CHECK(state.of_part(part, "near of part", at::kFloat).is_meta());
}

TEST_CASE("a strategy's state is counted by where it lies") {
  step::StateStore store(c10::Device(c10::kMeta));
  auto& step = store.of("mine", "step");
  step.tensor("near", {2}, at::kFloat);
  step.tensor("far", {3}, at::device(at::kCPU).dtype(at::kDouble));
  store.of("mine", "blocks.0").tensor("error", {5}, at::device(at::kCPU).dtype(at::kFloat));
  store.of("other", "step").tensor("far", {1}, at::device(at::kCPU).dtype(at::kDouble));
  layout::Param record;
  record.name = "w";
  record.shape = {2, 3};
  const strategy::StepPart part{&record, layout::Box{{0, 0}, {1, 3}}, at::ones({3}), {}};
  step.of_part(part, "momentum", part.master.options());
  std::map<std::string, std::int64_t> bytes;
  for (const auto& one : store.footprints()) bytes[one.part + ": " + one.device] = one.bytes;
  CHECK(bytes == std::map<std::string, std::int64_t>{{"mine state: cuda", 2 * 4},
                                                     {"mine state: host", 3 * 8 + 5 * 4 + 3 * 4},
                                                     {"other state: host", 8}});
}

TEST_CASE("what a checkpoint gives back is taken where it is asked for, and is known before") {
  step::StateStore store(c10::Device(c10::kCPU));
  auto& state = store.of("mine", "step");
  CHECK_FALSE(state.has("own"));
  CHECK_FALSE(state.has("momentum"));
  store.put_own("mine/step/own", at::full({2}, 3.0, at::kDouble));
  store.put_name("mine/momentum");  // this rank has no box of it
  CHECK(state.has("own"));
  CHECK(state.has("momentum"));
  CHECK_FALSE(store.of("other", "step").has("momentum"));
  CHECK_FALSE(store.of("mine", "blocks.0").has("own"));
  // Masters too are converted where a run resumes in another precision.
  CHECK(at::equal(state.tensor("own", {2}, at::kFloat), at::full({2}, 3.0, at::kFloat)));
}

TEST_CASE("a name has one shape, dtype and device, and no slash") {
  step::StateStore store(c10::Device(c10::kCPU));
  auto& state = store.of("mine", "step");
  state.tensor("count", {1}, at::kFloat);
  const std::string is = "state 'mine/step/count' is Float [1] on cpu, but ";
  const std::string asked = " is asked for";
  CHECK_THROWS_WITH(state.tensor("count", {2}, at::kFloat), Contains(is + "Float [2] on cpu" + asked));
  CHECK_THROWS_WITH(state.tensor("count", {1}, at::kDouble), Contains(is + "Double [1] on cpu" + asked));
  CHECK_THROWS_WITH(state.tensor("count", {1}, at::device(at::kMeta).dtype(at::kFloat)),
                    Contains(is + "Float [1] on meta" + asked));
  CHECK_THROWS_WITH(state.tensor("a/b", {1}, at::kFloat), Contains("cannot be named 'a/b'"));
}

TEST_CASE("state of a record is for the box that this rank updates, and for no other") {
  step::StateStore store(c10::Device(c10::kCPU));
  layout::Param record, other;
  record.name = "w";
  other.name = "elsewhere";
  record.shape = other.shape = {4, 3};
  const strategy::StepPart part{&record, layout::Box{{2, 0}, {2, 3}}, at::ones({6}), {}};
  store.hold({part});
  auto& state = store.of("mine", "step");
  CHECK(state.of_part(part, "momentum", part.master.options()).numel() == 6);
  auto smaller = part;
  smaller.box = layout::Box{{2, 0}, {1, 3}};
  CHECK_THROWS_WITH(state.of_part(smaller, "row", part.master.options()),
                    Contains("strategy 'mine' asks for state 'row' of record 'w' for the box [2:3, 0:3], but this rank "
                             "updates [2:4, 0:3]\n    fix: give of_part() a part of StepContext::parts as it is"));
  const strategy::StepPart foreign{&other, part.box, part.master, {}};
  CHECK_THROWS_WITH(state.of_part(foreign, "momentum", part.master.options()),
                    Contains("of record 'elsewhere'") && Contains("this rank updates nothing of it"));
  CHECK(store.of_records().size() == 1);
}

}  // namespace state_store_test
