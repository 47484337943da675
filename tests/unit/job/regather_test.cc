// A pipeline's stages that gather once a step, or in each micro-step: what is predicted to move and to stay is what
// ranks gather.
#include <ATen/Parallel.h>
#include <capstan/base/text.h>
#include <capstan/monitor/tracer.h>
#include <capstan_catch.h>

#include <map>
#include <mutex>

#include "predict/dry_job.h"
#include "step/session.h"
#include "step/step.h"
#include "support/in_stages.h"

namespace regather_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t micro_batches = 4;
constexpr int ranks = 4;  // two along pp, two along dp

// How often this rank calls which collective.
class Calls final : public monitor::Tracer {
 public:
  void begin(monitor::Span kind, std::string_view name) noexcept override {
    if (kind == monitor::Span::collective) ++counts[std::string(name)];
  }
  void end(monitor::Span /*kind*/, std::string_view /*name*/) noexcept override {}
  std::map<std::string, std::int64_t> counts;
};

struct Moved {
  std::int64_t gathers = 0, gathered_bytes = 0, reductions = 0;
  bool operator==(const Moved&) const = default;
};

std::string text(const Moved& moved) {
  return cat(moved.gathers, " gathers of ", moved.gathered_bytes, " bytes, ", moved.reductions, " reductions");
}

plugin::Host& host_with_stages() {
  static plugin::Host host;
  static const bool once = (host.add(in_stages()), true);
  (void)once;
  return host;
}

job::Job prepared(const std::string& form, const std::string& regather, const std::string& device, int rank) {
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("job.toml", small(llama, "fp32", stages_table(form) + "[strategy.fsdp]\n"));
  request.overrides = {cat("train.accumulation=", micro_batches), "train.regather=" + regather, "model.num_layers=6"};
  request.device = device;
  request.world_size = ranks;
  request.rank = rank;
  request.activations = true;
  return job_of(request, host_with_stages());
}

shard::ShardPlan plan_of(const job::Job& job, int position, const char* device) {
  const auto topology = job.topology.at_position(position);
  return shard::make_plan(job.model->units_of(job.model->stages_at(position)),
                          job::engine_options(job.config, topology, job.samples, *job.model, c10::Device(device)));
}

std::int64_t full_bytes(const shard::BucketPlan& bucket) {
  std::int64_t bytes = 0;
  for (const auto& buffer : bucket.buffers)
    bytes += buffer.purpose == shard::Purpose::full_parameters ? buffer.bytes() : 0;
  return bytes;
}

Moved predicted(const job::Job& job, int position) {
  const auto& work = job.prediction.works.at(static_cast<std::size_t>(position));
  Moved moved;
  const auto add = [&](const plan::Transfers& transfers, std::int64_t times) {
    for (const auto& [transfer, count] : transfers) {
      if (transfer.operation != "all-gather") continue;
      moved.gathers += times * count;
      moved.gathered_bytes += times * count * transfer.bytes;
    }
  };
  add(work.micro.gathers, 1);
  add(work.micro.later_gathers, micro_batches - 1);
  for (const auto& [transfer, count] : work.reductions)
    moved.reductions += transfer.operation == "reduce-scatter" ? count : 0;
  return moved;
}

// What a rank of each position moves in a step.
std::vector<Moved> counted(const std::string& form, const std::string& regather) {
  at::set_num_threads(1);
  std::vector<Moved> moved(2);
  std::mutex mutex;
  comm::run_in_process(ranks, [&](comm::Communicator& communicator) {
    const auto job = prepared(form, regather, "cpu", communicator.world().rank);
    const int position = job.topology.position();
    const auto plan = plan_of(prepared(form, regather, "cpu", communicator.world().rank), position, "cpu");
    const auto calls = std::make_shared<Calls>();
    auto session = step::materialise(job, communicator);
    step::Feed feed(job);
    step::Step step(session);
    communicator.trace(calls);
    const auto input = feed.draw(0);
    step.run(input, input.counts, 0.1);
    communicator.trace(nullptr);
    Moved mine;
    for (const auto& bucket : plan.buckets) {
      const auto gathers = calls->counts[cat("all-gather 'all-gather fsdp ", bucket.name, "'")];
      mine.gathers += gathers;
      mine.gathered_bytes += gathers * full_bytes(bucket);
      mine.reductions += calls->counts[cat("reduce-scatter 'reduce-scatter fsdp ", bucket.name, ", backward'")];
    }
    const std::scoped_lock lock(mutex);
    moved[static_cast<std::size_t>(position)] = mine;
  });
  return moved;
}

}  // namespace

TEST_CASE("ranks of a pipeline gather and reduce as often as is predicted, with as many bytes") {
  for (const std::string form : {"two", "looped", "v"}) {
    for (const std::string regather : {"auto", "step", "micro_step"}) {
      const auto job = prepared(form, regather, "cuda", 0);
      INFO(form << " " << regather << " " << job.prediction.activations_note);
      REQUIRE(job.prediction.works.size() == 2);
      const auto ran = counted(form, regather);
      for (const int position : {0, 1}) {
        const auto expected = predicted(job, position);
        const auto& is = ran[static_cast<std::size_t>(position)];
        INFO("position " << position << ": predicted " << text(expected) << ", counted " << text(is));
        CHECK(is == expected);
        const auto buckets = static_cast<std::int64_t>(plan_of(job, position, "cuda").buckets.size());
        CHECK((is.gathers == buckets) == (regather != "micro_step"));
        CHECK(is.reductions >= (regather == "micro_step" ? micro_batches : 1));
        CHECK(is.reductions <= (regather == "micro_step" ? micro_batches : 1) * buckets);
      }
    }
  }
}

TEST_CASE("parameters that stay gathered are predicted to be there at the peak, and gradients that are added up") {
  const auto bytes = [](const job::Job& job, const std::string& part) {
    std::int64_t sum = 0;
    for (const auto& one : job.prediction.footprints) sum += one.part == part ? one.bytes : 0;
    return sum;
  };
  const auto once = prepared("two", "step", "cuda", 0), each = prepared("two", "micro_step", "cuda", 0);
  INFO(once.prediction.stages_note << " " << each.prediction.stages_note);
  const int position = once.prediction.stages_note.ends_with("pp 1") ? 1 : 0;
  REQUIRE(each.prediction.stages_note.back() == once.prediction.stages_note.back());
  std::int64_t full = 0, elements = 0;
  for (const auto& bucket : plan_of(once, position, "cuda").buckets) {
    full += full_bytes(bucket);
    elements += bucket.full_elements;
  }
  CHECK(bytes(once, "gathered units") == full);
  CHECK(bytes(each, "gathered units") < full);
  CHECK(bytes(once, "gradients") == bytes(each, "gradients") + elements * 4);
}

}  // namespace regather_test
