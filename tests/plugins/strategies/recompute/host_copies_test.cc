// Inputs that wait in host memory come back as they were, and their memory on the device is free meanwhile.
#include "plugins/strategies/recompute/host_copies.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <functional>
#include <vector>

#include "comm/planned_group.h"

namespace host_copies_test {

using namespace capstan;
using recompute::HostCopies;

namespace {

struct Waiting {
  std::vector<std::function<at::Tensor()>> back;
  std::vector<at::Tensor> values;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;  // of the inputs

  std::int64_t on_device() const {
    std::int64_t count = 0;
    for (const auto& storage : storages) count += storage.expired() ? 0 : 1;
    return count;
  }
};

/// Keeps `count` inputs of which nothing else holds one.
Waiting keep(const HostCopies& copies, int count, std::int64_t rows = 3) {
  Waiting waiting;
  for (int i = 0; i < count; ++i) {
    const auto input = at::randn({rows, 5});
    waiting.values.push_back(input.clone());
    waiting.storages.emplace_back(input.storage().getWeakStorageImpl());
    waiting.back.push_back(copies.keep()(input));
  }
  return waiting;
}

void check_backward(const Waiting& waiting) {
  for (auto i = waiting.back.size(); i-- > 0;) {
    INFO("input " << i);
    CHECK(at::equal(waiting.back[i](), waiting.values[i]));
  }
}

}  // namespace

TEST_CASE("inputs come back in backward's order, or another, and the last two have not left") {
  const HostCopies copies;
  auto waiting = keep(copies, 5);
  CHECK(waiting.on_device() == 2);
  SECTION("backward's order") { check_backward(waiting); }
  SECTION("forward's order") {
    for (std::size_t i = 0; i < 5; ++i) CHECK(at::equal(waiting.back[i](), waiting.values[i]));
  }
  CHECK(waiting.on_device() == 0);
}

TEST_CASE("host memory is used again in the next step, and grows with the inputs") {
  const HostCopies copies;
  constexpr std::int64_t of_one = 3 * 5 * 4;
  for (int step = 0; step < 3; ++step) {
    check_backward(keep(copies, 4));
    CHECK(copies.host_bytes() == 4 * of_one);
  }
  check_backward(keep(copies, 4, 2));  // smaller ones have room there
  CHECK(copies.host_bytes() == 4 * of_one);
  check_backward(keep(copies, 4, 6));
  CHECK(copies.host_bytes() == 4 * 2 * of_one);
}

TEST_CASE("a forward without backward gives its host memory back, also when this ends first") {
  Waiting outlives;
  {
    const HostCopies copies;
    keep(copies, 4);
    check_backward(keep(copies, 4));
    CHECK(copies.host_bytes() == 4 * 3 * 5 * 4);
    outlives = keep(copies, 3);
  }
  check_backward(outlives);
}

TEST_CASE("an input keeps its strides where its elements are dense, and its dtype") {
  const HostCopies copies;
  const auto turned = at::randn({4, 6}, at::kBFloat16).t(), some = at::randn({8, 6}, at::kDouble).slice(0, 0, 8, 2);
  const auto of_turned = copies.keep()(turned), of_some = copies.keep()(some);
  keep(copies, 2);
  const auto first = of_turned(), second = of_some();
  CHECK(at::equal(first, turned));
  CHECK(first.strides() == turned.strides());
  CHECK(at::equal(second, some));
  CHECK(second.scalar_type() == at::kDouble);
}

TEST_CASE("two micro-batches in flight") {
  const HostCopies copies;
  const auto first = keep(copies, 4), second = keep(copies, 4);
  check_backward(first);
  const auto third = keep(copies, 4);
  check_backward(second);
  check_backward(third);
}

TEST_CASE("a dry run is told of each copy that is made, and of each wait for one") {
  constexpr std::int64_t of_one = 3 * 5 * 4;
  std::int64_t told = 0;
  std::vector<bool> begins;
  const comm::PlannedCalls calls([&](const comm::PlannedCall& call) {
    CHECK(call.operation == "host");
    told += call.bytes;
    begins.push_back(call.bytes > 0);
  });
  const HostCopies copies;
  const auto waiting = keep(copies, 4);
  // The third and the fourth leave when the two before them have.
  CHECK(begins == std::vector<bool>{true, true, false, true, false, true});
  begins.clear();
  check_backward(waiting);
  // The last two have not left; the second comes back beside what follows the third, and the first after it.
  CHECK(begins == std::vector<bool>{false, false, true, false, true, false});
  CHECK(told == (4 + 2) * of_one);
  CHECK(copies.copied_bytes() == told);
}

TEST_CASE("on the meta device nothing is copied, and what has left is free") {
  const HostCopies copies;
  std::vector<std::function<at::Tensor()>> back;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
  for (int i = 0; i < 4; ++i) {
    const auto input = at::empty({3, 5}, at::TensorOptions().device(at::kMeta));
    storages.emplace_back(input.storage().getWeakStorageImpl());
    back.push_back(copies.keep()(input));
  }
  CHECK(storages[0].expired());
  CHECK(storages[1].expired());
  CHECK_FALSE(storages[2].expired());
  CHECK(back[0]().sizes() == at::IntArrayRef({3, 5}));
  CHECK(copies.host_bytes() == 0);
  CHECK(copies.copied_bytes() == 0);
}

}  // namespace host_copies_test
