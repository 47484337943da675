#pragma once
/// A step as a program: what a rank does with which micro-batch in which stage, in which order.
#include <capstan/base/export.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What a rank does with a micro-batch in a stage, which is a stretch of the model's units. Gathers and releases of
/// parameters follow from forward and backward; a gradient is summed after the last backward of the program that adds
/// to it.
///
/// backward_input is a backward that leaves gradients of weights of products (linears and experts) to a later
/// backward_weight of the same stage and micro-batch (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): the stage
/// before does not wait for them. Their inputs and gradients stay in memory until then. Products that a strategy's port
/// replaces, or that a recomputed unit or region runs again, and the head's, leave nothing.
struct Action {
  enum class Kind {
    forward,
    backward,
    backward_input,
    backward_weight,
    send_states,
    receive_states,
    send_gradients,
    receive_gradients
  };
  Kind kind = Kind::forward;
  int stage = 0;
  int micro = 0;  ///< the micro-batch of the step, from 0
  bool operator==(const Action&) const = default;
};
using Program = std::vector<Action>;

/// Does it make gradients of what a stage gets from the one before it?
constexpr bool makes_gradients(Action::Kind kind) {
  return kind == Action::Kind::backward || kind == Action::Kind::backward_input;
}
/// Are a micro-batch's gradients of a stage complete after it?
constexpr bool completes_gradients(Action::Kind kind) {
  return kind == Action::Kind::backward || kind == Action::Kind::backward_weight;
}

/// "forward of micro-batch 2 in stage 1".
std::string text(const Action& action);
/// What a transfer carries, in the same words for who sends it and who receives it: "states of micro-batch 2 from stage
/// 1 to 2". Only for transfers.
std::string cargo(const Action& transfer);
/// The receive of what a forward, a backward or one of inputs starts from; none of others.
std::optional<Action> receive_for(const Action& action);

/// How a model is cut into stages, each of which a position on the mesh's axis pp computes.
struct Stages {
  /// Where each stage begins in the model's chain; the first begins at 0. A stage has at least one unit.
  std::vector<std::size_t> first_units{0};
  std::vector<int> positions{0};  ///< who computes each stage: positions on pp. One may have several
  /// The forwards and backwards of a position's stages, each once for each of `micros` micro-batches, in the order in
  /// which they run; instead of a backward there may be a backward_input and later a backward_weight. Transfers between
  /// positions are added (with_transfers).
  std::function<Program(int position, int micros)> program;
};

/// Forward and backward of one micro-batch after the other, through all stages: what one rank does with a whole model.
Program accumulation(int stages, int micros);
/// The program with what a position sends and receives, where the neighbouring stage is another position's. A receive
/// starts there, and what needs it waits. A transfer stands at the same place of one order of all that happens on all
/// positions, with its sender and with its receiver: when the stage before has computed it, on a clock on which a
/// forward or a part of a backward takes 1 and a backward 2. So programs end even where a position does one thing after
/// the other and each transfer waits for its other end, as GPUs do when they load a kernel or run out of queues.
/// Throws Error if something that a position needs is never sent.
Program with_transfers(const Program& program, const Stages& stages, int position);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
