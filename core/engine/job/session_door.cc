#include "session/door.h"

namespace capstan::session {

std::unique_ptr<SplitView> SplitView::open(const std::string& config, const std::vector<std::string>& overrides,
                                           data::Split split, const Environment& env, plugin::Host& host) {
  return door().split_view(config, overrides, split, env, host);
}

std::unique_ptr<RunToExport> RunToExport::open(const std::filesystem::path& run, const Environment& env,
                                               plugin::Host& host) {
  return door().run_to_export(run, env, host);
}

}  // namespace capstan::session
