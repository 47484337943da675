#include <capstan/base/output.h>

#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace capstan {

Output::~Output() {
  if (!write_held()) lost_ += held_.size();
  if (lost_ > 0) log::warning(cat(lost_, " bytes could not be written to ", name(), ": ", meaning_of(reason_)));
}

void Output::write(std::string_view text) {
  constexpr std::size_t most_held = std::size_t{1} << 20;
  if (held_.size() + text.size() <= most_held) {
    held_ += text;
  } else {
    lost_ += text.size();
  }
  write_held();
}

bool Output::write_held() {
  while (!held_.empty()) {
    const auto written = ::write(fd_, held_.data(), held_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      failed(written < 0 ? errno : ENOSPC);
      return false;
    }
    held_.erase(0, static_cast<std::size_t>(written));
  }
  return true;
}

const char* Output::name() const { return fd_ == STDERR_FILENO ? "standard error" : "standard output"; }

void Output::failed(int reason) {
  constexpr std::chrono::minutes between{1};
  reason_ = reason;
  if (reason == EAGAIN) return;                                   // a slow terminal
  if (reason == EPIPE) lost_ += std::exchange(held_, {}).size();  // and it never recovers
  const auto now = std::chrono::steady_clock::now();
  if (warned_ != decltype(warned_){} && now - warned_ < between) return;
  warned_ = now;
  log::warning(cat("cannot write to ", name(), ": ", meaning_of(reason),
                   reason == EPIPE ? "" : "; what is shown there follows when it can"));
}

}  // namespace capstan
