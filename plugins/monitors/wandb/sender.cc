#include "sender.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <unistd.h>

#include <utility>

namespace wandb {

using namespace capstan;

namespace fs = std::filesystem;

extern const char* const send_script;

namespace {

// The client continues after such an error, and says it only in words.
constexpr const char* gives_up = "Fatal error while uploading";

Program program_of(const Sender::Start& start, const fs::path& scratch) {
  Program program;
  program.arguments = {start.python,
                       "-c",
                       send_script,
                       start.log.string(),
                       scratch.string(),
                       std::to_string(::getpid()),
                       number_text(start.system_interval_s)};
  program.patience = std::chrono::milliseconds(0);  // a slow server is no hang
  return program;
}

}  // namespace

Sender::Sender(Start start) : start_(std::move(start)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Sender::~Sender() = default;

Sender::News Sender::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

bool Sender::finish(std::chrono::duration<double> patience) {
  bool is_in_time = false;
  {
    std::unique_lock lock(mutex_);
    over_.wait_for(lock, patience, [this] { return is_over_; });
    is_in_time = is_over_;
  }
  thread_.request_stop();
  thread_.join();
  if (!is_in_time && sent_.empty())
    news_.warnings.push_back(
        cat("W&B has not got all of this run ", number_text(patience.count()), " s after its end", last_words_));
  return !sent_.empty();
}

void Sender::run(const std::stop_token& stop) {
  const auto scratch = start_.log.parent_path() / "sending";
  std::error_code ignored;
  std::string end;
  try {
    fs::create_directories(scratch);
    auto program = program_of(start_, scratch);
    program.on_output = [this](std::string_view output) { take(output); };
    const auto ended = run_program(program, stop);
    last_words_ = ended.last_words();
    end = cat("W&B gets nothing more of this run: ",
              failure_.empty() ? cat("the process that sends it ", ended.text(), last_words_) : failure_);
    const bool gave_up = ended.errors.find(gives_up) != std::string::npos;
    if (gave_up) end = "W&B has not got all of this run: the server refused some of it";
    if (gave_up) sent_.clear();
    for (const auto& log : sent_) write_file(log + ".synced", "");  // wandb sync passes it by
  } catch (const std::exception& error) {
    end = cat("W&B gets nothing of this run: ", error.what());
  }
  fs::remove_all(scratch, ignored);
  const std::lock_guard lock(mutex_);
  if (sent_.empty() && !stop.stop_requested()) news_.warnings.push_back(end);
  is_over_ = true;
  over_.notify_all();
}

void Sender::take(std::string_view output) {
  for (const char c : output) {
    if (c != '\n') {
      line_ += c;
      continue;
    }
    take_line(std::exchange(line_, {}));
  }
}

void Sender::take_line(const std::string& line) {
  const auto said = try_parse_json(line);
  if (!said.is_object()) return;
  const std::lock_guard lock(mutex_);
  if (said.contains("url")) news_.url = printable(said.at("url").get<std::string>());
  if (said.contains("trouble") && !std::exchange(has_warned_, true))
    news_.warnings.push_back(cat("W&B is not reached, which is tried again while the run continues: ",
                                 printable(said.at("trouble").get<std::string>())));
  if (said.contains("sent")) sent_ = said.at("sent").get<std::vector<std::string>>();
  if (said.contains("failed")) failure_ = printable(said.at("failed").get<std::string>());
}

}  // namespace wandb
