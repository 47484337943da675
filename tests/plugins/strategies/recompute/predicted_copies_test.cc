// What is predicted of the way of inputs to host memory and back, against what a run copies.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan_catch.h>

#include <map>
#include <string>
#include <vector>

#include "comm/planned_group.h"
#include "predict/dry_job.h"
#include "step/to_device.h"
#include "step_time/step_time.h"
#include "support/small_run.h"

namespace predicted_copies_test {

using namespace capstan;

namespace {

constexpr std::int64_t layers = 8, input_bytes = testing::rows * testing::length * 64 * 4;  // of float32

std::vector<std::string> of_many_layers() { return {cat("model.num_layers=", layers), "train.pad_to_multiple=64"}; }

std::string with_table(const std::string& table) {
  return testing::small(testing::llama, "fp32", "[strategy.recompute]\n" + table);
}

// What the plugin copies in a micro-step's forward and backward on a CPU, all of it.
std::int64_t copied_on_a_cpu(const std::string& table) {
  at::set_num_threads(1);
  std::int64_t copied = 0;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = testing::job_of(with_table(table), "cpu", 1, of_many_layers());
    const auto session = session::materialise(job, communicator);
    auto batch = step::to_device(step::Feed(job).draw(0).micro.front(), session.device);
    batch.training = true;
    REQUIRE(batch.tokens.sizes() == at::IntArrayRef({testing::rows, testing::length}));
    session.engine->begin_backward(0);
    const comm::PlannedCalls calls([&](const comm::PlannedCall& call) { copied += call.key ? call.bytes : 0; });
    const auto loss = session.runner->forward(batch).states;
    session.runner->backward(loss, at::ones_like(loss));
  });
  return copied;
}

}  // namespace

TEST_CASE("what is predicted of copies to host memory is what a run copies, and computing is the same as without") {
  const auto predicted = [](const std::string& table) {
    return testing::dry_run_on_gpu(testing::job_of(with_table(table), "cuda", 1, of_many_layers())).computed;
  };
  for (const auto& [table, left] : std::map<std::string, std::int64_t>{
           {"", layers}, {"every = 2\n", layers / 2}, {"regions = [\"attention\", \"mlp\"]\n", 2 * layers}}) {
    for (const double share : {0.5, 1.0}) {
      INFO(table << share);
      const auto offload = cat("offload = ", share == 1 ? "1.0" : "0.5", "\n");
      const auto work = predicted(table + offload);
      std::int64_t bytes = 0;
      for (const auto& copy : work.copies) bytes += copy.bytes;
      // All leave and all but the last two come back.
      CHECK(bytes == (2 * static_cast<std::int64_t>(share * static_cast<double>(left)) - 2) * input_bytes);
      CHECK(bytes == copied_on_a_cpu(table + offload));
      const auto without = predicted(table);
      CHECK(without.copies.empty());
      CHECK((work.compute.products == without.compute.products));
      CHECK((work.compute.attention_backward == without.compute.attention_backward));
      CHECK(work.compute.bytes == without.compute.bytes);
      CHECK(work.compute.kernels == without.compute.kernels);
    }
  }
}

TEST_CASE("a step takes longer by the copies that its computing does not hide") {
  const auto time_of = [](const std::string& table, double link) {
    const auto job = testing::job_of(with_table(table), "cuda", 1, of_many_layers());
    auto figures = *plan::figures_of("h200-141g");
    figures.host_link_bytes = link;
    figures.host_kernel_seconds = figures.collective_seconds = 0;
    return plan::step_time(*job.prediction.work, 1, figures);
  };
  constexpr double slow = 1e7;
  const auto without = time_of("", slow), with = time_of("offload = 1.0\n", slow);
  CHECK(without.copies_wait == 0);
  CHECK(with.total() - without.total() == Approx(with.copies_wait));
  // The link is busy from the first copy to the last wait, and hides what is computed meanwhile.
  const auto link = (2 * layers - 2) * static_cast<double>(input_bytes) / slow;
  CHECK(with.copies_wait < link);
  CHECK(with.copies_wait > link - without.total());
  CHECK(time_of("offload = 1.0\n", 1e15).copies_wait < 1e-3);
}

}  // namespace predicted_copies_test
