#include "train/prepare_together.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launch/error_report.h"
#include "plugin/hints.h"
#include "train/refused.h"

namespace capstan::train {

session::Job prepare_together(const setup::JobRequest& request, plugin::Host& host, comm::Communicator& communicator) {
  std::optional<session::Job> job;
  std::string faults;
  try {
    Diagnostics diagnostics;
    job = session::prepare(request, host, diagnostics);
    diagnostics.throw_if_any();
  } catch (const Error& error) {
    faults = launch::error_text(plugin::with_hints(error, host));
  }
  const auto all = communicator.exchange(faults);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) continue;
    const bool everywhere = std::count(all.begin(), all.end(), all[i]) == request.world_size;
    throw ConfigurationRefused(everywhere ? all[i] : all[i] + cat("    on rank ", i, " of ", request.world_size, "\n"));
  }
  return std::move(*job);
}

}  // namespace capstan::train
