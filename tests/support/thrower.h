#pragma once
// Plugins that throw where they are told to (tests/fixtures/thrower), in the small configuration.
#include <string>

#include "support/small_config.h"

namespace test {

/// A place of a plugin of this kind, and how it is called in a message.
struct ThrowingPlace {
  const char* kind;
  const char* place;
  const char* said;
};

/// What replaces lines of the small configuration for two ranks, and what is added to it; `file` is the plugin's.
inline std::pair<Changes, std::string> thrower_changes(const ThrowingPlace& place, const std::string& file, int rank) {
  using capstan::cat;
  const std::string kind = place.kind;
  const auto table = cat("throw_in = \"", place.place, "\"\non_rank = ", rank, "\n");
  const auto chosen = cat("plugin = \"", file, "\"\n", table);
  Changes changes{
      {"global_batch", "global_batch = 8"}, {"max_steps", "max_steps = 2"}, {"eval_samples", "eval_samples = 4"}};
  if (kind == "model") {
    changes.emplace_back("plugin = \"gpt\"", chosen);
    for (const char* option :
         {"vocab_size", "hidden_size", "num_layers", "num_heads", "ff_dim", "seq_length", "dropout"})
      changes.emplace_back(option, "");
    return {changes, ""};
  }
  if (kind == "data") {
    changes.pop_back();
    changes.emplace_back("plugin = \"squad\"", chosen);
    for (const char* option : {"train = ", "eval = ", "train_samples", "eval_samples", "max_length"})
      changes.emplace_back(option, "");
    return {changes, ""};
  }
  if (kind == "optimizer") {
    changes.emplace_back("lr = ", cat("lr = 1e-2\n", chosen));
    return {changes, ""};
  }
  if (kind == "objective" || kind == "tokenizer") return {changes, cat("[", kind, "]\n", chosen)};
  return {changes, cat("[", kind, ".thrower]\npath = \"", file, "\"\n", table)};
}

}  // namespace test
