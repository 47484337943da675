#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <optional>
#include <string>

#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// A request whose data.max_length was "auto".
struct SettledLength {
  setup::JobRequest request;  ///< with a number in its place; 0 where the longest sample is not known
  std::string note;           ///< for people
  Diagnostics faults;         ///< why it is not known, where nothing else says so
};

/// Where data.max_length is "auto": the request with what that means, the tokens of the longest sample, rounded up as
/// rows are, and no more than the model has positions. Reads the data, and tokenizes all of it once. Nothing where a
/// number is set. Throws Error as setup::read_configuration does.
std::optional<SettledLength> settle_length(const setup::JobRequest& request, plugin::Host& host);

}  // namespace session
CAPSTAN_END_NAMESPACE
