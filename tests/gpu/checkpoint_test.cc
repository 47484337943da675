// A save's copies run at the same time as compute, and hold what was there when it began.
#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "support/folder.h"

using namespace capstan;
using checkpoint::TensorBox;
using layout::Box;

namespace {

constexpr std::int64_t many = std::int64_t{1} << 27;  // 512 MiB of float32: some 10 to 50 ms to host memory

TensorBox box_of(const std::string& name, const at::Tensor& data, bool until_update) {
  return {"model/" + name, data.sizes().vec(), Box::whole(data.sizes().vec()), data, until_update};
}

at::Tensor read(const std::filesystem::path& folder, const std::string& name) {
  checkpoint::Reader reader(folder);
  auto out = at::empty(reader.shape("model/" + name));
  reader.read("model/" + name, Box::whole(reader.shape("model/" + name)), out);
  return out;
}

// Compute that takes some ms of the GPU and returns at once.
at::Tensor queue_work(const at::Tensor& matrix) {
  auto out = matrix;
  for (int i = 0; i < 20; ++i) out = at::mm(out, matrix).mul_(1e-4);
  return out;
}

}  // namespace

TEST_CASE("an update after before_update(), and any change of what may change at any time, comes too late for a save",
          "[training]") {
  const bool pinned = GENERATE(true, false);
  const test::Folder folder;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    checkpoint::WriterOptions options;
    options.folder = folder.path() / "checkpoints";
    options.pinned = pinned;
    options.keep.last = 1;
    checkpoint::Writer writer(options, communicator.group("saves", {0}, at::Device(at::kCPU)));
    const auto on_gpu = at::TensorOptions().device(at::Device(at::kCUDA, 0));
    const auto matrix = at::ones({4096, 4096}, on_gpu);
    const auto parameter = at::zeros({many}, on_gpu);
    const auto own = at::zeros({1000}, on_gpu);
    const auto host = at::zeros({1000});
    const std::vector<TensorBox> boxes{box_of("parameter", parameter, true), box_of("own", own, false),
                                       box_of("host", host, true)};
    writer.reserve(boxes);
    for (std::int64_t step = 1; step <= 4; ++step) {
      queue_work(matrix);  // what is saved is not there yet
      parameter.fill_(step);
      own.fill_(step);
      host.fill_(step);
      checkpoint::Meta meta;
      meta.step = step;
      writer.start(meta, boxes);
      own.fill_(-1);
      queue_work(matrix);
      if (step < 4) {  // after the last one no update comes
        writer.before_update();
        parameter.fill_(-1);
        host.fill_(-1);
      }
      const auto saved = writer.wait();
      REQUIRE(saved.has_value());
      CHECK(saved->stall_s > 0);
      CHECK(saved->write_s > 0);
      for (const char* name : {"parameter", "own", "host"}) {
        INFO(name << " of step " << step << (pinned ? ", pinned" : ""));
        CHECK(read(checkpoint::step_folder(options.folder, step), name).eq(step).all().item<bool>());
      }
    }
  });
}
