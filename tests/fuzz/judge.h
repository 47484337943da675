#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace fuzz {

/// A format that Capstan reads: inputs are written to `file` in a folder, and `read` reads what it is about to use of
/// it.
struct Target {
  std::string name;
  std::string file;
  std::vector<std::string> seeds;  ///< files that are right
  std::vector<std::string> words;  ///< what belongs into such a file, and what does not
  std::function<void(const std::filesystem::path& folder)> read;
  std::vector<std::pair<std::string, std::string>> beside = {};  ///< other files in the folder
};
/// All of them.
std::vector<Target> targets();

/// What is wrong with a message about a file called `file`; empty: nothing. It names the file and says what to do; it
/// has no control characters, and no words of a library, unless `input` has them, which messages quote.
std::string fault_of_message(const std::string& message, const std::string& file, const std::string& input = {});

/// Reads one input in this process. Empty: it was read, or refused as it should be.
std::string judged(const Target& target, const std::filesystem::path& folder, const std::string& input);
/// The same in a process of its own, which signals and endless loops cannot leave.
std::string judged_apart(const Target& target, const std::string& input);

/// Judges inputs from number `first` on, for so long. Returns how many; a fault is told with the input's number.
struct Fault {
  std::uint64_t number = 0;
  std::string what;
};
std::uint64_t fuzz_for(const Target& target, std::uint64_t first, double seconds, std::vector<Fault>& faults);

}  // namespace fuzz
