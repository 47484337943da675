#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// What a waiting rank throws when another one failed first. The message is the first failure of the run.
class PeerFailed : public Error {
 public:
  PeerFailed(const std::string& message, int rank);
  ~PeerFailed() override;
  /// Who failed first; -1 when a collective did not end and no rank is known to be at fault.
  int rank() const { return rank_; }

 private:
  int rank_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
