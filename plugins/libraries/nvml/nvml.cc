#include <capstan/nvml/nvml.h>
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
  Library() : handle(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)), ready(ask("nvmlInit_v2")) {}
  ~Library() {
    if (ready) ask("nvmlShutdown");
    if (handle != nullptr) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Calls a function of the library; its parameters have the types of these. False: there is none, or it fails.
  template <class... Arguments>
  bool ask(const char* name, Arguments... arguments) const {
    const auto function = handle == nullptr ? nullptr : reinterpret_cast<int (*)(Arguments...)>(dlsym(handle, name));
    return function != nullptr && function(arguments...) == 0;
  }
  // "" where the driver does not say.
  std::string text(const char* name, void* gpu) const {
    std::array<char, 96> out{};
    return ask(name, gpu, out.data(), static_cast<unsigned>(out.size())) ? out.data() : "";
  }
  // 0 where the driver does not say.
  unsigned number(const char* name, void* gpu, int which) const {
    unsigned value = 0;
    return ask(name, gpu, which, &value) ? value : 0;
  }

  void* handle;
  bool ready;
};

Nvml::Nvml() : library_(std::make_unique<Library>()) {
  unsigned all = 0;
  if (!library_->ready || !library_->ask("nvmlDeviceGetCount_v2", &all)) return;
  for (unsigned i = 0; i < all; ++i) {
    Gpu gpu;
    gpu.index = static_cast<int>(i);
    if (!library_->ask("nvmlDeviceGetHandleByIndex_v2", i, &gpu.handle)) continue;  // not this process' to see
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
  MemoryV2 now{};
  now.version = static_cast<unsigned>(sizeof now) | (2U << 24U);
  if (library_->ask("nvmlDeviceGetMemoryInfo_v2", gpu.handle, &now))
    return Memory{static_cast<std::int64_t>(now.used), static_cast<std::int64_t>(now.total)};
  MemoryV1 old{};
  if (!library_->ask("nvmlDeviceGetMemoryInfo", gpu.handle, &old)) return {};  // drivers before 510
  return Memory{static_cast<std::int64_t>(old.used), static_cast<std::int64_t>(old.total)};
}

Nvml::Clocks Nvml::clocks(const Gpu& gpu) const {
  Clocks now;
  now.mhz = library_->number("nvmlDeviceGetClockInfo", gpu.handle, multiprocessor_clock);
  now.most = library_->number("nvmlDeviceGetMaxClockInfo", gpu.handle, multiprocessor_clock);
  now.celsius = library_->number("nvmlDeviceGetTemperature", gpu.handle, gpu_sensor);
  unsigned long long bits = 0;
  if (!library_->ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu.handle, &bits)) return now;
  for (const auto& reason : slowdowns) {
    if ((bits & reason.bit) != 0) now.slowed_by.emplace_back(reason.text);
  }
  return now;
}

std::optional<double> Nvml::utilisation(const Gpu& gpu) const {
  Rates rates{};
  if (!library_->ask("nvmlDeviceGetUtilizationRates", gpu.handle, &rates)) return {};
  return static_cast<double>(rates.gpu);
}

}  // namespace capstan::monitor
