#include "train/nonfinite.h"

#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <cmath>

#include "diagnosis/door.h"

namespace capstan::train {

void NonFiniteSteps::bad(const monitor::StepEnded& event, const step::StepNumbers& numbers,
                         const step::StepInput& input) {
  const double scale = event.loss_scale.value_or(1.0);
  if (std::isfinite(event.loss) && scale_.can_shrink(scale)) {
    if (logs()) {
      log::info(cat("step ", event.step, " skipped: gradients overflowed at loss scale ", number_text(scale),
                    "; the scale goes down"));
    }
    return;
  }
  const auto found = diagnosis::door().bad_step({session_, event, numbers, input, scale_.on(), folder_});
  if (session_.job->config.train->on_nonfinite != "skip") throw Error(found.what, found.fix);
  skip(found.what);
}

void NonFiniteSteps::skip(const std::string& what) {
  ++in_a_row_;
  if (in_a_row_ == most_in_a_row) {
    throw Error(cat(in_a_row_, " steps in a row were not finite and were skipped; the last, ", what),
                "training cannot continue from these weights: lower optimizer.lr, or start from an earlier checkpoint");
  }
  if (logs()) log::warning(cat("skipped ", what));
}

}  // namespace capstan::train
