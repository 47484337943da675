#include "sender.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
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

// A start of the same run that was killed has left its client's files.
void remove_left_scratch(const fs::path& log) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(log.parent_path().parent_path(), ignored)) {
    const auto& folder = entry.path();
    const bool is_start = folder.filename().string().starts_with("offline-run-") && is_there(folder / log.filename());
    if (is_start) fs::remove_all(folder / "sending", ignored);
  }
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
    remove_left_scratch(start_.log);
    fs::create_directories(scratch);
    auto program = program_of(start_, scratch);
    program.on_output = [this](std::string_view output) { take(output); };
    program.on_errors = [this](std::string_view errors) { take_errors(errors); };
    const auto ended = run_program(program, stop);
    last_words_ = ended.last_words();
    end = cat("W&B gets nothing more of this run: ",
              failure_.empty() ? cat("the process that sends it ", ended.text(), last_words_) : failure_);
    if (has_lost_) sent_.clear();
    for (const auto& log : sent_) write_file(log + ".synced", "");  // wandb sync passes it by
  } catch (const std::exception& error) {
    end = cat("W&B gets nothing of this run: ", error.what());
  }
  fs::remove_all(scratch, ignored);
  const std::lock_guard lock(mutex_);
  const bool is_told = has_lost_ && failure_.empty();
  if (sent_.empty() && !is_told && !stop.stop_requested()) news_.warnings.push_back(end);
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

// The words may be in two pieces.
void Sender::take_errors(std::string_view errors) {
  errors_ += errors;
  if (errors_.find(gives_up) != std::string::npos) lose("the server refused some of it");
  const auto kept = std::string_view(gives_up).size() - 1;
  if (errors_.size() > kept) errors_.erase(0, errors_.size() - kept);
}

void Sender::lose(const std::string& what) {
  if (std::exchange(has_lost_, true)) return;
  const std::lock_guard lock(mutex_);
  news_.warnings.push_back(cat("W&B has not got all of this run: ", what));
}

void Sender::take_line(const std::string& line) {
  const auto said = try_parse_json(line);
  if (!said.is_object()) return;
  if (said.contains("lost")) lose(printable(said.at("lost").get<std::string>()));
  const std::lock_guard lock(mutex_);
  if (said.contains("url")) news_.url = printable(said.at("url").get<std::string>());
  if (said.contains("trouble") && !std::exchange(has_warned_, true))
    news_.warnings.push_back(cat("W&B is not reached, which is tried again while the run continues: ",
                                 printable(said.at("trouble").get<std::string>())));
  if (said.contains("sent")) sent_ = said.at("sent").get<std::vector<std::string>>();
  if (said.contains("failed")) failure_ = printable(said.at("failed").get<std::string>());
}

}  // namespace wandb
