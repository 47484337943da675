#pragma once
#include "renderings.h"

#include <filesystem>

namespace jsonl {

/// Writes the file that Renderings reads, on all of this process's cores: a line for each conversation, which is "{}"
/// where a row has none, then one with the template's head and what it dropped. Only a few rows are in memory at once.
/// Throws one Error with up to 10 of the rows that the template refuses, some seconds after the first.
void render_file(const RenderRequest& request, const std::filesystem::path& path);

}  // namespace jsonl
