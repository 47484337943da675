#pragma once
#include <capstan/base/export.h>
#include <capstan/launch/world.h>

#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The secret of a rendezvous on rank 0, which makes one where the launcher gave none, and publishes it in the
/// rendezvous's secret_file.
std::string make_secret(const launch::Rendezvous& where);
/// The same on the other ranks; nothing while rank 0 has not published it.
std::optional<std::string> find_secret(const launch::Rendezvous& where);

}  // namespace peers
CAPSTAN_END_NAMESPACE
