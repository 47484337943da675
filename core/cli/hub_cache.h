#pragma once
#include <capstan/base/export.h>

#include "launch/launch.h"
#include "setup/model_path.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// Where the hub's programs keep models: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
/// ~/.cache/huggingface/hub, as huggingface_hub looks for it.
setup::HubCache hub_cache(const launch::Environment& env);

}  // namespace cli
CAPSTAN_END_NAMESPACE
