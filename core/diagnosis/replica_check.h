#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "diagnosis/door.h"
#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace diagnosis {

/// See Door::replicas.
class ReplicaCheck final : public Replicas {
 public:
  ReplicaCheck(const step::Session& session, std::int64_t every);
  bool due(std::int64_t steps_done, std::int64_t first_step) const override;
  void run(std::int64_t steps_done) override;

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

std::unique_ptr<Replicas> compare_replicas(const step::Session& session, std::int64_t every);

}  // namespace diagnosis
CAPSTAN_END_NAMESPACE
