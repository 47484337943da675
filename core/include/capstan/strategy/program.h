#pragma once
/// A step as a program: what a rank does with which micro-batch in which stage, in which order.
#include <capstan/base/export.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What a rank does with a micro-batch in a stage, which is a stretch of the model's units. Gathers and releases of
/// parameters follow from forward and backward; a gradient is summed after the last backward of the program that adds
/// to it.
struct Action {
  enum class Kind { forward, backward, send_states, receive_states, send_gradients, receive_gradients };
  Kind kind = Kind::forward;
  int stage = 0;
  int micro = 0;  ///< the micro-batch of the step, from 0
  bool operator==(const Action&) const = default;
};
using Program = std::vector<Action>;

/// "forward of micro-batch 2 in stage 1".
std::string text(const Action& action);
/// What a transfer carries, in the same words for who sends it and who receives it: "states of micro-batch 2 from stage
/// 1 to 2". Only for transfers.
std::string cargo(const Action& transfer);

/// How a model is cut into stages, each of which a position on the mesh's axis pp computes.
struct Stages {
  /// Where each stage begins in the model's chain; the first begins at 0. A stage has at least one unit.
  std::vector<std::size_t> first_units{0};
  std::vector<int> positions{0};  ///< who computes each stage: positions on pp. One may have several
  /// The forwards and backwards of a position's stages, each once for each of `micros` micro-batches, in the order in
  /// which they run. Transfers between positions are added (with_transfers).
  std::function<Program(int position, int micros)> program;
};

/// Forward and backward of one micro-batch after the other, through all stages: what one rank does with a whole model.
Program accumulation(int stages, int micros);
/// The program with what a position sends and receives: states before a forward and after it, and gradients before a
/// backward and after it, where the neighbouring stage is another position's.
Program with_transfers(const Program& program, const Stages& stages, int position);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
