#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace fuzz {

/// Inputs that are nearly right: seeds with bits, bytes, words and numbers of the format changed. The same number gives
/// the same input.
class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words)
      : seeds_(std::move(seeds)), words_(std::move(words)) {}
  std::string input(std::uint64_t number) const;

 private:
  std::vector<std::string> seeds_;
  std::vector<std::string> words_;
};

/// The shortest input that was found in at most `tries` tries and for which `fails` still holds.
std::string shrunk(std::string input, const std::function<bool(const std::string&)>& fails, int tries);

}  // namespace fuzz
