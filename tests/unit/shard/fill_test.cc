// Boxes are filled side by side, in parts, where the source allows it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <mutex>

#include "shard/fill.h"

namespace fill_test {

using namespace capstan;
using layout::Box;

namespace {

// Gives each element its index in the whole tensor, and remembers what it was asked for.
class Numbered : public layout::Source {
 public:
  explicit Numbered(bool concurrent) : concurrent_(concurrent) {}
  bool concurrent() const override { return concurrent_; }
  bool has(const layout::Param&) const override { return true; }
  void fill(const layout::Param& param, const Box& box, const at::Tensor& out) override {
    if (param.name == "broken") throw Error("it is broken");
    auto index = at::zeros(box.size, at::kDouble);
    for (std::size_t d = 0; d < box.size.size(); ++d) {
      auto shape = layout::Shape(box.size.size(), 1);
      shape[d] = box.size[d];
      const auto along = at::arange(box.offset[d], box.offset[d] + box.size[d], at::kDouble);
      index.mul_(param.shape[d]).add_(along.view(shape));
    }
    out.copy_(index.view(-1));
    const std::lock_guard lock(mutex_);
    ++calls;
  }
  std::int64_t calls = 0;

 private:
  bool concurrent_;
  std::mutex mutex_;
};

layout::Param param(const std::string& name, const layout::Shape& shape) {
  layout::Param out;
  out.name = name;
  out.shape = shape;
  return out;
}

}  // namespace

TEST_CASE("every element of every box arrives once, whether in one shard or in parts") {
  const auto table = param("table", {11, 1 << 20}), bias = param("bias", {7}), one = param("one", {});
  // 9 rows of 10 numbers less than a whole row: parts of 4, 4 and 1 rows.
  const Box box{{1, 5}, {9, (1 << 20) - 10}};
  for (const bool concurrent : {false, true}) {
    INFO(concurrent);
    Numbered source(concurrent);
    const auto options = at::TensorOptions(at::kDouble);
    const std::vector<shard::FillTask> tasks{{&table, box, at::zeros({box.numel()}, options)},
                                             {&bias, Box{{2}, {4}}, at::zeros({4}, options)},
                                             {&one, Box{}, at::ones({1}, options)}};
    shard::fill_all(source, tasks);
    const auto expected = at::arange(11LL << 20, options).view({11, 1 << 20}).narrow(0, 1, 9).narrow(1, 5, box.size[1]);
    CHECK(at::equal(tasks[0].out, expected.reshape(-1)));
    CHECK(at::equal(tasks[1].out, at::arange(2, 6, options)));
    CHECK(tasks[2].out.item<double>() == 0);
    CHECK(source.calls == (concurrent ? 5 : 3));
  }
}

TEST_CASE("a source that throws on one of the threads throws here") {
  const auto good = param("good", {3}), broken = param("broken", {3});
  Numbered source(true);
  const std::vector<shard::FillTask> tasks{{&good, Box::whole({3}), at::zeros({3})},
                                           {&broken, Box::whole({3}), at::zeros({3})}};
  CHECK_THROWS_WITH(shard::fill_all(source, tasks), Contains("it is broken"));
}

}  // namespace fill_test
