#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Compares what ranks hold alike (parameters, adapters, optimizer state, compute copies): each holder of a tensor must
/// have the same bits. Checksums are made on the device; what only one rank holds, or what is in another memory than
/// the run's device, costs nothing and is not compared. One object a run; all ranks call it alike.
class ReplicaCheck {
 public:
  /// A drift begins with the first updates: these are always compared.
  static constexpr std::int64_t first_steps = 3;

  /// It is due every `every` steps; 0: never. `session` must outlive it.
  ReplicaCheck(const step::Session& session, std::int64_t every);
  /// Is it due when `steps_done` steps are done, some of them by this process?
  bool due(std::int64_t steps_done, std::int64_t first_step) const;
  bool on() const { return every_ > 0; }
  /// Throws Error, the same on all ranks, that names what differs, the ranks, the axes along which they are replicas,
  /// and the steps between which it happened. Call it after at least one step. Waits for the device. Collective over
  /// the world.
  void run(std::int64_t steps_done);

 private:
  // A tensor of this rank. Ranks that have the same key hold the same tensor.
  struct Held {
    std::string key;
    at::Tensor value;
  };
  // A place in the ranks' lists of checksums.
  struct Place {
    int rank;
    std::int64_t slot;
  };
  struct Shared {
    std::string key;
    std::vector<Place> holders;
  };
  std::vector<Held> held() const;
  void find_shared(const std::vector<Held>& mine);
  at::Tensor gather(const std::vector<Held>& mine) const;
  void compare(const at::Tensor& all, std::int64_t steps_done) const;
  [[noreturn]] void refuse(const Shared& shared, const Place& other, std::size_t more, std::int64_t steps_done) const;

  const step::Session& session_;
  const layout::Mesh& mesh_;
  std::int64_t every_;
  bool knows_shared_ = false;
  std::vector<std::size_t> compared_;  ///< indices into held(): what another rank holds too
  std::vector<Shared> shared_;         ///< all ranks'
  std::int64_t slots_ = 0;             ///< as many as the rank has that compares most
  std::int64_t equal_after_ = -1;      ///< steps; -1: never compared
};

}  // namespace train
CAPSTAN_END_NAMESPACE
