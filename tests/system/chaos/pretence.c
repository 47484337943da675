// Loaded before a program's libraries (LD_PRELOAD): the disk is slow, or the wall clock has jumped. What is so stands in
// the file that CAPSTAN_PRETENCE names, and may change while the program runs: two 64-bit numbers, the milliseconds that
// each sync and each MiB of a write to a file takes longer, and the seconds that the wall clock is ahead.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct pretence {
  volatile int64_t delay_ms, clock_s;
};

static struct pretence none;

static struct pretence* what(void) {
  static struct pretence* volatile told;
  if (told) return told;
  const char* name = getenv("CAPSTAN_PRETENCE");
  const int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  void* at = fd < 0 ? MAP_FAILED : mmap(0, sizeof(struct pretence), PROT_READ, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  told = at == MAP_FAILED ? &none : (struct pretence*)at;
  return told;
}

#define REAL(result, name, ...)                                                      \
  static result (*real)(__VA_ARGS__);                                                \
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, name);

static void delay(int fd, double times) {
  struct stat info;
  const int64_t ms = what()->delay_ms;
  if (ms <= 0 || fstat(fd, &info) != 0 || !(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))) return;
  const int64_t ns = (int64_t)((double)ms * times * 1e6);
  struct timespec time = {ns / 1000000000, ns % 1000000000};
  nanosleep(&time, 0);
}

int fsync(int fd) {
  REAL(int, "fsync", int)
  delay(fd, 1);
  return real(fd);
}

int fdatasync(int fd) {
  REAL(int, "fdatasync", int)
  delay(fd, 1);
  return real(fd);
}

ssize_t write(int fd, const void* data, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t)
  delay(fd, (double)size / (1 << 20));
  return real(fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  REAL(ssize_t, "pwrite", int, const void*, size_t, off_t)
  delay(fd, (double)size / (1 << 20));
  return real(fd, data, size, at);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  REAL(int, "clock_gettime", clockid_t, struct timespec*)
  const int result = real(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += what()->clock_s;
  return result;
}

int gettimeofday(struct timeval* time, void* zone) {
  REAL(int, "gettimeofday", struct timeval*, void*)
  const int result = real(time, zone);
  if (result == 0) time->tv_sec += what()->clock_s;
  return result;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
