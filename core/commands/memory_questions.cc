#include "commands/memory_questions.h"

#include <capstan/base/text.h>

#include <utility>

#include "commands/check_command.h"
#include "observe/memory.h"
#include "session/job.h"

namespace capstan::commands {
namespace {

session::Job job_of(const setup::JobRequest& request, plugin::Host& host) {
  Diagnostics faults;
  auto job = session::prepare(request, host, faults);
  faults.throw_if_any();
  return std::move(*job);
}

std::vector<monitor::MemorySaving> savings(setup::JobRequest request, plugin::Host& host) {
  if (request.device == "cpu") {
    request.device = "cuda";
    request.overrides.emplace_back("run.device=auto");
  }
  request.any_host_memory = true;
  const auto job = job_of(request, host);
  const auto batch = job.topology.batch;
  const plan::Trials trials{plan::offers_of(host), [&](const plan::Change& change) {
                              return peak_with(request, change, batch.global_batch, host);
                            }};
  const auto peak = layout::total_bytes(job.prediction.footprints, job.config.device);
  std::vector<monitor::MemorySaving> list;
  for (const auto& [change, with] : plan::what_saves_most(batch, peak, trials))
    list.push_back({change.words, join(change.overrides, " "), with.gpu});
  return list;
}

}  // namespace

monitor::MemoryQuestions memory_questions(const setup::JobRequest& request, plugin::Host& host) {
  auto asked = request;
  asked.activations = true;
  monitor::MemoryQuestions questions;
  questions.predicted = [asked, &host] { return observe::memory_parts(job_of(asked, host).prediction.footprints); };
  questions.savings = [asked, &host] { return savings(asked, host); };
  return questions;
}

}  // namespace capstan::commands
