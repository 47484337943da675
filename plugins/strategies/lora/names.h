#pragma once
#include <capstan/nn/model.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lora {

using Units = std::vector<std::unique_ptr<capstan::nn::Unit>>;

/// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string leaf(const std::string& path);
/// Whether the name is the module's, or the end of its path.
bool names_module(const std::string& name, const std::string& module);

/// What a list option names, and which of its names the model has.
class Names {
 public:
  Names() = default;
  explicit Names(const std::vector<std::string>& names);
  /// Is this role, or word, in the list?
  bool take(const std::string& name);
  /// Does one of the names mean this module, or the end of its path?
  bool take_module(const std::string& module);
  /// Those that were never taken.
  std::vector<std::string> unused() const;

 private:
  std::map<std::string, bool> used_;
};

/// What the model at hand has for lists to name: everything in the order in which it stands in the model.
struct Known {
  explicit Known(const Units& units);
  std::vector<std::string> targets;               ///< roles and modules that may have adapters
  std::vector<std::string> whole;                 ///< roles and modules that may be trained whole
  std::map<std::string, std::string> tied_heads;  ///< "lm_head", where it is the embedding: that one's module
  bool has_experts = false;
};

/// Why adapters cannot be put next to what `name` means, and what to do.
struct Refusal {
  std::string why;  ///< to stand after the option and the name
  std::string fix;
};
Refusal refuse_target(const std::string& name, const Known& known, const std::string& whole_option);
/// The same of what is to be trained whole.
Refusal refuse_whole(const std::string& name, const Known& known);

}  // namespace lora
