#include "snapshot.h"

#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>

namespace memory_snapshot {

using namespace capstan;
using monitor::MemoryPart;
using monitor::Span;

namespace fs = std::filesystem;

namespace {

constexpr const char* rest_on_gpu = "activations, gradients at work, cuBLAS";
constexpr const char* rest_on_cpu = "activations, code, libraries, all else";

std::string memory(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// Parts of a prediction that no tensor of the engine's has: what is left over of the whole is held against them.
bool is_rest(const MemoryPart& part) {
  return !part.on_host && (part.part == "activations and gradients at work" || part.part == "cuBLAS");
}

std::int64_t sum_of(const std::vector<MemoryPart>& parts, bool on_host) {
  std::int64_t sum = 0;
  for (const auto& part : parts) sum += part.on_host == on_host ? part.bytes : 0;
  return sum;
}

// A part in both lists, in one order: the prediction's, then what it does not know.
struct Row {
  std::string part;
  bool on_host = false;
  std::int64_t held = 0;
  std::optional<std::int64_t> predicted;
};

std::vector<Row> rows_of(const Snapshot& snapshot) {
  std::vector<Row> rows;
  const auto row_of = [&](const MemoryPart& part) -> Row& {
    for (auto& row : rows) {
      if (row.part == part.part && row.on_host == part.on_host) return row;
    }
    return rows.emplace_back(Row{part.part, part.on_host, 0, {}});
  };
  for (const auto& part : snapshot.predicted) {
    if (is_rest(part)) continue;
    auto& row = row_of(part);
    row.predicted = row.predicted.value_or(0) + part.bytes;
  }
  for (const auto& part : snapshot.moment.held) row_of(part).held += part.bytes;
  return rows;
}

std::string predicted_rest(const Snapshot& snapshot) {
  std::int64_t bytes = 0;
  bool known = false;
  for (const auto& part : snapshot.predicted) {
    if (!is_rest(part)) continue;
    bytes += part.bytes;
    known = true;
  }
  return known ? memory(bytes) : "-";
}

using Table = std::vector<std::vector<std::string>>;

void add_parts(const Snapshot& snapshot, bool on_host, Table& table) {
  for (const auto& row : rows_of(snapshot)) {
    const bool empty = row.held == 0 && row.predicted.value_or(0) == 0;
    if (row.on_host != on_host || empty) continue;
    table.push_back(
        {cat(on_host ? "host: " : "", row.part), memory(row.held), row.predicted ? memory(*row.predicted) : "-"});
  }
}

std::string table_of(const Snapshot& snapshot) {
  const auto& [at, whole, held] = snapshot.moment;
  Table table{{"part", "held", "predicted"}};
  add_parts(snapshot, false, table);
  const auto in_parts = sum_of(held, false) + (snapshot.gpu ? 0 : sum_of(held, true));
  const auto rest = std::max<std::int64_t>(0, whole.used - in_parts);
  const auto predicted = sum_of(snapshot.predicted, false);
  if (!snapshot.gpu) add_parts(snapshot, true, table);
  table.push_back({snapshot.gpu ? rest_on_gpu : rest_on_cpu, memory(rest), predicted_rest(snapshot)});
  table.push_back({snapshot.gpu ? "all tensors" : "the process", memory(whole.used),
                   snapshot.gpu && predicted > 0 ? memory(predicted) : "-"});
  table.push_back({snapshot.gpu ? "most of it since the first step" : "most of it so far", memory(whole.peak),
                   snapshot.gpu && predicted > 0 ? memory(predicted) : "-"});
  if (!snapshot.gpu) return table_text(table);
  table.push_back(
      {"the allocator's cache, besides", memory(std::max<std::int64_t>(0, whole.reserved - whole.used)), "-"});
  add_parts(snapshot, true, table);
  return table_text(table);
}

std::string savings_text(const Snapshot& snapshot) {
  if (snapshot.savings.empty()) return "no change that `capstan check` tries would make it smaller\n";
  Table table{{"what would save most", snapshot.gpu ? "peak" : "peak on a GPU", "options"}};
  for (std::size_t i = 0; i < std::min<std::size_t>(2, snapshot.savings.size()); ++i) {
    const auto& saving = snapshot.savings[i];
    table.push_back({saving.change, memory(saving.peak), saving.options});
  }
  return table_text(table);
}

}  // namespace

std::string snapshot_text(const Snapshot& snapshot) {
  auto text = cat(snapshot.title, ": at ", snapshot.moment.at, "\n\n", table_of(snapshot));
  if (!snapshot.no_prediction.empty()) text += cat("no prediction: ", snapshot.no_prediction, "\n");
  return text + "\n" + savings_text(snapshot);
}

Request::Request(fs::path file) : file_(std::move(file)), seen_(touched()) {}

std::optional<fs::file_time_type> Request::touched() const {
  std::error_code absent;
  const auto time = fs::last_write_time(file_, absent);
  if (absent) return {};
  return time;
}

bool Request::is_new() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < between) return false;
  looked_ = now;
  const auto time = touched();
  if (!time || time == seen_) return false;
  seen_ = time;
  return true;
}

Watcher::Watcher(Setting setting)
    : setting_(std::move(setting)), request_(setting_.folder / "take_memory_snapshot"), last_(setting_.whole()) {}

// Looks in every step how much of the GPU's memory is used at a unit's boundary, which costs next to nothing, since no
// one knows in which step it runs out. Looks only in a chosen step at which tensors hold it.
void Watcher::look(const std::string& at) {
  at_ = at;
  if (!records_ && !setting_.gpu) return;
  last_ = setting_.whole();
  if (!records_ || (!largest_.at.empty() && last_.used <= largest_.whole.used)) return;
  largest_ = {at, last_, setting_.questions.held ? setting_.questions.held() : std::vector<MemoryPart>{}};
}

void Watcher::begin_step(std::string_view number) {
  std::from_chars(number.data(), number.data() + number.size(), step_);
  const bool chosen = std::find(setting_.steps.begin(), setting_.steps.end(), step_) != setting_.steps.end();
  records_ = (setting_.on_request && request_.is_new()) || chosen;
  largest_ = {};
}

void Watcher::end_step() {
  if (!std::exchange(records_, false) || largest_.at.empty()) return;
  const auto title = cat("memory of rank ", setting_.rank, " in step ", step_, " when it was largest");
  written_.push_back(write(cat("step-", step_), snapshot_text(snapshot(title, std::move(largest_)))));
}

void Watcher::begin(Span kind, std::string_view name) noexcept {
  try {
    if (kind == Span::step) begin_step(name);
    if (kind == Span::forward) look(cat("the beginning of forward of ", name));
    if (kind == Span::backward) look(cat("the beginning of backward of ", name));
    if (kind == Span::optimizer) look("the beginning of the optimizer's update");
    if (kind == Span::evaluation) look("the beginning of an evaluation");
  } catch (const std::exception& error) {
    records_ = false;
    log::warning(cat("no snapshot of memory in step ", step_, ": ", error.what()));
  }
}

void Watcher::end(Span kind, std::string_view name) noexcept {
  try {
    if (kind == Span::forward) look(cat("the end of forward of ", name));
    if (kind == Span::backward) look(cat("the end of backward of ", name));
    if (kind == Span::step) end_step();
  } catch (const std::exception& error) {
    records_ = false;
    log::warning(cat("no snapshot of memory in step ", step_, ": ", error.what()));
  }
}

// Both are asked for once: they take as long as a check of the configuration.
Snapshot Watcher::snapshot(std::string title, Moment moment) {
  Snapshot all{std::move(title), setting_.gpu, std::move(moment), {}, {}, {}};
  try {
    if (!predicted_ && setting_.questions.predicted) predicted_ = setting_.questions.predicted();
    if (!savings_ && setting_.questions.savings) savings_ = setting_.questions.savings();
  } catch (const std::exception& error) {
    no_prediction_ = error.what();
    if (!predicted_) predicted_.emplace();
    if (!savings_) savings_.emplace();
  }
  all.predicted = predicted_.value_or(std::vector<MemoryPart>{});
  all.savings = savings_.value_or(std::vector<monitor::MemorySaving>{});
  all.no_prediction = no_prediction_;
  return all;
}

fs::path Watcher::write(const std::string& name, const std::string& text) const {
  const auto folder = setting_.folder / "memory_snapshots";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(folder, "make", error.value());
  auto file = folder / cat("rank-", setting_.rank, "-", name, ".txt");
  write_file(file, text);
  return file;
}

std::pair<fs::path, std::string> Watcher::out_of_memory(const std::string& what) {
  // What failed is unwound, and its activations with it: the whole is as of the last boundary that was passed.
  if (!setting_.gpu) last_ = setting_.whole();
  Moment moment{at_, last_, setting_.questions.held ? setting_.questions.held() : std::vector<MemoryPart>{}};
  const auto title = cat("memory of rank ", setting_.rank, ", which has run out in step ", step_);
  const auto first_line = what.substr(0, what.find('\n'));
  // Parts first: what would help takes longer, and another rank's failure may end this process meanwhile.
  Snapshot parts{title, setting_.gpu, moment, predicted_.value_or(std::vector<MemoryPart>{}), {}, {}};
  write("out-of-memory", snapshot_text(parts));
  auto text = cat(snapshot_text(snapshot(title, std::move(moment))), "\n", first_line, "\n");
  auto file = write("out-of-memory", text);
  return {std::move(file), std::move(text)};
}

}  // namespace memory_snapshot
