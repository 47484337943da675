#pragma once
// Commands in copies of this process. Most of a small command's time opens LibTorch: here it is open, and a copy
// continues as `main` does. With -n the ranks are copies too, which find each other as those that `capstan run` starts.
#include <filesystem>
#include <string>
#include <vector>

#include "end_to_end/program.h"

namespace end_to_end {

/// Whether a copy does what the program itself would. Not where a command starts the program's own file, nor where GPUs
/// are visible, whose ranks must open them before ATen is used. $CAPSTAN_TEST_STARTS, if it is set: never.
bool may_be_copies(const std::vector<std::string>& arguments, const Variables& variables);

/// `capstan` with these arguments, to its end. Of several ranks the output stands rank by rank.
Outcome run_in_copies(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                      const Variables& variables);

}  // namespace end_to_end
