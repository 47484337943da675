// A rank that fails before it has connected, and those that learn of it.

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "peers/network.h"
#include "peers/peers.h"
#include "peers/rendezvous.h"
#include "peers/secret.h"
#include "peers/store.h"

namespace capstan::peers {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds effort{30};          // time to tell peers through a store that may not exist yet
constexpr seconds other_attempt{120};  // a failure that much older than this process is from another run

fs::path file_of(const Rendezvous& where) { return where.file + ".failed"; }

/// The first one wins: a hard link never replaces an existing file.
void leave_file(const Rendezvous& where, const Failure& failure) {
  const fs::path file = file_of(where);
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const fs::path own = cat(file.string(), "-", failure.rank);
  write_file(own, failure.serialized());
  fs::create_hard_link(own, file, ignored);
  fs::remove(own, ignored);
}

void tell_store(const Options& options, const Failure& failure) {
  const Rendezvous& where = options.rendezvous;
  const auto limit = std::min<milliseconds>(effort, options.connect_timeout);
  if (options.world.rank != 0 || where.store_exists) {
    const auto deadline = Clock::now() + limit;
    auto secret = find_secret(where);
    for (; !secret && Clock::now() < deadline; secret = find_secret(where))
      std::this_thread::sleep_for(milliseconds(50));
    const auto store = reach_store(options, resolve(where.host).front(), where.port, secret.value_or(""), limit);
    store->set_if_absent("failure", failure.serialized());
    store->set(cat("informed/", options.world.rank), "yes");  // informed of its own failure, or of the first one's
    return;
  }
  const auto store = serve_store(resolve(where.host).front(), where.port, where.prefix, make_secret(where));
  store->set_if_absent("failure", failure.serialized());
  wait_until_informed(*store, options.world.size, limit, /*joined_alone=*/false);
}

}  // namespace

std::optional<Failure> read_early_failure(const Rendezvous& where) {
  if (where.file.empty()) return std::nullopt;
  const fs::path file = file_of(where);
  std::error_code absent;
  // NFS caches that a file was absent; opening its folder refreshes the cache.
  (void)fs::directory_iterator(file.parent_path(), absent);
  const auto written = fs::last_write_time(file, absent);
  const auto started = fs::last_write_time("/proc/self", absent);
  if (absent || written + other_attempt < started) return std::nullopt;
  return Failure::parse(read_file(file));
}

void wait_until_informed(Store& store, int size, milliseconds limit, bool joined_alone) {
  const auto deadline = Clock::now() + limit;
  for (int rank = 1; rank < size && Clock::now() < deadline;) {
    const bool counts = !joined_alone || store.has({cat("hello/", rank)});
    if (counts && !store.has({cat("informed/", rank)})) {
      std::this_thread::sleep_for(milliseconds(10));
    } else {
      ++rank;
    }
  }
}

void report_early_failure(const Options& options, const std::string& message) noexcept {
  if (options.world.size == 1) return;
  try {
    const Failure failure{options.world.rank, options.world.host, message};
    if (options.rendezvous.file.empty()) {
      tell_store(options, failure);
    } else {
      leave_file(options.rendezvous, failure);
    }
  } catch (const std::exception& error) {
    log::debug(cat("the other ranks cannot be told: ", error.what()));
  }
}

}  // namespace capstan::peers
