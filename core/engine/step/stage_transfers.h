#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/nn/batch.h>
#include <capstan/strategy/program.h>

#include <ATen/core/Tensor.h>

#include <compare>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// A way from one position on pp to another, of states or of gradients.
struct Channel {
  int from = 0;
  int to = 0;
  bool has_states = true;
  auto operator<=>(const Channel&) const = default;
};
/// A group of two ranks for each, the sender first: what goes one way waits for nothing that goes another.
using Channels = std::map<Channel, std::shared_ptr<comm::Group>>;
/// A position's channels; `ranks` by position. `make` makes the group of two ranks, in one order for all
/// positions.
Channels channels_of(const strategy::Stages& stages, int position, const std::vector<int>& ranks,
                     const std::function<std::shared_ptr<comm::Group>(const Channel&, const std::vector<int>&)>& make);

/// Moves hidden states and their gradients between positions on pp. What is sent stays in memory until it has left, on
/// CPU until finish(). The first time that a stage sends states of a batch's shape, their shapes, dtypes and whether
/// their gradients are wanted go before them, which on a GPU the receiver's host waits for.
class StageTransfers {
 public:
  /// The transfers of `position`.
  StageTransfers(Channels channels, int position) : channels_(std::move(channels)), position_(position) {}
  /// `action` says which transfer it is, here and below.
  void send_states(const std::vector<at::Tensor>& states, const nn::Batch& batch, int to,
                   const strategy::Action& action);
  void send_gradients(const std::vector<at::Tensor>& gradients, int to, const strategy::Action& action);
  /// Starts what wait_for(action) then waits for. Receives are started in the order in which they are sent.
  void start_states(const nn::Batch& batch, int from, const strategy::Action& action);
  /// The gradients of these tensors.
  void start_gradients(const std::vector<at::Tensor>& of, int from, const strategy::Action& action);
  /// What was started: states are leaves, which require gradients where the sender's do.
  std::vector<at::Tensor> wait_for(const strategy::Action& action, int from);
  /// What a stage gets of batches of this shape, which then is not sent before it.
  void expect(int stage, const nn::Batch& batch, const std::vector<at::Tensor>& states);
  /// Waits until all that was sent has left.
  void finish();

 private:
  struct Form {
    c10::ScalarType dtype;
    bool requires_grad;
    std::vector<std::int64_t> shape;
  };
  /// A stage, whether gradients are recorded, whether the batch is trained on, and its rows and columns.
  using Key = std::tuple<int, bool, bool, std::int64_t, std::int64_t>;
  struct Moving {
    at::Tensor tensor;
    std::unique_ptr<comm::Pending> pending;
  };
  using Name = std::tuple<strategy::Action::Kind, int, int>;  // kind, stage and micro-batch
  struct Coming {
    Name name;
    Moving moving;
    bool requires_grad = false;
  };
  static Key key_of(int stage, const nn::Batch& batch);
  static at::Tensor header_of(const std::vector<at::Tensor>& states, c10::Device device);
  static std::vector<Form> forms_in(const at::Tensor& header);
  void send(comm::Group& group, const at::Tensor& tensor, const strategy::Action& action);
  void end(std::deque<Coming>& coming, const std::deque<Coming>::iterator& last);
  void start(int from, const at::Tensor& tensor, const strategy::Action& action, bool requires_grad);

  Channels channels_;
  int position_;
  std::map<Key, std::vector<Form>> forms_;  ///< what a stage receives has them
  std::set<Key> told_;                      ///< a stage has sent their forms
  std::deque<Moving> sent_;
  std::map<Channel, std::deque<Coming>> coming_;  ///< what was started, in this order
  std::map<Name, std::vector<at::Tensor>> here_;  ///< what came before something that was waited for
};

}  // namespace step
CAPSTAN_END_NAMESPACE
