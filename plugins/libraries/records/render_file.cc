#include "render_file.h"

#include "pair.h"
#include "record.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <deque>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace jsonl {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;
using AllDropped = std::map<std::string, Dropped>;

/// What the parts of the work share.
class Work {
 public:
  explicit Work(const RenderRequest& request) : request_(request) {}

  void add(std::int64_t row, Diagnostic fault) {
    const std::lock_guard lock(mutex_);
    fault.where = request_.rows->where(row);
    faults_.emplace(row, std::move(fault));
    if (faults_.size() == 1) first_ = Clock::now();
    if (faults_.size() >= most_named) is_over_ = true;
  }
  /// No more is of use: a part has failed, or enough rows are wrong.
  bool is_over() {
    constexpr std::chrono::seconds more_faults{3};
    const std::lock_guard lock(mutex_);
    return is_over_ || (!faults_.empty() && Clock::now() - first_ > more_faults);
  }
  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    if (!error_) error_ = std::move(error);
  }
  /// Throws what is wrong.
  void finish() {
    if (error_) std::rethrow_exception(error_);
    if (faults_.empty()) return;
    std::vector<Diagnostic> named;
    for (const auto& [row, fault] : faults_) {
      if (named.size() < most_named) named.push_back(fault);
    }
    throw Error(std::move(named));
  }

  /// On a terminal, now and then a line with how far all are; called by one part.
  void show_progress() {
    constexpr std::chrono::seconds between{2};
    const auto now = Clock::now();
    if (now - shown_ < between || ::isatty(STDERR_FILENO) != 1) return;
    shown_ = now;
    const auto done = done_.load();
    const auto seconds = std::chrono::duration<double>(now - begun_).count();
    const auto left = seconds / static_cast<double>(done) * static_cast<double>(request_.count - done);
    terminal::print_progress(cat("rendering conversations: ", thousands(done), " of ", thousands(request_.count), ", ",
                                 thousands(static_cast<std::int64_t>(static_cast<double>(done) / seconds)), "/s, ",
                                 duration_text(left), " left   "),
                             false);
    has_shown_ = true;
  }
  void count() { ++done_; }
  std::string summary() const {
    if (has_shown_) terminal::print_progress("", true);
    const auto seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
    return cat(request_.rows->path(), ": rendered ", counted(request_.count, "row"), " in ", duration_text(seconds));
  }

 private:
  static constexpr std::size_t most_named = 10;
  const RenderRequest& request_;
  std::mutex mutex_;
  std::map<std::int64_t, Diagnostic> faults_;
  Clock::time_point first_;
  bool is_over_ = false;
  std::exception_ptr error_;
  std::atomic<std::int64_t> done_{0};
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = Clock::now();
  bool has_shown_ = false;
};

// "messages[3].name" counts as "messages[].name".
std::string without_numbers(const std::string& name) {
  std::string out;
  bool inside = false;
  for (const char c : name) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

/// Rows that follow one another, rendered by one worker into a file.
class Part {
 public:
  Part(const RenderRequest& request, Work& work, fs::path path, std::int64_t begin, std::int64_t end)
      : request_(request), work_(work), path_(std::move(path)), begin_(begin), end_(end), row_(begin) {}
  ~Part() {
    std::error_code ignored;
    if (begin_ > 0) fs::remove(path_, ignored);  // it is a part of the first one's file by now
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  void run() {
    try {
      out_.open(path_, std::ios::binary | std::ios::trunc);
      head_ = chat_template::render(request_.source,
                                    {[this] { return next(); }, [this](const Json& answer) { take(answer); },
                                     [this](std::int64_t) { return where(); }});
      write_empty();
      out_.close();
      if (out_.fail()) throw FileError(path_, "write", errno);
    } catch (...) {
      work_.fail(std::current_exception());
    }
  }

  const fs::path& path() const { return path_; }
  const chat_template::Head& head() const { return head_; }
  const AllDropped& dropped() const { return dropped_; }

 private:
  // Reads rows until one has conversations; those that have none are lines of their own.
  std::optional<Json> next() {
    while (ahead_.empty()) {
      if (row_ == end_ || work_.is_over()) return {};
      read(row_++);
    }
    auto conversation = std::move(ahead_.front());
    ahead_.pop_front();
    return conversation;
  }

  void read(std::int64_t row) {
    Turns by_model;
    by_model.by_model = true;
    const auto add = [&](Record& record) {
      const bool is_one = record.conversation.is_object();
      lines_.push_back({row, is_one});
      if (is_one) ahead_.push_back(std::move(record.conversation));
    };
    if (!request_.pairs) {
      auto record = read_record(*request_.rows, row, by_model, request_.numbers);
      add(record);
      return write_empty();
    }
    auto pair = read_pair(*request_.rows, row, by_model, request_.numbers);
    add(pair.chosen);
    add(pair.rejected);
  }

  void take(const Json& answer) {
    write_empty();
    CAPSTAN_ASSERT(!lines_.empty());
    const auto row = lines_.front().row;
    lines_.pop_front();
    if (auto fault = chat_template::fault_in(answer)) {
      work_.add(row, std::move(*fault));
    } else {
      write(row, answer);
    }
    count(row);
    if (begin_ == 0) work_.show_progress();
  }

  void write(std::int64_t row, const Json& answer) {
    std::set<std::string> names;
    for (const auto& name : answer.value("dropped", Json::array())) names.insert(without_numbers(name.text()));
    for (const auto& name : names) {
      const bool is_new = std::exchange(last_dropped_[name], row + 1) != row + 1;  // a pair has two conversations
      dropped_.try_emplace(name, Dropped{0, row}).first->second.rows += is_new ? 1 : 0;
    }
    put(Json{{"pieces", answer.at("pieces")}, {"prompt", answer.at("prompt")}, {"answer", answer.at("answer")}}.dump());
  }

  void write_empty() {
    for (; !lines_.empty() && !lines_.front().is_conversation; lines_.pop_front()) {
      put("{}");
      count(lines_.front().row);
    }
  }

  void put(const std::string& line) {
    errno = 0;
    out_ << line << '\n';
    if (out_.fail()) throw FileError(path_, "write", errno);
  }

  // A pair counts once.
  void count(std::int64_t row) {
    if (std::exchange(counted_, row) != row) work_.count();
  }

  // The place of the row that is rendered.
  std::string where() const {
    const auto found =
        std::find_if(lines_.begin(), lines_.end(), [](const auto& line) { return line.is_conversation; });
    return request_.rows->where(found == lines_.end() ? begin_ : found->row);
  }

  struct Line {
    std::int64_t row;
    bool is_conversation;
  };
  const RenderRequest& request_;
  Work& work_;
  fs::path path_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t row_;
  std::int64_t counted_ = -1;
  std::deque<Json> ahead_;  // conversations that were read and not given
  std::deque<Line> lines_;  // that are to be written
  std::ofstream out_;
  chat_template::Head head_;
  AllDropped dropped_;
  std::map<std::string, std::int64_t> last_dropped_;  // by name: the row, counted from 1
};

std::string today() {
  const auto now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &local)};
}

// As many as there are cores, but none for a few rows: a Python takes some tenths of a second to begin.
std::int64_t parts_of(std::int64_t rows) {
  constexpr std::int64_t least_rows = 2000;
  const auto cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  return std::clamp<std::int64_t>(rows / least_rows, 1, cores);
}

void append(const fs::path& from, std::ofstream& out) {
  std::ifstream in(from, std::ios::binary);
  if (in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
}

std::string last_line(const std::deque<Part>& parts) {
  AllDropped all;
  for (const auto& part : parts) {
    for (const auto& [name, found] : part.dropped())
      all.try_emplace(name, Dropped{0, found.first}).first->second.rows += found.rows;
  }
  auto dropped = Json::object();
  for (const auto& [name, found] : all) dropped[name] = Json::array({found.rows, found.first});
  return Json{{"head", chat_template::json_of(parts.front().head())}, {"dropped", std::move(dropped)}}.dump();
}

}  // namespace

void render_file(const RenderRequest& asked, const fs::path& path) {
  auto request = asked;
  if (!request.source.date) request.source.date = today();  // all parts have the same
  log::info(cat(request.rows->path(), ": rendering conversations by the model's own template"));
  Work work(request);
  std::deque<Part> parts;
  const auto count = parts_of(request.count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto its = i == 0 ? path : fs::path(cat(path.string(), ".part", i));
    parts.emplace_back(request, work, its, request.count * i / count, request.count * (i + 1) / count);
  }
  {
    std::vector<std::jthread> others;
    for (auto part = parts.begin() + 1; part != parts.end(); ++part) others.emplace_back([part] { part->run(); });
    parts.front().run();
  }
  work.finish();
  std::ofstream out(path, std::ios::binary | std::ios::app);
  for (const auto& part : parts) {
    if (&part != &parts.front()) append(part.path(), out);
  }
  out << last_line(parts) << '\n';
  out.close();
  if (out.fail()) throw FileError(path, "write", errno);
  log::info(work.summary());
}

}  // namespace jsonl
