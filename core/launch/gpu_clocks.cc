// NVML, loaded by name like the driver: a machine without it can run this.
#include <capstan/base/text.h>

#include <dlfcn.h>

#include "launch/gpu_module.h"

namespace capstan::launch {
namespace {

// From nvml.h: 0 is success; clock 1 is the SMs'; sensor 0 is the GPU's; bits of the reasons for lower clocks.
constexpr int sm_clock = 1;
constexpr int gpu_sensor = 0;
struct Reason {
  unsigned long long bit;
  const char* text;
};
constexpr Reason reasons[] = {
    {0x8, "hardware slowdown"}, {0x20, "too hot"}, {0x40, "too hot (hardware)"}, {0x80, "power brake"}};

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == 0;
  }
  ~Nvml() {
    const auto shutdown = function<int()>("nvmlShutdown");
    if (ready_ && shutdown != nullptr) shutdown();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  bool ready() const { return ready_; }
  template <class F>
  F* function(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(library_, name));
  }

 private:
  void* library_;
  bool ready_ = false;
};

std::string throttle_reasons(const Nvml& nvml, void* device) {
  unsigned long long bits = 0;
  const auto ask = nvml.function<int(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (ask == nullptr || ask(device, &bits) != 0) return {};
  std::vector<std::string> found;
  for (const Reason& reason : reasons) {
    if ((bits & reason.bit) != 0) found.emplace_back(reason.text);
  }
  return join(found);
}

}  // namespace

std::string gpu_clocks(const std::string& uuid) {
  const Nvml nvml;
  const auto find = nvml.function<int(const char*, void**)>("nvmlDeviceGetHandleByUUID");
  void* device = nullptr;
  if (!nvml.ready() || find == nullptr || find(uuid.c_str(), &device) != 0) return {};
  const auto number = [&](const char* name, int which) {
    const auto ask = nvml.function<int(void*, int, unsigned*)>(name);
    unsigned value = 0;
    return ask != nullptr && ask(device, which, &value) == 0 ? value : 0;
  };
  const std::string state =
      cat(number("nvmlDeviceGetClockInfo", sm_clock), " of ", number("nvmlDeviceGetMaxClockInfo", sm_clock), " MHz, ",
          number("nvmlDeviceGetTemperature", gpu_sensor), " °C");
  const auto throttled = throttle_reasons(nvml, device);
  return throttled.empty() ? state : cat("throttled: ", throttled, ", ", state);
}

}  // namespace capstan::launch
