#include "comm/meeting.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>
#include <utility>

#include "comm/failure.h"
#include "comm/network.h"
#include "comm/store.h"

namespace capstan::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds news_interval{10};
constexpr milliseconds attempt{3000};  // to reach the address in a file, which may be an old one

std::string hello_key(int rank) { return cat("hello/", rank); }

/// The address under which the others reach a store in this process.
std::string serving_address(const ConnectOptions& options) {
  if (!options.interface.empty()) return address_of_interface(options.interface);
  if (!options.rendezvous.host.empty()) return resolve(options.rendezvous.host);
  return options.world.nodes == 1 ? "127.0.0.1" : own_address();
}

std::unique_ptr<Store> serve(const ConnectOptions& options, std::string& address) {
  const Rendezvous& where = options.rendezvous;
  address = serving_address(options);
  auto store = Store::serve(address, where.port, where.prefix);
  if (!where.file.empty()) write_file(where.file, cat(address, ":", store->port(), "\n"));
  return store;
}

/// "host:port" of a published file; an empty host while there is none.
std::pair<std::string, int> read_published(const std::string& file) {
  if (!std::filesystem::exists(file)) return {};
  const std::string text = trim(read_file(file));
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  int port = 0;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  return {text.substr(0, colon), port};
}

/// A file may be there from an attempt that died, so it is read again whenever nobody answers.
std::unique_ptr<Store> find(const ConnectOptions& options, std::string& address) {
  const auto deadline = Clock::now() + options.connect_timeout;
  for (;;) {
    const auto [host, port] = read_published(options.rendezvous.file);
    if (!host.empty()) {
      try {
        address = host;
        return Store::connect(host, port, options.rendezvous.prefix, std::min(attempt, options.connect_timeout));
      } catch (const Error& error) {
        log::debug(cat("rendezvous at ", host, ":", port, ": ", error.what()));
      }
    }
    if (Clock::now() > deadline) {
      throw Error(
          cat("rank ", options.world.rank, " found no rank 0: ",
              host.empty() ? cat(options.rendezvous.file, " did not appear")
                           : cat("nobody answers at ", host, ":", port, ", which ", options.rendezvous.file, " names")),
          "the folder of that file must be shared by all nodes; is rank 0 running?");
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

std::unique_ptr<Store> open_store(const ConnectOptions& options, bool serves, std::string& address) {
  if (serves) return serve(options, address);
  if (options.rendezvous.host.empty()) return find(options, address);
  address = resolve(options.rendezvous.host);
  try {
    return Store::connect(address, options.rendezvous.port, options.rendezvous.prefix, options.connect_timeout);
  } catch (const Error&) {
    throw Error(cat("rank ", options.world.rank, " cannot reach the rendezvous at ", options.rendezvous.text()),
                "is rank 0 running there? MASTER_ADDR and MASTER_PORT name it");
  }
}

std::string gloo_address(const ConnectOptions& options, const std::string& store_address) {
  if (!options.interface.empty()) return address_of_interface(options.interface);
  std::string address = address_towards(store_address);
  if (address.empty() || (is_loopback(address) && options.world.nodes > 1)) return own_address();
  return address;
}

std::vector<int> missing_ranks(Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.has({hello_key(rank)})) missing.push_back(rank);
  }
  return missing;
}

std::string list_of(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(names));
}

/// Rank 0: waits for all, says every ten seconds who is missing, and tells all when they are there.
void gather(Store& store, const ConnectOptions& options) {
  const int size = options.world.size;
  const auto start = Clock::now();
  auto news = start + news_interval;
  for (;;) {
    const auto missing = missing_ranks(store, size);
    if (missing.empty()) break;
    const auto now = Clock::now();
    if (now > start + options.connect_timeout) {
      const std::string message = cat(list_of(missing), " of ", size, " did not connect within ",
                                      duration_text(std::chrono::duration<double>(now - start).count()), " (min:s)");
      store.set_if_absent("failure", Failure{0, options.world.host, message}.serialized());
      std::this_thread::sleep_for(milliseconds(500));  // for those that are here to read it: the store ends with us
      throw Error(message, "look at the end of those ranks' output; were all of them started?");
    }
    if (now > news) {
      log::warning(
          cat("connected ", size - static_cast<int>(missing.size()), "/", size, ", waiting for ", list_of(missing)));
      news += news_interval;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::vector<std::string> hosts;
  hosts.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) hosts.push_back(split(store.get(hello_key(rank)), '\t').front());
  store.set("ready", join(hosts, "\t"));
}

}  // namespace

std::string Rendezvous::text() const { return host.empty() ? file : cat(host, ":", port); }

Meeting meet(const ConnectOptions& options) {
  const World& world = options.world;
  Meeting meeting;
  meeting.hosts_store = world.rank == 0 && !options.rendezvous.store_exists;
  std::string store_address;
  meeting.store = open_store(options, meeting.hosts_store, store_address);
  meeting.address = gloo_address(options, store_address);
  Store& store = *meeting.store;
  store.set(cat("alive/", world.rank), "0");
  const std::string hello = cat(world.host, '\t', Clock::now().time_since_epoch().count());
  const std::string there = store.set_if_absent(hello_key(world.rank), hello);
  if (there != hello) {
    throw Error(cat("two processes are rank ", world.rank, ": on ", split(there, '\t').front(), " and on ", world.host),
                "each rank must be started once; is another run using the same rendezvous?");
  }
  if (world.rank == 0) gather(store, options);
  FailureState failure(world.rank);
  if (!wait_for(store, {"ready"}, failure, options.connect_timeout + std::chrono::seconds(10))) {
    throw Error(cat("rank ", world.rank, " waits in vain for the others to connect"), "look at rank 0's output");
  }
  meeting.hosts = split(store.get("ready"), '\t');
  if (meeting.hosts_store && !options.rendezvous.file.empty()) std::filesystem::remove(options.rendezvous.file);
  return meeting;
}

bool wait_for(Store& store, const std::vector<std::string>& keys, FailureState& failure, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  milliseconds pause{1};
  while (!store.has(keys)) {
    failure.throw_if_failed();
    if (store.has({"failure"})) failure.fail(Failure::parse(store.get("failure")));
    if (Clock::now() > deadline) return false;
    failure.wait([] { return false; }, pause);
    pause = std::min(2 * pause, milliseconds(50));
  }
  return true;
}

}  // namespace capstan::comm
