// AdamW with moments in 8 bits: a GPU's bits are the CPU's. And how fast it is: test_gpu '[.bench][adam8bit]'.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan_catch.h>

#include <cstdio>
#include <optional>
#include <vector>

#include "plugins/optimizers/adam8bit/blocks.h"
#include "plugins/optimizers/adam8bit/operator.cc"

using adam8bit::Progress;
using adam8bit::Slices;

namespace {

constexpr adam8bit::Settings settings{0.9F, 0.98F, 1e-8};

struct Types {
  at::ScalarType master, gradient;
  std::optional<at::ScalarType> copy;
};

const Types all_types[] = {{at::kFloat, at::kFloat, {}},        {at::kFloat, at::kFloat, at::kBFloat16},
                           {at::kFloat, at::kFloat, at::kHalf}, {at::kFloat, at::kBFloat16, at::kBFloat16},
                           {at::kFloat, at::kHalf, at::kHalf},  {at::kFloat, at::kBFloat16, {}},
                           {at::kDouble, at::kDouble, {}},      {at::kBFloat16, at::kBFloat16, {}},
                           {at::kHalf, at::kHalf, {}}};

// Numbers of many magnitudes, with zeros and blocks of zeros.
at::Tensor numbers(std::int64_t n, std::int64_t phase) {
  const auto i = at::arange(n, at::kDouble);
  const auto all = (i * 1.7 + static_cast<double>(phase)).sin() * (i * 0.37).sin().mul(8).exp2();
  return all.masked_fill((at::arange(n) + phase).remainder(13) == 0, 0)
      .masked_fill(at::arange(n).div(256, "floor").remainder(5) == 2, 0);
}

// `offset` elements into memory of its own, so that packs do not begin at whole addresses.
at::Tensor placed(const at::Tensor& values, std::int64_t offset, c10::Device device) {
  const auto room = at::zeros({values.numel() + offset}, values.options().device(device));
  const auto view = room.narrow(0, offset, values.numel());
  view.copy_(values);
  return view;
}

Slices slices_of(const std::vector<std::int64_t>& sizes, const Types& types, std::int64_t offset, c10::Device device) {
  Slices all;
  for (const auto n : sizes) {
    const auto zeros = [&](std::int64_t count, at::ScalarType type) {
      return placed(at::zeros({count}, type), type == at::kByte ? offset : 0, device);
    };
    const auto scales = adam8bit::blocks_of(n);
    all.masters.push_back(placed(numbers(n, 1).to(types.master), offset, device));
    all.gradients.push_back(placed(at::zeros({n}, types.gradient), offset, device));
    for (const auto& state :
         {zeros(n, at::kByte), zeros(scales, at::kFloat), zeros(n, at::kByte), zeros(scales, at::kFloat)}) {
      all.states.push_back(state);
    }
    if (types.copy) all.copies.push_back(placed(at::zeros({n}, *types.copy), offset, device));
    all.lr.push_back(1e-2 / static_cast<double>(all.masters.size()));
    all.weight_decay.push_back(all.masters.size() % 2 == 0 ? 0.0 : 0.1);
  }
  return all;
}

Progress progress(double count, float scale, float skip, c10::Device device) {
  const auto number = [&](double value, at::ScalarType type) {
    return at::full({}, value, at::TensorOptions(device).dtype(type));
  };
  return {number(count, at::kDouble), number(scale, at::kFloat), number(skip, at::kFloat)};
}

void set_gradients(const Slices& slices, std::int64_t step) {
  for (const auto& gradient : slices.gradients) gradient.copy_(numbers(gradient.numel(), step));
}

bool same(const std::vector<at::Tensor>& there, const std::vector<at::Tensor>& here) {
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!at::equal(there[i].cpu(), here[i])) return false;
  }
  return there.size() == here.size();
}

// Random slices on a GPU, for the time that their update takes.
Slices random_slices(const std::vector<std::int64_t>& sizes, const Types& types) {
  Slices all;
  const at::TensorOptions there(at::kCUDA);
  const auto random = [&](std::int64_t n, at::ScalarType type) { return at::randn({n}, there).to(type); };
  for (const auto n : sizes) {
    all.masters.push_back(random(n, types.master));
    all.gradients.push_back(random(n, types.gradient));
    if (types.copy) all.copies.push_back(random(n, *types.copy));
    for (int moment = 0; moment < 2; ++moment) {
      all.states.push_back(at::zeros({n}, there.dtype(at::kByte)));
      all.states.push_back(at::zeros({adam8bit::blocks_of(n)}, there.dtype(at::kFloat)));
    }
  }
  all.lr.assign(sizes.size(), 1e-3);
  all.weight_decay.assign(sizes.size(), 0.1);
  return all;
}

// What an update reads and writes.
double bytes_of(const Slices& slices) {
  const auto sum = [](const std::vector<at::Tensor>& tensors) {
    double bytes = 0;
    for (const auto& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
    return bytes;
  };
  return 2 * sum(slices.masters) + 2 * sum(slices.states) + sum(slices.gradients) + sum(slices.copies);
}

double milliseconds(const Slices& slices) {
  constexpr int passes = 40, warm = 4;
  const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
  const auto stream = device.getStream(slices.masters.front().device());
  const auto numbers_there = progress(3, 1, 0, at::kCUDA);
  for (int i = 0; i < warm; ++i) adam8bit::update(slices, settings, numbers_there);
  c10::Event begin(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  for (int i = 0; i < passes; ++i) adam8bit::update(slices, settings, numbers_there);
  end.record(stream);
  end.synchronize();
  return begin.elapsedTime(end) / passes;
}

}  // namespace

TEST_CASE("adam8bit: a GPU updates as the CPU does, to the bit", "[gpu][adam8bit]") {
  std::vector<std::int64_t> sizes{4096, 256 * 100 + 3, 5, 256, 1 << 20, (1 << 16) + 255, 16384, 16385};
  for (std::int64_t i = 0; i < 50; ++i) sizes.push_back(4096 + 31 * i);  // more than one launch takes
  for (const auto& types : all_types) {
    for (const std::int64_t offset : {0, 1, 4}) {
      INFO(types.master << ", gradients " << types.gradient << ", copies " << types.copy.has_value() << ", from "
                        << offset);
      const auto here = slices_of(sizes, types, offset, at::kCPU), there = slices_of(sizes, types, offset, at::kCUDA);
      for (int step = 1; step <= 4; ++step) {
        const float scale = step == 3 ? 7.3F : 1.0F, skip = step == 2 ? 1.0F : 0.0F;
        for (const auto& slices : {here, there}) {
          set_gradients(slices, step);
          adam8bit::update(slices, settings, progress(step, scale, skip, slices.masters.front().device()));
        }
        CHECK(same(there.masters, here.masters));
        CHECK(same(there.states, here.states));
        CHECK(same(there.copies, here.copies));
      }
    }
  }
}

TEST_CASE("adam8bit: a GPU corrects the bias of late steps as the CPU does", "[gpu][adam8bit]") {
  const Types types{at::kFloat, at::kFloat, {}};
  for (const double count : {1.0, 2.0, 1000.0, 123457.0, 4e9}) {
    const auto here = slices_of({4096}, types, 0, at::kCPU), there = slices_of({4096}, types, 0, at::kCUDA);
    for (const auto& slices : {here, there}) {
      set_gradients(slices, 1);
      adam8bit::update(slices, settings, progress(count, 1, 0, slices.masters.front().device()));
    }
    CHECK(same(there.masters, here.masters));
  }
}

TEST_CASE("adam8bit: the rate of an update", "[.bench][adam8bit]") {
  const std::vector<std::int64_t> one(1, 1LL << 28), projections(64, 4096LL * 1024), widest(7, 4096LL * 14336);
  for (const auto& types : {all_types[3], all_types[1], all_types[7]}) {
    for (const auto& sizes : {one, projections, widest}) {
      const auto slices = random_slices(sizes, types);
      const double ms = milliseconds(slices);
      std::printf("adam8bit %-8s gradients %-8s %3zu x %10ld elements %8.3f ms %7.0f GB/s\n",
                  c10::toString(types.master), c10::toString(types.gradient), sizes.size(),
                  static_cast<long>(sizes.front()), ms, bytes_of(slices) / ms / 1e6);
    }
  }
}
