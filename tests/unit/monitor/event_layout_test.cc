// Events only grow at their ends: a plugin that was compiled for an earlier level of this SDK finds each member where
// it was. A number that changes here, or goes, is a new number of the SDK (docs/sdk.md); a new member gets a line.
#include <capstan/monitor/monitor.h>
#include <capstan_catch.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace event_layout_test {

using namespace capstan::monitor;

namespace {

template <class Event>
class Layout {
 public:
  /// Where the member stands, in bytes.
  template <class Member>
  std::ptrdiff_t at(Member Event::*member) const {
    return reinterpret_cast<const char*>(&(event_.*member)) - reinterpret_cast<const char*>(&event_);
  }

 private:
  Event event_;
};

}  // namespace

TEST_CASE("RunStarted only grows at its end") {
  const Layout<RunStarted> layout;
  CHECK(layout.at(&RunStarted::name) == 0);
  CHECK(layout.at(&RunStarted::folder) == 32);
  CHECK(layout.at(&RunStarted::rank) == 64);
  CHECK(layout.at(&RunStarted::world_size) == 68);
  CHECK(layout.at(&RunStarted::data_parallel_size) == 72);
  CHECK(layout.at(&RunStarted::backend) == 80);
  CHECK(layout.at(&RunStarted::device) == 112);
  CHECK(layout.at(&RunStarted::hosts) == 144);
  CHECK(layout.at(&RunStarted::processes) == 168);
  CHECK(layout.at(&RunStarted::parameters) == 192);
  CHECK(layout.at(&RunStarted::trainable_parameters) == 200);
  CHECK(layout.at(&RunStarted::steps) == 208);
  CHECK(layout.at(&RunStarted::first_step) == 216);
  CHECK(layout.at(&RunStarted::steps_per_epoch) == 224);
  CHECK(layout.at(&RunStarted::global_batch) == 232);
  CHECK(layout.at(&RunStarted::micro_batch) == 240);
  CHECK(layout.at(&RunStarted::accumulation) == 248);
  CHECK(layout.at(&RunStarted::output_is_terminal) == 256);
  CHECK(layout.at(&RunStarted::gpu) == 260);
  CHECK(layout.at(&RunStarted::gpu_uuid) == 264);
  CHECK(layout.at(&RunStarted::precision) == 296);
  CHECK(layout.at(&RunStarted::sequence_length) == 328);
  CHECK(layout.at(&RunStarted::flops_per_token) == 336);
  CHECK(layout.at(&RunStarted::head_flops_per_token) == 344);
  CHECK(layout.at(&RunStarted::settings) == 352);
  CHECK(layout.at(&RunStarted::environment) == 376);
  CHECK(layout.at(&RunStarted::memory) == 408);
  CHECK(layout.at(&RunStarted::start_s) == 504);
}

TEST_CASE("StepEnded only grows at its end") {
  const Layout<StepEnded> layout;
  CHECK(layout.at(&StepEnded::step) == 0);
  CHECK(layout.at(&StepEnded::steps) == 8);
  CHECK(layout.at(&StepEnded::epoch) == 16);
  CHECK(layout.at(&StepEnded::epoch_progress) == 24);
  CHECK(layout.at(&StepEnded::loss) == 32);
  CHECK(layout.at(&StepEnded::auxiliary_loss) == 40);
  CHECK(layout.at(&StepEnded::lr) == 56);
  CHECK(layout.at(&StepEnded::grad_norm) == 64);
  CHECK(layout.at(&StepEnded::loss_scale) == 72);
  CHECK(layout.at(&StepEnded::skipped) == 88);
  CHECK(layout.at(&StepEnded::samples) == 96);
  CHECK(layout.at(&StepEnded::consumed_samples) == 104);
  CHECK(layout.at(&StepEnded::tokens) == 112);
  CHECK(layout.at(&StepEnded::padded_tokens) == 120);
  CHECK(layout.at(&StepEnded::target_tokens) == 128);
  CHECK(layout.at(&StepEnded::step_time_s) == 136);
  CHECK(layout.at(&StepEnded::values) == 144);
}

TEST_CASE("EvalEnded only grows at its end") {
  const Layout<EvalEnded> layout;
  CHECK(layout.at(&EvalEnded::step) == 0);
  CHECK(layout.at(&EvalEnded::epoch_progress) == 8);
  CHECK(layout.at(&EvalEnded::split) == 16);
  CHECK(layout.at(&EvalEnded::loss) == 48);
  CHECK(layout.at(&EvalEnded::samples) == 64);
  CHECK(layout.at(&EvalEnded::runtime_s) == 72);
  CHECK(layout.at(&EvalEnded::scores) == 80);
}

TEST_CASE("CheckpointSaved only grows at its end") {
  const Layout<CheckpointSaved> layout;
  CHECK(layout.at(&CheckpointSaved::step) == 0);
  CHECK(layout.at(&CheckpointSaved::path) == 8);
  CHECK(layout.at(&CheckpointSaved::bytes) == 40);
  CHECK(layout.at(&CheckpointSaved::stall_s) == 48);
  CHECK(layout.at(&CheckpointSaved::write_s) == 56);
  CHECK(layout.at(&CheckpointSaved::bytes_per_second) == 64);
}

TEST_CASE("RunEnded only grows at its end") {
  const Layout<RunEnded> layout;
  CHECK(layout.at(&RunEnded::steps) == 0);
  CHECK(layout.at(&RunEnded::runtime_s) == 8);
  CHECK(layout.at(&RunEnded::train_runtime_s) == 16);
  CHECK(layout.at(&RunEnded::mean_loss) == 24);
  CHECK(layout.at(&RunEnded::samples) == 32);
  CHECK(layout.at(&RunEnded::tokens) == 40);
  CHECK(layout.at(&RunEnded::epochs) == 48);
  CHECK(layout.at(&RunEnded::weights) == 56);
  CHECK(layout.at(&RunEnded::best) == 88);
  CHECK(layout.at(&RunEnded::summary) == 120);
}

TEST_CASE("RunFailed only grows at its end") {
  const Layout<RunFailed> layout;
  CHECK(layout.at(&RunFailed::what) == 0);
  CHECK(layout.at(&RunFailed::out_of_memory) == 32);
}

}  // namespace event_layout_test
