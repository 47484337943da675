#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// What the time since the process began went to. One thread at a time.
class PhaseClock {
 public:
  /// The first phase began with the process, as /proc says; where it does not, it begins now.
  PhaseClock();
  /// A phase has ended, which took the time since the last call. One that ends again adds up.
  void end(const std::string& phase);
  /// Seconds by phase, in the order in which they ended first.
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point last_;
  std::vector<std::pair<std::string, double>> seconds_;
};

CAPSTAN_END_NAMESPACE
