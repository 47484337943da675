#include "client.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>

namespace wandb {

using namespace capstan;

extern const char* const probe_script;

namespace {

/// What is wrong, after "monitor.wandb.mode is "online", and "; empty: nothing.
struct Lack {
  std::string what;
  std::string fix;
};

std::string text_in(const Json& answer, const char* key) {
  const auto found = answer.find(key);
  return found == answer.end() || !found->is_string() ? std::string() : found->text();
}

Lack lack_of(const std::string& python) {
  constexpr const char* get_client = "pip install wandb there, or set monitor.wandb.python to a Python 3 that has it";
  std::optional<EndedProgram> ended;
  try {
    // The first import from a shared file system that has nothing of it in memory takes minutes.
    ended = run_program({.arguments = {python, "-c", probe_script}, .patience = std::chrono::minutes(5)});
  } catch (const Error& error) {
    return {error.diagnostics().front().what,
            "install Python 3 and wandb, or set monitor.wandb.python to one that has it"};
  }
  const auto answer = try_parse_json(ended->output);
  if (ended->is_hung)
    return {cat(python, ", asked for wandb, ", ended->text(), ended->last_words()),
            cat("see whether ", python, " -c 'import wandb' hangs too, as on a file system that does not answer")};
  if (!answer.is_object()) return {cat(python, ", asked for wandb, ", ended->text(), ended->last_words()), get_client};
  const auto lacks = text_in(answer, "lacks");
  const auto why = text_in(answer, "why");
  if (lacks == "wandb") return {cat(python, " has no wandb that can be used (", why, ")"), get_client};
  if (lacks == "version") return {cat(python, " has wandb ", why, ", which is older than 0.20"), get_client};
  if (lacks == "key") return {cat("there is no API key for ", why), "run wandb login once, or export WANDB_API_KEY"};
  return {};
}

// `check` prepares a job again and again.
Lack lack_once(const std::string& python) {
  static std::mutex mutex;
  static std::map<std::string, Lack> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(python);
  return found != known.end() ? found->second : known.emplace(python, lack_of(python)).first->second;
}

}  // namespace

void check_client(const config::Options<WandbOptions>& options, Diagnostics& diagnostics) {
  const auto lack = lack_once(python_program(options->python));
  if (lack.what.empty()) return;
  const auto member = &WandbOptions::mode;
  const bool is_set = options.is_set(member);
  diagnostics.add(is_set ? options.where(member) : "WANDB_MODE of the environment",
                  cat(is_set ? options.name(member) : "WANDB_MODE", " is \"online\", and ", lack.what),
                  cat(lack.fix, "; or set monitor.wandb.mode = \"offline\" and send the folder later"));
}

}  // namespace wandb
