#pragma once
#include <capstan/base/export.h>

#include <filesystem>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// A plugin is code that runs as this user. Throws Error, as ssh refuses keys, if somebody else could have written it:
/// if the file or a folder above it, up to the root, may be written by others, or by a group that is not this user's
/// own, or belongs to somebody who is neither this user, nor root, nor the owner of Capstan itself. Folders above its
/// own that hold Capstan too are not looked at, nor sticky ones (/tmp), in which others cannot replace it.
void refuse_writable(const std::filesystem::path& file);

}  // namespace plugin
CAPSTAN_END_NAMESPACE
