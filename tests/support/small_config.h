#pragma once
#include <capstan/base/text.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace test {

/// Lines that replace those that start with the first text; an empty one removes them.
using Changes = std::vector<std::pair<std::string, std::string>>;

/// A small configuration: a GPT of odd sizes on 70 questions of `tree`'s, 8 steps, console and no strategy. `more` is
/// added after it.
inline std::string small_config(const std::filesystem::path& tree, const Changes& changes, const std::string& more) {
  std::vector<std::string> lines{
      "[run]",
      "name = \"small\"",
      "seed = 3",
      "device = \"cpu\"",
      "[model]",
      "plugin = \"gpt\"",
      "vocab_size = 261",
      "hidden_size = 12",
      "num_layers = 2",
      "num_heads = 3",
      "ff_dim = 22",
      "seq_length = 130",
      "dropout = 0.0",
      "[data]",
      "plugin = \"squad\"",
      capstan::cat("train = \"", (tree / "configs/data/mini_squad_train.json").string(), "\""),
      capstan::cat("eval = \"", (tree / "configs/data/mini_squad_eval.json").string(), "\""),
      "train_samples = 70",
      "eval_samples = 7",
      "max_length = 97",
      "[train]",
      "max_steps = 8",
      "micro_batch = 4",
      "global_batch = 12",
      "[optimizer]",
      "lr = 1e-2",
      "[monitor.console]",
      "style = \"nemo\"",  // a line for each step, which tests wait for
  };
  for (const auto& [start, line] : changes) {
    bool found = false;
    for (auto& old : lines) {
      if (old.rfind(start, 0) != 0) continue;
      old = line;
      found = true;
    }
    if (!found) throw std::runtime_error(capstan::cat("no line starts with ", start));
  }
  std::string out;
  for (const auto& line : lines) {
    if (!line.empty()) out += line + "\n";
  }
  return out + more;
}

/// "FILE:LINE" of the first line that holds `text`.
inline std::string line_of(const std::string& file, const std::string& text) {
  std::ifstream in(file);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find(text) != std::string::npos) return capstan::cat(file, ":", number);
  }
  throw std::runtime_error(capstan::cat("no line of ", file, " holds ", text));
}

}  // namespace test
