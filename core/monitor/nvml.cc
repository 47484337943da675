#include <capstan/monitor/nvml.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace capstan::monitor {
namespace {

// From nvml.h: 0 is success.
struct MemoryV1 {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;  // with what the driver keeps for itself
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
struct Rates {
  unsigned gpu;
  unsigned memory;
};
constexpr int multiprocessor_clock = 1;
constexpr int gpu_sensor = 0;
struct Reason {
  unsigned long long bit;
  const char* text;
};
constexpr std::array<Reason, 4> slowdowns{
    {{0x8, "hardware slowdown"}, {0x20, "too hot"}, {0x40, "too hot (hardware)"}, {0x80, "power brake"}}};

}  // namespace

struct Nvml::Library {
  Library() : handle(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int()>("nvmlInit_v2");
    ready = init != nullptr && init() == 0;
  }
  ~Library() {
    const auto shutdown = function<int()>("nvmlShutdown");
    if (ready && shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  template <class F>
  F* function(const char* name) const {
    return handle == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle, name));
  }
  // "" where the driver does not say.
  std::string text(const char* name, void* gpu) const {
    std::array<char, 96> out{};
    const auto ask = function<int(void*, char*, unsigned)>(name);
    return ask != nullptr && ask(gpu, out.data(), static_cast<unsigned>(out.size())) == 0 ? out.data() : "";
  }

  // 0 where the driver does not say.
  unsigned number(const char* name, void* gpu, int which) const {
    unsigned value = 0;
    const auto ask = function<int(void*, int, unsigned*)>(name);
    return ask != nullptr && ask(gpu, which, &value) == 0 ? value : 0;
  }

  void* handle;
  bool ready = false;
};

Nvml::Nvml() : library_(std::make_unique<Library>()) {
  const auto count = library_->function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  const auto open = library_->function<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
  unsigned all = 0;
  if (!library_->ready || count == nullptr || open == nullptr || count(&all) != 0) return;
  for (unsigned i = 0; i < all; ++i) {
    Gpu gpu;
    gpu.index = static_cast<int>(i);
    if (open(i, &gpu.handle) != 0) continue;  // not this process' to see
    gpu.name = library_->text("nvmlDeviceGetName", gpu.handle);
    gpu.uuid = library_->text("nvmlDeviceGetUUID", gpu.handle);
    gpus_.push_back(std::move(gpu));
  }
}

Nvml::~Nvml() = default;

const Nvml::Gpu* Nvml::find(const std::string& uuid) const {
  const auto found = std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& gpu) { return gpu.uuid == uuid; });
  return found == gpus_.end() ? nullptr : &*found;
}

std::optional<Nvml::Memory> Nvml::memory(const Gpu& gpu) const {
  const auto ask = library_->function<int(void*, MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2");
  MemoryV2 now{};
  now.version = static_cast<unsigned>(sizeof now) | (2U << 24U);
  if (ask != nullptr && ask(gpu.handle, &now) == 0)
    return Memory{static_cast<std::int64_t>(now.used), static_cast<std::int64_t>(now.total)};
  const auto ask_old = library_->function<int(void*, MemoryV1*)>("nvmlDeviceGetMemoryInfo");  // drivers before 510
  MemoryV1 old{};
  if (ask_old == nullptr || ask_old(gpu.handle, &old) != 0) return {};
  return Memory{static_cast<std::int64_t>(old.used), static_cast<std::int64_t>(old.total)};
}

Nvml::Clocks Nvml::clocks(const Gpu& gpu) const {
  Clocks now;
  now.mhz = library_->number("nvmlDeviceGetClockInfo", gpu.handle, multiprocessor_clock);
  now.most = library_->number("nvmlDeviceGetMaxClockInfo", gpu.handle, multiprocessor_clock);
  now.celsius = library_->number("nvmlDeviceGetTemperature", gpu.handle, gpu_sensor);
  unsigned long long bits = 0;
  const auto ask = library_->function<int(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (ask == nullptr || ask(gpu.handle, &bits) != 0) return now;
  for (const auto& reason : slowdowns) {
    if ((bits & reason.bit) != 0) now.slowed_by.emplace_back(reason.text);
  }
  return now;
}

std::optional<double> Nvml::utilisation(const Gpu& gpu) const {
  const auto ask = library_->function<int(void*, Rates*)>("nvmlDeviceGetUtilizationRates");
  Rates rates{};
  if (ask == nullptr || ask(gpu.handle, &rates) != 0) return {};
  return static_cast<double>(rates.gpu);
}

}  // namespace capstan::monitor
