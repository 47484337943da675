/* What Capstan calls of glibc that 2.28 does not have. Put before each source by `make` (-include). */
#pragma once
#include <features.h>
#if !__GLIBC_PREREQ(2, 34)
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_RANGE_CLOEXEC (1U << 2)

/* The descriptor that an entry of /proc/self/fd is called after; -1 for "." and "..". */
static inline long descriptor_of(const char* name) {
  if (*name < '0' || *name > '9') return -1;
  long fd = 0;
  for (; *name != 0; ++name) fd = fd * 10 + (*name - '0');
  return fd;
}

/* The kernel's, by its number. Kernels before 5.11 have none with this flag, so there all open descriptors are marked,
   by system calls alone: opendir() would allocate, which is not safe after fork(). Only for CLOSE_RANGE_CLOEXEC. */
static inline int close_range(unsigned first, unsigned last, int flags) {
  if (syscall(436, first, last, flags) == 0) return 0;
  if (flags != (int)CLOSE_RANGE_CLOEXEC) {
    errno = EINVAL;
    return -1;
  }
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  alignas(8) char entries[4096]; /* each: inode and offset of 8 bytes, length of 2, type of 1, name */
  long size;
  while ((size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < size;) {
      const long fd = descriptor_of(entries + at + 19);
      if (fd >= (long)first && fd <= (long)last) fcntl((int)fd, F_SETFD, FD_CLOEXEC);
      unsigned short length;
      __builtin_memcpy(&length, entries + at + 16, sizeof length);
      at += length;
    }
  }
  close(folder);
  return size < 0 ? -1 : 0;
}
#endif

#if !__GLIBC_PREREQ(2, 32)
#include <signal.h>
#include <stddef.h>

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
