#include "ranks/comm_settings.h"

#include <capstan/base/text.h>

#include <unistd.h>

#include <cstring>
#include <string_view>

namespace capstan::ranks {
namespace {

bool steers_communication(std::string_view name) {
  for (const char* prefix : {"NCCL_", "TORCH_NCCL_", "GLOO_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name == "CUDA_VISIBLE_DEVICES";
}

}  // namespace

Variables all_variables() {
  Variables variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (const char* equals = std::strchr(*variable, '=')) {
      variables[std::string(*variable, static_cast<std::size_t>(equals - *variable))] = equals + 1;
    }
  }
  return variables;
}

CommSettings comm_settings(const setup::CommOptions& options, const Variables& environment) {
  CommSettings settings;
  for (const auto& [name, value] : environment) {
    if (steers_communication(name)) settings.all[name] = value;
  }
  const auto set = [&](const char* option, const std::string& wanted, const char* name, const std::string& value) {
    if (wanted.empty()) return;
    const auto [there, fresh] = settings.all.emplace(name, value);
    if (fresh) {
      settings.set[name] = value;
    } else if (there->second != value && there->second != wanted) {
      settings.warnings.push_back(cat(name, "=", there->second, " of the environment wins over comm.", option, " = \"",
                                      wanted, "\": unset it to use the option"));
    }
  };
  set("interface", options.interface, "NCCL_SOCKET_IFNAME", "=" + options.interface);  // '=': this name, no prefix
  set("ib_hca", options.ib_hca, "NCCL_IB_HCA", options.ib_hca);
  set("algorithm", options.algorithm, "NCCL_ALGO", options.algorithm);
  settings.interface = options.interface;
  const auto gloo = environment.find("GLOO_SOCKET_IFNAME");
  if (settings.interface.empty() && gloo != environment.end()) {
    settings.interface = gloo->second.substr(0, gloo->second.find(','));
  }
  return settings;
}

std::string text(const Variables& variables) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : variables) parts.push_back(cat(name, "=", value));
  return join(parts, " ");
}

}  // namespace capstan::ranks
