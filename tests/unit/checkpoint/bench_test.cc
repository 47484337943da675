// Not run by default: test_checkpoint "[.bench]" prints how fast this machine copies, writes and verifies.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <chrono>
#include <cmath>
#include <iostream>

#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"

namespace bench_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string rate(double bytes, double seconds) {
  return cat(number_text(std::round(seconds * 1000) / 1000), " s, ",
             number_text(std::round(bytes / seconds / 1e7) / 100), " GB/s");
}

}  // namespace

TEST_CASE("how fast checkpoints are", "[.bench]") {
  const Scratch scratch;
  constexpr int tensors = 24;
  constexpr std::int64_t elements = std::int64_t{16} << 20;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.keep.last = 1;
  on_ranks(1, [&](const auto& group) {
    Writer writer(options, group);
    std::vector<TensorBox> boxes;
    for (int i = 0; i < tensors; ++i) {
      const auto box = layout::Box::whole({elements});
      boxes.push_back({cat("model/", i), {elements}, box, at::ones({elements}) * i});
    }
    writer.reserve(boxes);
    for (std::int64_t step = 1; step <= 3; ++step) {
      Meta meta;
      meta.step = step;
      writer.start(meta, boxes);
      const auto saved = writer.wait();
      REQUIRE(saved.has_value());
      const auto bytes = static_cast<double>(saved->bytes);
      std::cout << bytes_text(bytes) << ": stall " << rate(bytes, saved->stall_s) << "; write "
                << rate(bytes, saved->write_s) << '\n';
    }
    const auto begin = std::chrono::steady_clock::now();
    CHECK(newest(options.folder, Depth::hashes).step == 3);
    std::cout << "verify " << rate(static_cast<double>(tensors * elements * 4), seconds_since(begin)) << '\n';
  });
}

}  // namespace bench_test
