#pragma once
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What becomes of State::tensor() where a run resumes on another mesh: each rank saved its own, and there are other
/// ranks now.
enum class OnOtherMesh {
  refuse,     ///< the run does not resume there
  start_anew  ///< it does, with zeros and a warning
};

/// What a strategy's StepHooks derive from too, if they say so. For hooks that do not, a state is refused where a
/// checkpoint also has tensors of records (State::of_part()), which do come back, since half of a state fits nothing; a
/// state that has only tensor() starts again.
class OwnState {
 public:
  virtual ~OwnState();
  virtual OnOtherMesh on_other_mesh() const = 0;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
