#include <ATen/ATen.h>
#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/testing.h>

#include <algorithm>
#include <cmath>

namespace capstan::testing {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// How much further final weights may be apart than gradients. Where a gradient is nothing but rounding (a key's bias),
// AdamW divides 1e-16 of the others by its epsilon of 1e-8 and multiplies by the learning rate, in each step.
constexpr double weights_slack = 1000;

double largest(const at::Tensor& tensor) { return tensor.numel() == 0 ? 0.0 : tensor.abs().max().item<double>(); }

class Comparison {
 public:
  Comparison(const TrainResult& run, const TrainResult& reference, double tolerance)
      : run_(run), reference_(reference), tolerance_(tolerance) {}

  void series(const char* what, const std::vector<double>& mine, const std::vector<double>& theirs) {
    if (mine.size() != theirs.size()) {
      return say(cat(what, ": ", counted(mine.size(), "step"), ", the reference has ", theirs.size()));
    }
    for (std::size_t s = 0; s < mine.size(); ++s) {
      const auto apart = std::abs(mine[s] - theirs[s]);
      if (apart <= tolerance_ * std::abs(theirs[s])) continue;  // not `greater`, since a NaN is a difference too
      return say(cat(what, " of step ", s, ": ", number_text(mine[s]), ", not ", number_text(theirs[s]), " (apart by ",
                     number_text(apart / std::abs(theirs[s])), " of it; later steps are not compared)"));
    }
  }

  void tensors(const char* what, const Tensors& mine, const Tensors& theirs, double slack = 1) {
    for (const auto& [name, tensor] : theirs) {
      const auto found = mine.find(name);
      if (found == mine.end()) {
        say(cat(what, " ", name, ": the run has none"));
      } else if (found->second.sizes() != tensor.sizes()) {
        say(cat(what, " ", name, ": has shape ", found->second.sizes(), ", not ", tensor.sizes()));
      } else {
        values(what, name, found->second, theirs, slack);
      }
    }
    for (const auto& [name, tensor] : mine) {
      if (theirs.count(name) == 0) say(cat(what, " ", name, ": the reference has none"));
    }
  }

  void copies() {
    for (const auto& [what, apart] : run_.disagreements) {
      const auto name = what.substr(what.rfind(' ') + 1);
      const bool is_gradient = what.rfind("gradient", 0) == 0;
      const auto scale = group_largest(is_gradient ? reference_.gradients : reference_.weights, name);
      if (!(apart <= tolerance_ * scale)) say(cat(what, ": ranks hold copies that are ", number_text(apart), " apart"));
    }
  }

  const std::string& text() const { return text_; }

 private:
  void say(const std::string& line) { text_ += line + "\n"; }

  void values(const char* what, const std::string& name, const at::Tensor& mine, const Tensors& theirs, double slack) {
    const auto& tensor = theirs.at(name);
    if (at::equal(mine, tensor)) return;
    const auto apart = largest(mine - tensor);
    const auto scale = group_largest(theirs, name);
    if (!std::isfinite(apart)) return say(cat(what, " ", name, ": some elements are not finite"));
    if (apart <= slack * tolerance_ * scale) return;
    say(cat(what, " ", name, ": apart by ", number_text(apart), " where the largest of its group is ",
            number_text(scale)));
  }

  double group_largest(const Tensors& tensors, const std::string& name) const {
    const auto group = reference_.fused.find(name);
    double most = 0;
    for (const auto& member : group == reference_.fused.end() ? std::vector<std::string>{name} : group->second) {
      if (const auto found = tensors.find(member); found != tensors.end())
        most = std::max(most, largest(found->second));
    }
    return most;
  }

  const TrainResult& run_;
  const TrainResult& reference_;
  double tolerance_;
  std::string text_;
};

}  // namespace

std::string differences(const TrainResult& run, const TrainResult& reference, double tolerance) {
  Comparison comparison(run, reference, tolerance);
  comparison.tensors("gradient of", run.gradients, reference.gradients);
  comparison.series("loss", run.losses, reference.losses);
  comparison.series("gradient norm", run.norms, reference.norms);
  comparison.tensors("weight", run.weights, reference.weights, weights_slack);
  for (const auto& [state, tensors] : reference.states) {
    const auto mine = run.states.find(state);
    comparison.tensors(cat(state, " of").c_str(), mine == run.states.end() ? Tensors() : mine->second, tensors,
                       weights_slack);
  }
  comparison.copies();
  return comparison.text();
}

double weight_distance(const TrainResult& run, const TrainResult& reference) {
  double most = 0;
  for (const auto& [name, weight] : reference.weights) most = std::max(most, largest(weight - run.weights.at(name)));
  return most;
}

}  // namespace capstan::testing
