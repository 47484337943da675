#include <capstan/base/line_file.h>
#include <capstan/base/log.h>
#include <capstan/base/printable.h>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

namespace capstan::log {
namespace {

spdlog::level::level_enum spd_level(Level level) {
  constexpr std::array levels{spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  return levels.at(static_cast<std::size_t>(level));
}

// The log's file. Its own failures are only reported on stderr: the log would write to this file again.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  FileSink(const std::string& file, const spdlog::sink_ptr& screen) : file_(file, settings(screen)) {}
  std::string finish(std::chrono::milliseconds patience) {
    const std::lock_guard guard(mutex_);
    return file_.finish(patience);
  }

 private:
  static LineFile::Settings settings(const spdlog::sink_ptr& screen) {
    constexpr std::size_t most_held = std::size_t{4} << 20;
    LineFile::Settings out;
    out.most_held = most_held;
    out.warn = [screen](const std::string& text) { screen->log({"capstan", spdlog::level::warn, text}); };
    return out;
  }
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view text(line.data(), line.size());
    if (text.ends_with('\n')) text.remove_suffix(1);
    file_.add(text);
  }
  void flush_() override {}  // every line is written at once

  LineFile file_;
};

std::shared_ptr<spdlog::logger> make_logger(const std::string& file, Level console, int rank) {
  std::vector<spdlog::sink_ptr> sinks;
  auto screen = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  screen->set_level(spd_level(console));
  screen->set_pattern("capstan %l: %v");
  sinks.push_back(screen);
  if (!file.empty()) {
    sinks.push_back(std::make_shared<FileSink>(file, screen));
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

void write(Level level, std::string_view message) {
  std::atomic_load(&logger())->log(spd_level(level), "{}", printable_lines(message));
}

void configure(const std::string& file, Level console, int rank) {
  std::atomic_store(&logger(), make_logger(file, console, rank));
}

std::string finish(std::chrono::milliseconds patience) {
  const auto current = std::atomic_load(&logger());
  for (const auto& sink : current->sinks()) {
    if (auto* file = dynamic_cast<FileSink*>(sink.get())) return file->finish(patience);
  }
  return {};
}

}  // namespace capstan::log
