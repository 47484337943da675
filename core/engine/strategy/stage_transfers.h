#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/nn/batch.h>
#include <capstan/strategy/program.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// The positions on pp, for what goes to later stages and for what comes back: two, since a rank that waits for
/// gradients must not keep states from leaving. Null where one rank has the whole model.
struct TransferGroups {
  std::shared_ptr<comm::Group> states;
  std::shared_ptr<comm::Group> gradients;
};

/// Moves hidden states and their gradients between positions on pp. What is sent stays in memory until finish(). The
/// first time that a stage sends states of a batch's shape, their shapes, dtypes and whether their gradients are wanted
/// go before them, which on a GPU the receiver's host waits for.
class StageTransfers {
 public:
  explicit StageTransfers(TransferGroups groups) : groups_(std::move(groups)) {}
  /// `action` says which transfer it is, here and below.
  void send_states(const std::vector<at::Tensor>& states, const nn::Batch& batch, int to, const Action& action);
  /// Leaves, which require gradients where the sender's do.
  std::vector<at::Tensor> receive_states(const nn::Batch& batch, int from, const Action& action);
  void send_gradients(const std::vector<at::Tensor>& gradients, int to, const Action& action);
  /// The gradients of these tensors.
  std::vector<at::Tensor> receive_gradients(const std::vector<at::Tensor>& of, int from, const Action& action);
  /// Waits until all that was sent has left.
  void finish();

 private:
  struct Form {
    c10::ScalarType dtype;
    bool requires_grad;
    std::vector<std::int64_t> shape;
  };
  /// A stage, whether gradients are recorded, and the batch's rows and columns.
  using Key = std::tuple<int, bool, std::int64_t, std::int64_t>;
  struct Sent {
    at::Tensor tensor;
    std::unique_ptr<comm::Pending> pending;
  };
  static Key key_of(int stage, const nn::Batch& batch);
  at::Tensor header_of(const std::vector<at::Tensor>& states) const;
  static std::vector<Form> forms_in(const at::Tensor& header);
  void send(comm::Group& group, const at::Tensor& tensor, int to, const Action& action);

  TransferGroups groups_;
  std::map<Key, std::vector<Form>> forms_;  ///< of what a stage receives
  std::set<Key> told_;                      ///< whose forms a stage has sent
  std::vector<Sent> sent_;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
