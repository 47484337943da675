#include "job/settle.h"

#include "predict/door.h"

namespace capstan::job {
namespace {

// May an option say "auto" for which there is something to choose?
bool may_be_open(const setup::Configuration& config) {
  const auto data = config.document.section("data");
  const auto* length = data.find("max_length");
  const bool reads_data = config.request.purpose != setup::Purpose::generate;
  if (reads_data && length && length->value == config::Value(std::string("auto"))) return true;
  return config.trains() && config.device == "cuda" && (config.auto_micro_batch || config.request.gpu_room > 0);
}

}  // namespace

setup::JobRequest settle(const setup::JobRequest& request, plugin::Host& host, Diagnostics& unknown) {
  Diagnostics said;  // once more by prepare()
  if (!may_be_open(setup::read_configuration(request, said, &host))) return request;
  return predict::door().settle(request, host, unknown);
}

std::optional<Job> make_job(const setup::JobRequest& request, plugin::Host& host, Diagnostics& faults) {
  Diagnostics unknown;
  auto job = prepare(settle(request, host, unknown), host, faults);
  if (!faults.empty() || unknown.empty()) return job;
  for (const auto& fault : unknown.list()) faults.add(fault);
  return {};
}

}  // namespace capstan::job
