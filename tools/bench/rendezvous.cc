// Times how N processes of this host find each other: rendezvous N FILE, where FILE is where rank 0 publishes its
// store. Each is a copy of this process that has made no thread yet, and connects as a rank of a run does, without
// groups and tensors; then all tell each other a word. Prints seconds until rank 0 has heard all of them, and what its
// memory grew by.
#include "comm/connect.h"

#include <capstan/monitor/resident.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

int as_rank(int rank, int size, const char* file) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto before = capstan::monitor::resident_bytes();
  capstan::comm::ConnectOptions options;
  options.world.rank = options.world.local_rank = rank;
  options.world.size = options.world.local_size = size;
  options.rendezvous.file = file;
  options.rendezvous.secret = "known to all of them";
  options.interface = "lo";
  try {
    const auto communicator = capstan::comm::connect(options);
    const auto connected = std::chrono::duration<double>(Clock::now() - start).count();
    (void)communicator->exchange("here");
    const auto told = std::chrono::duration<double>(Clock::now() - start).count();
    if (rank == 0) {
      const auto grown = static_cast<double>(capstan::monitor::resident_bytes() - before) / (1 << 20);
      std::printf("%d ranks: connected after %.2f s, had exchanged after %.2f s, rank 0 grew by %.1f MiB\n", size,
                  connected, told, grown);
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fputs("rendezvous N FILE\n", stderr);
    return 1;
  }
  const int size = std::atoi(words[1]);
  std::signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  for (int rank = 0; rank < size; ++rank) {
    if (fork() == 0) _exit(as_rank(rank, size, words[2]));
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed += status == 0 ? 0 : 1;
  return failed == 0 ? 0 : 1;
}
