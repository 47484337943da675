#include "cli/hub_cache.h"

namespace capstan::cli {

setup::HubCache hub_cache(const launch::Environment& env) {
  const auto value = [&](const char* name) { return env(name).value_or(""); };
  const std::filesystem::path hub = value("HF_HUB_CACHE"), home = value("HF_HOME"), xdg = value("XDG_CACHE_HOME"),
                              user = value("HOME");
  if (!hub.empty()) return {hub, "HF_HUB_CACHE=" + hub.string()};
  if (!home.empty()) return {home / "hub", "HF_HOME=" + home.string()};
  if (!xdg.empty()) return {xdg / "huggingface" / "hub", "XDG_CACHE_HOME=" + xdg.string()};
  if (!user.empty()) return {user / ".cache" / "huggingface" / "hub", ""};
  return {};
}

}  // namespace capstan::cli
