#include <capstan/base/log.h>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <vector>

namespace capstan::log {
namespace {

spdlog::level::level_enum spd_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger(const std::string& file, Level console, int rank) {
  std::vector<spdlog::sink_ptr> sinks;
  auto screen = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  screen->set_level(spd_level(console));
  screen->set_pattern("capstan %l: %v");
  sinks.push_back(screen);
  if (!file.empty()) {
    sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
    sinks.back()->set_pattern("%Y-%m-%d %H:%M:%S.%e [rank " + std::to_string(rank) + "] %l: %v");
  }
  auto logger = std::make_shared<spdlog::logger>("capstan", sinks.begin(), sinks.end());
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make_logger({}, Level::warning, 0);
  return instance;
}

}  // namespace

void write(Level level, std::string_view message) { std::atomic_load(&logger())->log(spd_level(level), "{}", message); }

void configure(const std::string& file, Level console, int rank) {
  std::atomic_store(&logger(), make_logger(file, console, rank));
}

}  // namespace capstan::log
