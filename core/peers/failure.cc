#include "peers/failure.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/peers/peer_failed.h>

#include <charconv>

namespace capstan {

comm::PeerFailed::PeerFailed(const std::string& message, int rank) : Error(message), rank_(rank) {}
comm::PeerFailed::~PeerFailed() = default;

}  // namespace capstan

namespace capstan::peers {

std::string Failure::text() const {
  if (rank < 0) return message;
  return cat("rank ", rank, host.empty() ? "" : " on ", host, " failed: ", message);
}

std::string Failure::brief() const {
  auto whole = text();
  const auto end = whole.find('\n');
  if (end == std::string::npos) return whole;
  const bool colon = end > 0 && whole[end - 1] == ':';
  return cat(whole.substr(0, colon ? end - 1 : end), " (rank ", teller(), " says more)");
}

std::string Failure::serialized() const { return cat(rank, '\n', host, '\n', message); }

Failure Failure::parse(std::string_view text) {
  const auto first = text.find('\n');
  const auto second = text.find('\n', first == std::string_view::npos ? first : first + 1);
  CAPSTAN_ASSERT(second != std::string_view::npos);
  Failure failure;
  std::from_chars(text.data(), text.data() + first, failure.rank);
  failure.host = text.substr(first + 1, second - first - 1);
  failure.message = text.substr(second + 1);
  return failure;
}

bool FailureState::fail(const Failure& failure) {
  const std::scoped_lock lock(mutex_);
  if (failure.rank == rank_ && !own_) own_ = failure.message;
  if (failure_) return false;
  failure_ = failure;
  changed_.notify_all();
  return true;
}

bool FailureState::shared() const {
  const std::scoped_lock lock(mutex_);
  return failure_ && own_ && failure_->message == *own_;
}

std::optional<Failure> FailureState::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

bool FailureState::seen() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

void FailureState::throw_if_failed() {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return;
  seen_ = true;
  if (failure_->rank == rank_) throw Error(failure_->message);
  throw comm::PeerFailed(failure_->text(), failure_->rank);
}

void FailureState::wait(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return failure_.has_value() || done(); });
}

void FailureState::wake() {
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

}  // namespace capstan::peers
