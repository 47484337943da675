#pragma once
// A strategy that cuts any model into stages along pp, for tests of what the engine does with stages.
#include <capstan/strategy.h>
#include <capstan/testing.h>

#include <algorithm>
#include <string>
#include <vector>

namespace capstan::testing {

struct StageOptions {
  std::string form;
  static void describe(config::OptionTable<StageOptions>& t) {
    t.add("form", &StageOptions::form).doc("how the model is cut, and in which order its stages run");
  }
};

inline strategy::Program one_forward_one_backward(int ranks, int position, int micros) {
  strategy::Program program;
  const int ahead = std::min(micros, ranks - 1 - position);
  for (int m = 0; m < micros + ahead; ++m) {
    if (m < micros) program.push_back({strategy::Action::Kind::forward, position, m});
    if (m >= ahead) program.push_back({strategy::Action::Kind::backward, position, m - ahead});
  }
  return program;
}

// All forwards of a position's stages, then all backwards.
inline strategy::Program all_forwards_first(const std::vector<int>& positions, int position, int micros) {
  strategy::Program program;
  const int stages = static_cast<int>(positions.size());
  const auto add = [&](strategy::Action::Kind kind, int stage) {
    if (positions[static_cast<std::size_t>(stage)] != position) return;
    for (int m = 0; m < micros; ++m) program.push_back({kind, stage, m});
  };
  for (int stage = 0; stage < stages; ++stage) add(strategy::Action::Kind::forward, stage);
  for (int stage = stages; stage-- > 0;) add(strategy::Action::Kind::backward, stage);
  return program;
}

class InStages : public strategy::Strategy {
 public:
  explicit InStages(const config::Options<StageOptions>& options) : form_(options->form) {}
  void mesh(layout::MeshSpec& spec) override {
    spec.set(layout::Axis::pp, form_ == "three" ? 3 : 2, "strategy.in_stages", "the test");
  }
  void claim(strategy::Claims& claims) const override {
    claims.exclusive(strategy::step_program_point);
    claims.exclusive("axis pp");
  }
  strategy::Stages stages(const std::vector<std::unique_ptr<nn::Unit>>& units, const layout::Mesh& mesh) override {
    const int ranks = mesh.size(layout::Axis::pp);
    strategy::Stages stages;
    if (form_ == "two" || form_ == "three") {
      stages.first_units =
          ranks == 2 ? std::vector<std::size_t>{0, units.size() / 2} : std::vector<std::size_t>{0, 1, 3};
      stages.positions = ranks == 2 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
      stages.program = [ranks](int position, int micros) { return one_forward_one_backward(ranks, position, micros); };
      return stages;
    }
    stages.first_units = {0, 1, 2, 3};
    stages.positions = form_ == "looped" ? std::vector<int>{0, 1, 0, 1} : std::vector<int>{0, 1, 1, 0};
    stages.program = [positions = stages.positions](int position, int micros) {
      return all_forwards_first(positions, position, micros);
    };
    return stages;
  }

 private:
  std::string form_;
};

/// The strategy "in_stages", whose `form` is "two" or "three" stages, one on each rank, one forward one backward; or
/// four stages on two ranks, in turn ("looped") or there and back ("v"), all forwards before all backwards.
inline plugin::Registration in_stages() {
  return type<strategy::Strategy, InStages, StageOptions>("strategy", "in_stages");
}
inline std::string stages_table(const std::string& form) { return "[strategy.in_stages]\nform = \"" + form + "\"\n"; }

}  // namespace capstan::testing
