#include "peers/rendezvous.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/peers/peer_failed.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "peers/network.h"
#include "peers/ranks_text.h"
#include "peers/secret.h"
#include "peers/store.h"

namespace capstan::peers {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds attempt{3000};       // time to reach the address in a file, which may be an old one
constexpr milliseconds look_interval{200};  // at the shared folder
constexpr milliseconds last_words{30000};   // time for the others to read why the run does not start

std::string hello_key(int rank) { return cat("hello/", rank); }

/// The addresses under which the others may reach a store in this process.
std::vector<std::string> serving_addresses(const Options& options) {
  if (!options.interface.empty()) return {address_of_interface(options.interface)};
  if (!options.rendezvous.host.empty()) return resolve(options.rendezvous.host);
  if (options.world.nodes == 1) return {"127.0.0.1"};
  return own_addresses();
}

/// The first free port of those that the launcher reserved.
std::unique_ptr<Store> serve_on_a_port(const Rendezvous& where, const std::string& address, bool everywhere) {
  const auto secret = make_secret(where);
  std::string taken;
  for (const int port : where.ports) {
    try {
      return serve_store(address, port, where.prefix, secret, everywhere);
    } catch (const Error& error) {
      taken += cat("\n    ", error.diagnostics().front().what);
    }
  }
  if (where.ports.empty()) return serve_store(address, where.port, where.prefix, secret, everywhere);
  throw Error(cat("none of the ports that SLURM reserved for this step can be used:", taken),
              "another program uses them: give srun more with --resv-ports, or set MASTER_ADDR and MASTER_PORT");
}

std::unique_ptr<Store> serve(const Options& options, std::string& address) {
  const Rendezvous& where = options.rendezvous;
  const auto addresses = serving_addresses(options);
  address = addresses.front();
  auto store = serve_on_a_port(where, address, addresses.size() > 1);
  if (where.file.empty()) return store;
  std::string lines;
  for (const std::string& each : addresses) lines += cat(each, ":", store->port(), "\n");
  const auto folder = std::filesystem::path(where.file).parent_path();
  std::error_code shown_by_writing;
  if (!folder.empty()) std::filesystem::create_directories(folder, shown_by_writing);
  write_file(where.file, lines);
  return store;
}

/// The "address:port" lines of a published file; none while there is none.
std::vector<std::string> read_published(const std::string& file) {
  std::error_code absent;
  // NFS remembers that a file was absent; opening its folder makes it look again.
  (void)std::filesystem::directory_iterator(std::filesystem::path(file).parent_path(), absent);
  if (!is_there(file)) return {};
  auto lines = split(trim(read_file(file)), '\n');
  std::erase_if(lines, [](const std::string& line) { return line.find(':') == std::string::npos; });
  return lines;
}

/// One attempt at each "address:port"; null when none answers.
std::unique_ptr<Store> try_addresses(const std::vector<std::string>& addresses, const Options& options,
                                     std::string& reached) {
  const auto secret = find_secret(options.rendezvous);
  if (!secret) return nullptr;
  for (const std::string& address : addresses) {
    const auto colon = address.rfind(':');
    int port = 0;
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
    try {
      reached = address.substr(0, colon);
      return reach_store(options, reached, port, *secret, std::min(attempt, options.connect_timeout));
    } catch (const Error& error) {
      log::debug(cat("rendezvous at ", address, ": ", error.what()));
    }
  }
  return nullptr;
}

[[noreturn]] void throw_not_found(const Options& options, const std::vector<std::string>& addresses) {
  const Rendezvous& where = options.rendezvous;
  const auto me = cat("rank ", options.world.rank);
  if (where.host.empty()) {
    const auto seen = addresses.empty()
                          ? cat(where.file, " did not appear")
                          : cat("no process answers at ", join(addresses, " or "), ", which ", where.file, " names");
    throw Error(cat(me, " found no rank 0: ", seen),
                "the folder of that file must be shared by all nodes; is rank 0 running?");
  }
  if (!find_secret(where)) {
    throw Error(
        cat(me, " waited in vain for ", where.secret_file, ", in which rank 0 leaves the secret of this run"),
        "set run.dir to a folder that all nodes share, or export CAPSTAN_SECRET with the same long random text on "
        "all ranks");
  }
  throw Error(cat(me, " cannot reach the rendezvous at ", where.text()),
              "is rank 0 running there? MASTER_ADDR and MASTER_PORT name it");
}

/// A published file may be left from an attempt that died, so it is read again whenever no address answers. A host may
/// have several addresses, and some may be unreachable.
std::unique_ptr<Store> find(const Options& options, std::string& address) {
  const Rendezvous& where = options.rendezvous;
  std::vector<std::string> addresses;
  if (!where.host.empty()) {
    for (const std::string& each : resolve(where.host)) addresses.push_back(cat(each, ":", where.port));
  }
  const auto deadline = Clock::now() + options.connect_timeout;
  for (;;) {
    if (where.host.empty()) {
      if (const auto failure = read_early_failure(where)) throw comm::PeerFailed(failure->text(), failure->rank);
      addresses = read_published(where.file);
    }
    if (auto store = try_addresses(addresses, options, address)) return store;
    if (Clock::now() > deadline) throw_not_found(options, addresses);
    std::this_thread::sleep_for(milliseconds(50));
  }
}

bool is_ipv6(const std::string& address) { return address.find(':') != std::string::npos; }

// This rank's address for Gloo, in the family of `target`.
std::string gloo_address(const Options& options, const std::string& target) {
  if (!options.interface.empty()) return address_of_interface(options.interface);
  std::string address = address_towards(target);
  if (!address.empty() && !(is_loopback(address) && options.world.nodes > 1)) return address;
  const auto own = own_addresses();
  const auto same =
      std::find_if(own.begin(), own.end(), [&](const auto& each) { return is_ipv6(each) == is_ipv6(target); });
  return same == own.end() ? own.front() : *same;
}

std::vector<int> missing_ranks(Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.has({hello_key(rank)})) missing.push_back(rank);
  }
  return missing;
}

/// "rank 3 on gpu08, ranks 4-7 on gpu09" if hosts are known, "ranks 3-7" if not.
std::string list_of(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::vector<std::pair<std::string, std::vector<int>>> by_host;
  for (const int rank : ranks) {
    const auto i = static_cast<std::size_t>(rank);
    const auto host = i < hosts.size() ? hosts[i] : std::string();
    if (by_host.empty() || by_host.back().first != host) by_host.push_back({host, {}});
    by_host.back().second.push_back(rank);
  }
  std::vector<std::string> parts;
  for (const auto& [host, same] : by_host) parts.push_back(cat(ranks_text(same), host.empty() ? "" : " on ", host));
  return join(parts);
}

[[noreturn]] void give_up(Store& store, const Options& options, const std::vector<int>& missing,
                          Clock::duration waited) {
  const std::string message =
      cat(list_of(missing, options.hosts), " of ", options.world.size, " did not connect within ",
          duration_text(std::chrono::duration<double>(waited).count()), " (min:s)");
  store.set_if_absent("failure", Failure{0, options.world.host, message}.serialized());
  wait_until_informed(store, options.world.size, last_words);
  throw Error(message, "look at the end of those ranks' output; were all of them started?");
}

/// Rank 0: another rank has failed before it connected. Ranks learn of it through the store: where there is no file
/// that says it, also those that have yet to come.
void pass_on_early_failure(Store& store, const Options& options) {
  const auto from_file = read_early_failure(options.rendezvous);
  if (from_file) store.set_if_absent("failure", from_file->serialized());
  if (!from_file && !store.has({"failure"})) return;
  const auto failure = Failure::parse(store.get("failure"));
  const auto limit = std::min<milliseconds>(last_words, options.connect_timeout);
  const bool outlives_this_rank = from_file || options.rendezvous.store_exists;
  wait_until_informed(store, options.world.size, limit, /*joined_alone=*/outlives_this_rank);
  throw comm::PeerFailed(failure.text(), failure.rank);
}

/// Rank 0: waits for all, names missing ranks every ten seconds, and tells all when everyone has joined.
void gather(Store& store, const Options& options) {
  const int size = options.world.size;
  const auto start = Clock::now();
  auto news = start + options.news;
  auto look = start;
  for (;;) {
    const auto missing = missing_ranks(store, size);
    if (missing.empty()) break;
    const auto now = Clock::now();
    if (now > start + options.connect_timeout) give_up(store, options, missing, now - start);
    if (now > news) {
      log::warning(cat("connected ", size - static_cast<int>(missing.size()), "/", size, ", waiting for ",
                       list_of(missing, options.hosts)));
      news += options.news;
    }
    if (now > look) {
      pass_on_early_failure(store, options);
      look = now + look_interval;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::vector<std::string> hosts;
  hosts.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) hosts.push_back(split(store.get(hello_key(rank)), '\t').front());
  store.set("ready", join(hosts, "\t"));
}

/// What rank 0 has published is removed when all have joined, or when the rendezvous fails.
class Published {
 public:
  explicit Published(const Options& options) {
    if (options.world.rank == 0 && !options.rendezvous.store_exists)
      files_ = {options.rendezvous.file, options.rendezvous.secret_file};
  }
  ~Published() {
    std::error_code ignored;
    for (const auto& file : files_) {
      if (!file.empty()) std::filesystem::remove(file, ignored);
    }
  }
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

 private:
  std::vector<std::string> files_;
};

/// Joins as this rank. Two processes with one rank number are a fault of the launch.
void say_hello(Store& store, const World& world) {
  store.set(cat("alive/", world.rank), "0");
  const std::string hello = cat(world.host, '\t', Clock::now().time_since_epoch().count());
  const std::string there = store.set_if_absent(hello_key(world.rank), hello);
  if (there == hello) return;
  throw Error(cat("two processes are rank ", world.rank, ": on ", split(there, '\t').front(), " and on ", world.host),
              "each rank must be started once; is another run using the same rendezvous?");
}

void wait_until_ready(Store& store, const Options& options) {
  FailureState failure(options.world.rank);
  try {
    if (wait_for(store, {"ready"}, failure, options.connect_timeout + std::chrono::seconds(10))) return;
  } catch (const comm::PeerFailed&) {
    store.set(cat("informed/", options.world.rank), "yes");
    throw;
  }
  throw Error(cat("rank ", options.world.rank, " waits in vain for the others to connect"), "look at rank 0's output");
}

}  // namespace

Joined join_rendezvous(const Options& options) {
  const World& world = options.world;
  Joined joined;
  const Published published(options);
  joined.hosts_store = world.rank == 0 && !options.rendezvous.store_exists;
  std::string store_address;
  joined.store = joined.hosts_store ? serve(options, store_address) : find(options, store_address);
  Store& store = *joined.store;
  // Gloo's ranks must all use one address family, but each may have reached the store under a different address: rank
  // 0's family is used.
  constexpr auto first_address = "gloo-address";
  if (world.rank == 0) store.set(first_address, gloo_address(options, store_address));
  say_hello(store, world);
  if (world.rank == 0) gather(store, options);
  wait_until_ready(store, options);
  const auto first = store.get(first_address);
  joined.address = world.rank == 0 ? first : gloo_address(options, first);
  joined.hosts = split(store.get("ready"), '\t');
  joined.where = options.rendezvous.host.empty() && joined.hosts_store ? cat(store_address, ":", store.port())
                                                                       : options.rendezvous.text();
  return joined;
}

std::unique_ptr<Store> reach_store(const Options& options, const std::string& address, int port,
                                   const std::string& secret, milliseconds limit) {
  const Rendezvous& where = options.rendezvous;
  if (!where.is_torch) return connect_store(address, port, where.prefix, limit, secret);
  CAPSTAN_ASSERT(options.torchrun != nullptr);
  return options.torchrun->connect(address, port, where.prefix, limit);
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

}  // namespace capstan::peers
