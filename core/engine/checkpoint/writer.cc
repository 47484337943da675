#include <capstan/base/clock.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <chrono>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "checkpoint/writer_copy.h"

namespace capstan::checkpoint {

using Clock = std::chrono::steady_clock;

Writer::Writer(WriterOptions options, std::shared_ptr<comm::Group> group)
    : options_(std::move(options)), group_(std::move(group)), copy_(std::make_unique<HostCopy>(options_.pinned)) {
  CAPSTAN_ASSERT(group_->device().is_cpu());
}

Writer::~Writer() {
  try {
    finish();
  } catch (const std::exception& error) {
    log::error(cat("the save under way has failed: ", error.what()));
  }
}

void Writer::reserve(const std::vector<TensorBox>& boxes) {
  if (options_.async) copy_->reserve(boxes);
}

std::optional<Saved> Writer::start(Meta meta, const std::vector<TensorBox>& boxes) {
  const auto begin = Clock::now();
  auto before = wait();
  Order order{.target = step_folder(options_.folder, meta.step),
              .attempt = options_.attempt,
              .meta = std::move(meta),
              .at_point = options_.at_point,
              .keep = options_.keep,
              .in_series = true,
              .failure = nullptr};
  std::vector<TensorBox> copies;
  try {
    copies = options_.async ? copy_->begin(boxes) : boxes;
  } catch (...) {
    order.failure = std::current_exception();  // the other ranks wait: all learn of it when they agree
  }
  done_ = false;
  const auto stall_s = seconds_since(begin);
  thread_ = std::thread([this, stall_s, order = std::move(order), copies = std::move(copies)]() mutable {
    write(order, copies, stall_s);
  });
  if (!options_.async) {
    finish();
    if (result_) result_->stall_s = seconds_since(begin);
  }
  return before;
}

void Writer::release() { copy_ = std::make_unique<HostCopy>(options_.pinned); }

void Writer::before_update() { copy_->hold(); }

std::optional<Saved> Writer::wait() {
  finish();
  return std::exchange(result_, std::nullopt);
}

std::optional<Saved> Writer::poll() { return busy() ? std::nullopt : wait(); }

bool Writer::busy() const { return thread_.joinable() && !(done_ && copy_->is_settled()); }

// Runs on the thread of the save. finish() reads its results after the join.
void Writer::write(Order& order, const std::vector<TensorBox>& boxes, double stall_s) {
  const auto begin = Clock::now();
  try {
    if (!order.failure) copy_->finish();
  } catch (...) {
    order.failure = std::current_exception();  // see start()
  }
  const auto copy_s = seconds_since(begin);
  try {
    auto saved = commit(order, *group_, boxes);
    saved.stall_s = stall_s;
    saved.write_s += copy_s;
    result_ = std::move(saved);
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
}

void Writer::finish() {
  if (!thread_.joinable()) return;
  thread_.join();
  if (result_) {
    result_->stall_s += copy_->held_s();
    last_duration_s_ = result_->stall_s + result_->write_s;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

layout::Footprint Writer::footprint(std::int64_t bytes) { return {"checkpoint copy", bytes, "cpu", "always"}; }

Saved save(const std::filesystem::path& path, comm::Group& group, const Meta& meta, const std::vector<TensorBox>& boxes,
           const std::string& attempt, const AtPoint& at_point) {
  Order order;
  // "weights/" and "weights" are one folder.
  order.target = path.has_filename() ? path : path.parent_path();
  order.attempt = attempt;
  order.meta = meta;
  order.at_point = at_point;
  return commit(order, group, boxes);
}

}  // namespace capstan::checkpoint
