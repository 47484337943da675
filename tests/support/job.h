#pragma once
// A configuration's job, as the commands prepare it.
#include <mutex>
#include <utility>

#include <capstan/plugin/host.h>
#include "job/settle.h"

namespace capstan::testing {

/// Throws what the configuration lacks as one Error. One rank at a time: the host is shared.
inline job::Job job_of(const setup::JobRequest& request, plugin::Host& host) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Diagnostics diagnostics;
  auto job = job::make_job(request, host, diagnostics);
  diagnostics.throw_if_any();
  return std::move(*job);
}

/// The same with only the plugins of the tree.
inline job::Job job_of(const setup::JobRequest& request) {
  static plugin::Host host;
  return job_of(request, host);
}

}  // namespace capstan::testing
