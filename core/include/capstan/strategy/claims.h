#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/mesh.h>

#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// Override points: the exclusive claim decides who is called. The owner implements them in step().
std::string gradient_reduction_point(layout::Axis axis);  ///< "gradient reduction on dp" (or replicate)
/// What evaluation, generation and export see instead of the parameters (StepHooks::evaluation_weights).
inline constexpr const char* evaluation_weights_point = "evaluation weights";
/// How the model is cut into stages and in which order ranks run them (Strategy::stages).
inline constexpr const char* step_program_point = "step program";
/// How ranks along the axis cp share the columns of a batch's rows (Strategy::cut_sequence).
inline constexpr const char* sequence_cut_point = "sequence cut";

/// What a strategy owns and what it relies on, declared before anything is allocated. Resources are strings: the
/// override points above, "parameter storage", "summed gradients on dp", "axis tp", "unit recompute".
class Claims {
 public:
  /// No other strategy may claim it.
  void exclusive(std::string resource);
  /// Others may claim it too, but not exclusively.
  void shared(std::string resource);
  /// Some other strategy must claim it; `fix` says which one to add.
  void needs(std::string resource, std::string fix);

  const std::vector<std::string>& exclusive_claims() const { return exclusive_; }
  const std::vector<std::string>& shared_claims() const { return shared_; }
  const std::vector<std::pair<std::string, std::string>>& requirements() const { return needs_; }

 private:
  std::vector<std::string> exclusive_;
  std::vector<std::string> shared_;
  std::vector<std::pair<std::string, std::string>> needs_;
};

/// One strategy's claims, with the table that asked for it.
struct ClaimsOf {
  std::string plugin;
  std::string where;
  Claims claims;
};

/// Conflicts (both plugins and the resource named) and unmet requirements are added to `diagnostics`.
void judge_claims(const std::vector<ClaimsOf>& all, Diagnostics& diagnostics);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
