#include "rank_measures.h"

#include <capstan/base/clock.h>
#include <capstan/base/text.h>
#include <capstan/nvml/nvml.h>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

namespace preflight {
namespace {

using namespace capstan;

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void synchronize(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// A matrix of different numbers between -1 and 1: at its power limit a GPU's speed depends on the values.
at::Tensor matrix(std::int64_t size, at::ScalarType dtype, c10::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  return at::arange(size * size, options).remainder(251).sub(125).div(125).view({size, size}).to(dtype);
}

/// "2.27.5" of a library that is loaded already; "" when it is not.
std::string loaded_version(const char* library, const char* function, int major_unit, int minor_unit) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  std::string text;
  if (auto* ask = reinterpret_cast<int (*)(int*)>(dlsym(handle, function))) {
    int version = 0;
    if (ask(&version) == 0)
      text = cat(version / major_unit, ".", version % major_unit / minor_unit, ".", version % minor_unit);
  }
  dlclose(handle);
  return text;
}

class File {
 public:
  explicit File(fs::path path)
      : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
    ::unlink(path_.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool opened() const { return fd_ >= 0; }
  bool write(const std::vector<char>& block) const {
    for (std::size_t done = 0; done < block.size();) {
      const ssize_t count = ::write(fd_, block.data() + done, block.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      done += static_cast<std::size_t>(count);
    }
    return true;
  }
  bool sync() const { return ::fsync(fd_) == 0; }

 private:
  fs::path path_;
  int fd_;
};

}  // namespace

double measure_gemm(c10::Device device, std::int64_t size, double seconds) {
  if (size == 0) size = device.is_cpu() ? 1024 : 8192;
  const auto dtype = device.is_cpu() ? at::kFloat : at::kBFloat16;
  const auto a = matrix(size, dtype, device);
  auto c = at::mm(a, a);
  synchronize(device);
  const int at_once = device.is_cpu() ? 1 : 10;
  const auto start = Clock::now();
  std::int64_t products = 0;
  do {
    for (int i = 0; i < at_once; ++i) at::mm_out(c, a, a);
    synchronize(device);
    products += at_once;
  } while (seconds_since(start) < seconds);
  const auto n = static_cast<double>(size);
  return 2 * n * n * n * static_cast<double>(products) / seconds_since(start) / 1e12;
}

void measure_copies(c10::Device device, RankMeasures& measures) {
  if (device.is_cpu()) return;
  constexpr std::int64_t bytes = 256LL << 20U;
  constexpr int repeats = 4;
  const auto host = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  const auto there = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
  const auto rate = [&](const at::Tensor& to, const at::Tensor& from) {
    to.copy_(from, /*non_blocking=*/true);
    synchronize(device);
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) to.copy_(from, /*non_blocking=*/true);
    synchronize(device);
    return static_cast<double>(bytes) * repeats / seconds_since(start) / 1e9;
  };
  measures.to_device_gbps = rate(there, host);
  measures.to_host_gbps = rate(host, there);
}

void measure_disk(const fs::path& folder, int rank, std::int64_t bytes, RankMeasures& measures) {
  std::error_code shown_by_writing;
  fs::create_directories(folder, shown_by_writing);
  if (const auto space = fs::space(folder, shown_by_writing); !shown_by_writing)
    measures.free_bytes = static_cast<double>(space.available);
  if (bytes == 0) return;
  const std::vector<char> block(1U << 20U, 'x');
  const File file(folder / cat(".preflight-", rank));
  const auto start = Clock::now();
  bool fine = file.opened();
  for (std::int64_t done = 0; fine && done < bytes; done += static_cast<std::int64_t>(block.size()))
    fine = file.write(block);
  if (fine && file.sync()) {
    measures.write_gbps = static_cast<double>(bytes) / seconds_since(start) / 1e9;
  } else {
    measures.problem = cat("cannot write ", bytes_text(static_cast<double>(bytes)), " into ", folder.string(), ": ",
                           std::strerror(errno));
  }
}

std::string gpu_clocks(const std::string& uuid) {
  const monitor::Nvml nvml;
  const auto* gpu = nvml.find(uuid);
  if (gpu == nullptr) return {};
  const auto now = nvml.clocks(*gpu);
  const auto state = cat(now.mhz, " of ", now.most, " MHz, ", now.celsius, " °C");
  return now.slowed_by.empty() ? state : cat("throttled: ", join(now.slowed_by), ", ", state);
}

std::map<std::string, std::string> library_versions(int driver_version) {
  std::map<std::string, std::string> versions{{"Capstan", version()}, {"LibTorch", TORCH_VERSION}};
  constexpr int thousand = 1000;
  if (driver_version > 0)
    versions["driver"] = cat("CUDA ", driver_version / thousand, ".", driver_version % thousand / 10);
  const auto nccl = loaded_version("libnccl.so.2", "ncclGetVersion", 10000, 100);
  if (!nccl.empty()) versions["NCCL"] = nccl;
  for (const char* library : {"libcudart.so.13", "libcudart.so.12"}) {
    const auto cudart = loaded_version(library, "cudaRuntimeGetVersion", thousand, 10);
    if (!cudart.empty()) versions["cudart"] = cudart;
  }
  return versions;
}

std::map<std::string, int> links_of_log(const std::string& log) {
  std::map<std::string, int> links;
  for (const std::string& line : split(log, '\n')) {
    const auto via = line.find(" via ");
    if (via == std::string::npos || line.find("Channel") == std::string::npos) continue;
    const std::string rest = line.substr(via + std::string(" via ").size());
    std::vector<std::string> parts;
    for (const std::string& part : split(rest.substr(0, rest.find_first_of(" (\r")), '/')) {
      const bool is_number =
          !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
      if (!is_number) parts.push_back(part);
    }
    ++links[join(parts, "/")];
  }
  return links;
}

}  // namespace preflight
