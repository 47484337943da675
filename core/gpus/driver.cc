// The driver's own library, loaded by name: a machine without CUDA can run this.
#include <capstan/base/text.h>

#include <dlfcn.h>

#include <array>

#include "gpus/gpus.h"

namespace capstan::gpus {
namespace {

// From CUDA's driver API (cuda.h): CUresult is an int with 0 for success, CUdevice an int.
constexpr int compute_capability_major = 75;
constexpr int compute_capability_minor = 76;
using Uuid = std::array<unsigned char, 16>;

template <class F>
bool look_up(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*uuid)(Uuid*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*pci)(char*, int, int) = nullptr;
  int (*bytes)(std::size_t*, int) = nullptr;

  bool load(void* library) {
    return look_up(library, "cuInit", init) && look_up(library, "cuDriverGetVersion", version) &&
           look_up(library, "cuDeviceGetCount", count) && look_up(library, "cuDeviceGet", device) &&
           look_up(library, "cuDeviceGetAttribute", attribute) && look_up(library, "cuDeviceGetUuid", uuid) &&
           look_up(library, "cuDeviceGetName", name) && look_up(library, "cuDeviceGetPCIBusId", pci) &&
           look_up(library, "cuDeviceTotalMem_v2", bytes);
  }
};

std::string uuid_text(const Uuid& uuid) {
  const char* const digits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid[i] >> 4U];
    text += digits[uuid[i] & 15U];
  }
  return text;
}

void ask_gpus(const Driver& driver, GpuFacts& facts) {
  int count = 0;
  if (driver.count(&count) != 0) return;
  for (int i = 0; i < count; ++i) {
    GpuFacts::Gpu gpu;
    int device = 0;
    Uuid uuid{};
    if (driver.device(&device, i) != 0) continue;
    driver.attribute(&gpu.major, compute_capability_major, device);
    driver.attribute(&gpu.minor, compute_capability_minor, device);
    if (driver.uuid(&uuid, device) == 0) gpu.uuid = uuid_text(uuid);
    std::array<char, 128> text{};
    if (driver.name(text.data(), static_cast<int>(text.size()), device) == 0) gpu.name = text.data();
    if (driver.pci(text.data(), static_cast<int>(text.size()), device) == 0) gpu.pci = text.data();
    std::size_t bytes = 0;
    if (driver.bytes(&bytes, device) == 0) gpu.bytes = static_cast<std::int64_t>(bytes);
    facts.gpus.push_back(gpu);
  }
}

}  // namespace

GpuFacts ask_driver() {
  constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE
  GpuFacts facts;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed: libtorch_cuda uses it too
  if (library == nullptr) {
    facts.driver_problem = dlerror();
    return facts;
  }
  Driver driver;
  if (!driver.load(library)) {
    facts.driver_problem = "libcuda.so.1 lacks functions of the driver API";
    return facts;
  }
  const int status = driver.init(0);
  if ((status != 0 && status != no_device) || driver.version(&facts.driver_version) != 0) {
    facts.driver_problem = cat("cuInit fails with error ", status);
    return facts;
  }
  facts.driver = true;
  if (status == 0) ask_gpus(driver, facts);
  return facts;
}

}  // namespace capstan::gpus
