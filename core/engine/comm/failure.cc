#include "comm/failure.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include "comm/connect.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace capstan::comm {

Communicator::~Communicator() = default;

PeerFailed::PeerFailed(const std::string& message, int rank) : Error(message), rank_(rank) {}
PeerFailed::~PeerFailed() = default;

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

FailureNote::FailureNote() : fd_(::memfd_create("capstan-failure", 0)) {
  if (fd_ < 0) throw Error(cat("cannot make memory that ranks share: ", std::strerror(errno)));
}

FailureNote::~FailureNote() { ::close(fd_); }

void FailureNote::write(int rank, const std::string& host, const std::string& message) const {
  const auto text = Failure{rank, host, message}.serialized();
  // It fits in one page: readers see all of it, or nothing.
  [[maybe_unused]] const auto written =
      ::pwrite(fd_, text.data(), std::min<std::size_t>(text.size(), failure_note_bytes), 0);
}

std::optional<Failure> read_failure_note(int fd) {
  if (fd < 0) return std::nullopt;
  std::array<char, failure_note_bytes> text{};
  const auto length = ::pread(fd, text.data(), text.size(), 0);
  if (length <= 0) return std::nullopt;
  return Failure::parse({text.data(), static_cast<std::size_t>(length)});
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
  throw PeerFailed(failure_->text(), failure_->rank);
}

void FailureState::wait(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return failure_.has_value() || done(); });
}

void FailureState::wake() {
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

}  // namespace capstan::comm
