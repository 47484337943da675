#pragma once
/// A step as a program: what a rank does with which micro-batch in which stage, in which order.
#include <capstan/base/export.h>

#include <cstddef>
#include <functional>
#include <map>
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
/// replaces, or that a recomputed unit or region runs again, and the head's, are computed at once, and what they give
/// to weights stays until then.
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

/// Does the action move something between positions?
constexpr bool is_transfer(const Action& action) { return action.kind >= Action::Kind::send_states; }

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

/// How long things take, in any unit; infinite: for ever. As they stand here, a forward or a part of a backward takes
/// 1, a backward 2 and a transfer nothing.
struct Durations {
  /// How long a forward or a backward takes, or a part of one, at this place of the position's program.
  std::function<double(std::size_t position, std::size_t place, const Action& action)> computing =
      [](auto, auto, const Action& action) { return action.kind == Action::Kind::backward ? 2.0 : 1.0; };
  /// How long it takes from when one position has computed something until the other one has it.
  std::function<double(std::size_t from, std::size_t to, const Action& send)> transfer = [](auto...) { return 0.0; };
};
/// When a step's actions happen.
struct Timeline {
  struct Slot {
    Action action;
    double begin = 0, end = 0;
  };
  struct Transfer {
    Action send, receive;
    std::size_t from = 0, to = 0;  ///< positions
    double begin = 0;
  };
  std::vector<std::vector<Slot>> rows;  ///< by position, without transfers, up to what waits for ever
  std::vector<Transfer> transfers;      ///< transfers that something has waited for
  std::vector<double> busy;             ///< by position: how long it computes
  std::map<std::size_t, Action> stuck;  ///< by position: what waits for something that is never computed
  double length = 0;                    ///< when the last action ends
};
/// Runs all positions' programs in thought. A position does one thing after the other. A forward waits for the forward
/// of the stage before, a backward or one of inputs for that of the stage after, and for the transfer if that is
/// another position's, which continues meanwhile. Transfers follow from this, and those of a program are passed over.
/// `stages`: how many the model has, where programs may lack the last ones.
Timeline timeline_of(const std::vector<Program>& programs, const Durations& durations = {}, int stages = 0);

/// The program with what a position sends and receives, where the neighbouring stage is another position's. A receive
/// starts there, and what needs it waits. A transfer stands at the same place of one order of all that happens on all
/// positions, with its sender and with its receiver: when the stage before has computed it, by timeline_of with
/// durations as they stand. So programs end even where a position does one thing after the other and each transfer
/// waits for its other end, as GPUs do when they load a kernel or run out of queues. Throws Error if something that a
/// position needs is never sent.
Program with_transfers(const Program& program, const Stages& stages, int position);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
