#include "job/settle.h"
#include "predict/settle.h"

namespace capstan::predict {
namespace {

// The request with overrides on top. The length stays, and a saving but for what is replaced of it; all else that was
// settled may be otherwise with these.
setup::JobRequest with(setup::JobRequest request, const std::vector<std::string>& overrides) {
  auto& values = request.settled.values;
  const auto open = [&](const std::vector<std::string>& option) {
    std::erase_if(values, [&](const auto& value) { return value.path == option; });
  };
  open({"train", "micro_batch"});
  open({"train", "regather"});
  Diagnostics said_again;
  for (const auto& override : overrides) {
    for (const auto& item : config::read_override(override, said_again)) open(item.path);
  }
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  return request;
}

}  // namespace

std::optional<job::Job> predict_with(const setup::JobRequest& request, const std::vector<std::string>& overrides,
                                     plugin::Host& host) {
  auto other = with(request, overrides);
  other.sizes_only = other.activations = other.any_host_memory = true;
  Diagnostics faults;
  try {
    return job::make_job(other, host, faults);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace capstan::predict
