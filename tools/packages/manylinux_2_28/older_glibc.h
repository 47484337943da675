/* What Capstan calls of glibc that 2.28 does not have. Put before each source by `make` (-include). */
#pragma once
#include <features.h>
#if !__GLIBC_PREREQ(2, 34)
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_RANGE_CLOEXEC (1U << 2)

/* The kernel's, by its number; kernels before 5.9 have none, so there every descriptor is asked. Safe after fork(). */
static inline int close_range(unsigned first, unsigned last, int flags) {
  if (syscall(436, first, last, flags) == 0) return 0;
  const long most = sysconf(_SC_OPEN_MAX);
  for (long fd = first; fd < most && fd <= (long)last; ++fd) fcntl((int)fd, F_SETFD, FD_CLOEXEC);
  return 0;
}

/* "KILL" for SIGKILL; NULL for what has no name here. */
static inline const char* sigabbrev_np(int signal) {
  switch (signal) {
    case SIGHUP:
      return "HUP";
    case SIGINT:
      return "INT";
    case SIGQUIT:
      return "QUIT";
    case SIGILL:
      return "ILL";
    case SIGTRAP:
      return "TRAP";
    case SIGABRT:
      return "ABRT";
    case SIGBUS:
      return "BUS";
    case SIGFPE:
      return "FPE";
    case SIGKILL:
      return "KILL";
    case SIGUSR1:
      return "USR1";
    case SIGSEGV:
      return "SEGV";
    case SIGUSR2:
      return "USR2";
    case SIGPIPE:
      return "PIPE";
    case SIGALRM:
      return "ALRM";
    case SIGTERM:
      return "TERM";
    case SIGXCPU:
      return "XCPU";
    case SIGSYS:
      return "SYS";
    default:
      return NULL;
  }
}
#endif
