#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/comm/group.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <utility>

#include "comm/ordered_sum.h"
#include "comm/side_stream.h"
#include "comm/stream_work.h"
#include "peers/call_log.h"

namespace capstan::comm {
namespace {

/// A host call that wait() finishes.
class Deferred final : public Pending {
 public:
  explicit Deferred(std::function<void()> rest, bool has_ended = false)
      : rest_(std::move(rest)), has_ended_(has_ended) {}
  void wait() override {
    CAPSTAN_ASSERT(rest_ != nullptr);
    std::exchange(rest_, nullptr)();
  }
  bool has_ended() const override { return has_ended_; }

 private:
  std::function<void()> rest_;
  bool has_ended_;
};

std::unique_ptr<Pending> finished() {
  return std::make_unique<Deferred>([] {}, true);
}

/// A call that was queued on a side stream. Its tensors belong to the stream that waits, so that their memory can be
/// reused as soon as that stream has waited. The destructor waits if wait() was never called (an exception).
class Queued final : public Pending {
 public:
  Queued(c10::Device device, Event done) : device_(device), done_(std::move(done)) {}
  ~Queued() override {
    if (waited_) return;
    try {
      done_.wait(device_);
    } catch (const std::exception& error) {
      log::warning(cat("a collective that was started cannot be waited for: ", error.what()));
    }
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;
  void wait() override {
    CAPSTAN_ASSERT(!waited_);
    waited_ = true;
    done_.wait(device_);
  }
  bool has_ended() const override { return done_.is_reached(); }

 private:
  c10::Device device_;
  Event done_;
  bool waited_ = false;
};

void copy_memory(const at::Tensor& out, const at::Tensor& in) {
  if (out.data_ptr() != in.data_ptr()) flat_memory(out).copy_(flat_memory(in), /*non_blocking=*/true);
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

Pending::~Pending() = default;
Group::~Group() = default;

Group::Group(std::string name, std::vector<int> ranks, int rank, c10::Device device,
             std::shared_ptr<peers::CallLog> log)
    : name_(std::move(name)), ranks_(std::move(ranks)), rank_(rank), device_(device), log_(std::move(log)) {
  CAPSTAN_ASSERT(rank_ >= 0 && rank_ < size());
}

void Group::connect_to(std::shared_ptr<Group> other) {
  CAPSTAN_ASSERT(other->ranks() == ranks_ && other->rank() == rank_);
  connected_ = std::move(other);
}

void Group::check(const at::Tensor& tensor, const char* operation, std::string_view label) const {
  const auto here = [this](c10::Device device) { return device == device_ || (device.is_cpu() && device_.is_cpu()); };
  if (tensor.defined() && tensor.is_contiguous() && here(tensor.device())) return;
  throw std::logic_error(cat(operation, " '", label, "' of group ", name_, ": ",
                             !tensor.defined() ? "an undefined tensor"
                             : !tensor.is_contiguous()
                                 ? "the tensor is not contiguous"
                                 : cat("a tensor on ", tensor.device().str(), ", the group is on ", device_.str())));
}

void Group::check_pieces(const at::Tensor& whole, const at::Tensor& piece, const char* operation,
                         std::string_view label) const {
  check(whole, operation, label);
  check(piece, operation, label);
  CAPSTAN_ASSERT(whole.numel() == piece.numel() * size() && whole.scalar_type() == piece.scalar_type());
}

template <class F>
void Group::record(const char* operation, std::string_view label, std::int64_t number, const F& call) {
  finish_started();
  record_in(name_, operation, label, number, call);
}

template <class F>
void Group::record_in(const std::string& group, const char* operation, std::string_view label, std::int64_t number,
                      const F& call) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const std::uint64_t ticket = log_->begin(operation, group, label, number);
    call();
    const bool queues = device_.is_cuda() && !is_recorded();
    log_->end(ticket, queues ? queued_now(log_->used(ticket), device_) : nullptr);
  } catch (Error& error) {
    const peers::CollectiveCall here{operation, group, std::string(label), number, start};
    error.add_context(cat("in ", here.text(), ", for ", here.duration()));
    throw;
  }
}

void Group::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label) {
  if (connected_) return connected_->all_reduce(tensor, op, label);
  check(tensor, "all-reduce", label);
  if (size() == 1 || tensor.numel() == 0) return;
  record("all-reduce", label, ++calls_, [&] { do_all_reduce(tensor, op); });
}

void Group::all_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label) {
  if (connected_) return connected_->all_gather(out, in, label);
  check_pieces(out, in, "all-gather", label);
  if (size() == 1) return copy_memory(out, in);
  if (in.numel() == 0) return;
  record("all-gather", label, ++calls_, [&] { do_all_gather(out, in); });
}

void Group::reduce_scatter(const at::Tensor& out, const at::Tensor& in, std::string_view label) {
  if (connected_) return connected_->reduce_scatter(out, in, label);
  check_pieces(in, out, "reduce-scatter", label);
  if (size() == 1) return copy_memory(out, in);
  if (out.numel() == 0) return;
  record("reduce-scatter", label, ++calls_, [&] { do_reduce_scatter(out, in); });
}

void Group::all_gather(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in, std::string_view label) {
  if (connected_) return connected_->all_gather(out, in, label);
  CAPSTAN_ASSERT(out.size() == in.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_pieces(out[i], in[i], "all-gather", label);
    if (size() == 1) copy_memory(out[i], in[i]);
  }
  if (size() == 1 || out.empty()) return;
  record("all-gather", label, ++calls_, [&] { do_all_gather_list(out, in); });
}

void Group::reduce_scatter(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in,
                           std::string_view label) {
  if (connected_) return connected_->reduce_scatter(out, in, label);
  CAPSTAN_ASSERT(out.size() == in.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_pieces(in[i], out[i], "reduce-scatter", label);
    if (size() == 1) copy_memory(out[i], in[i]);
  }
  if (size() == 1 || out.empty()) return;
  record("reduce-scatter", label, ++calls_, [&] { do_reduce_scatter_list(out, in); });
}

void Group::do_all_gather_list(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (in[i].numel() > 0) do_all_gather(out[i], in[i]);
  }
}

void Group::do_reduce_scatter_list(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].numel() > 0) do_reduce_scatter(out[i], in[i]);
  }
}

void Group::broadcast(const at::Tensor& tensor, int root, std::string_view label) {
  if (connected_) return connected_->broadcast(tensor, root, label);
  check(tensor, "broadcast", label);
  CAPSTAN_ASSERT(root >= 0 && root < size());
  if (size() == 1 || tensor.numel() == 0) return;
  record("broadcast", label, ++calls_, [&] { do_broadcast(tensor, root); });
}

void Group::all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                       const std::vector<std::int64_t>& in_counts, std::string_view label) {
  if (connected_) return connected_->all_to_all(out, in, out_counts, in_counts, label);
  check(out, "all-to-all", label);
  check(in, "all-to-all", label);
  CAPSTAN_ASSERT(out.dim() > 0 && in.dim() > 0 && out.scalar_type() == in.scalar_type());
  CAPSTAN_ASSERT(out.sizes().slice(1) == in.sizes().slice(1));
  CAPSTAN_ASSERT(static_cast<int>(out_counts.size()) == size() && sum(out_counts) == out.size(0));
  CAPSTAN_ASSERT(static_cast<int>(in_counts.size()) == size() && sum(in_counts) == in.size(0));
  if (size() == 1) return copy_memory(out, in);
  record("all-to-all", label, ++calls_, [&] { do_all_to_all(out, in, out_counts, in_counts); });
}

void Group::barrier(std::string_view label) {
  if (connected_) return connected_->barrier(label);
  if (size() == 1) return;
  record("barrier", label, ++calls_, [&] { do_barrier(); });
}

void Group::finish_started(const std::function<void()>* last) {
  while (!started_.empty()) {
    const auto one = started_.front().lock();
    started_.pop_front();
    if (one && *one) std::exchange(*one, nullptr)();
    if (one && one.get() == last) return;
  }
}

std::unique_ptr<Pending> Group::start(const char* operation, std::string_view label, const Rest& call,
                                      const std::function<Rest()>& begin) {
  const auto number = ++calls_;
  if (device_.is_cuda()) return start_on_device([&] { record_in(name_, operation, label, number, call); });
  // This is also a dry run's, on the meta device. The log has the wait as a separate call: the time between start and
  // wait belongs to no collective.
  Rest rest;
  record_in(name_, operation, label, number, [&] { rest = begin(); });
  const auto left = std::make_shared<std::function<void()>>(
      [this, operation, label = std::string(label), number, rest = std::move(rest)] {
        record_in(name_, operation, label, number, rest);
      });
  started_.push_back(left);
  return std::make_unique<Deferred>([this, left] {
    if (*left) finish_started(left.get());
  });
}

std::unique_ptr<Pending> Group::start_on_device(const std::function<void()>& recorded) {
  if (!side_stream_) side_stream_ = std::make_unique<SideStream>(device_, true);
  Event done;
  const SideStream::Use use(*side_stream_);
  recorded();
  done.record(device_);
  return std::make_unique<Queued>(device_, std::move(done));
}

std::unique_ptr<Pending> Group::start_all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label) {
  if (connected_) return connected_->start_all_reduce(tensor, op, label);
  check(tensor, "all-reduce", label);
  if (size() == 1 || tensor.numel() == 0) return finished();
  return start(
      "all-reduce", label, [&] { do_all_reduce(tensor, op); }, [&] { return do_start_all_reduce(tensor, op); });
}

std::unique_ptr<Pending> Group::start_all_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label) {
  if (connected_) return connected_->start_all_gather(out, in, label);
  check_pieces(out, in, "all-gather", label);
  if (size() == 1) copy_memory(out, in);
  if (size() == 1 || in.numel() == 0) return finished();
  Rest call = [this, out, in] { do_all_gather(out, in); };
  return start("all-gather", label, call, [&] { return call; });
}

std::unique_ptr<Pending> Group::start_reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                                                     std::string_view label) {
  if (connected_) return connected_->start_reduce_scatter(out, in, label);
  check_pieces(in, out, "reduce-scatter", label);
  if (size() == 1) copy_memory(out, in);
  if (size() == 1 || out.numel() == 0) return finished();
  Rest call = [this, out, in] { do_reduce_scatter(out, in); };
  return start("reduce-scatter", label, call, [&] { return call; });
}

Group::Transfer Group::transfer(int from, int to) {
  CAPSTAN_ASSERT(from >= 0 && from < size() && to >= 0 && to < size() && from != to);
  const auto world = [this](int member) { return ranks_[static_cast<std::size_t>(member)]; };
  return {peers::transfer_group(name_, world(from), world(to)), ++transfers_[{from, to}]};
}

void Group::send(const at::Tensor& tensor, int to, std::string_view label) {
  if (connected_) return connected_->send(tensor, to, label);
  check(tensor, "send", label);
  if (tensor.numel() == 0) return;
  const auto [group, number] = transfer(rank_, to);
  record_in(group, "transfer", label, number, [&] { do_start_send(tensor, to)(); });
}

void Group::receive(const at::Tensor& tensor, int from, std::string_view label) {
  if (connected_) return connected_->receive(tensor, from, label);
  check(tensor, "receive", label);
  if (tensor.numel() == 0) return;
  const auto [group, number] = transfer(from, rank_);
  record_in(group, "transfer", label, number, [&] { do_receive(tensor, from); });
}

std::unique_ptr<Pending> Group::start_send(const at::Tensor& tensor, int to, std::string_view label) {
  if (connected_) return connected_->start_send(tensor, to, label);
  check(tensor, "send", label);
  if (tensor.numel() == 0) return finished();
  return start_transfer(rank_, to, label, [&] { return do_start_send(tensor, to); });
}

std::unique_ptr<Pending> Group::start_receive(const at::Tensor& tensor, int from, std::string_view label) {
  if (connected_) return connected_->start_receive(tensor, from, label);
  check(tensor, "receive", label);
  if (tensor.numel() == 0) return finished();
  return start_transfer(from, rank_, label, [&] { return do_start_receive(tensor, from); });
}

std::unique_ptr<Pending> Group::start_transfer(int from, int to, std::string_view label,
                                               const std::function<Rest()>& begin) {
  auto named = transfer(from, to);
  Rest rest;
  const auto started = [&] { record_in(named.group, "transfer", label, named.number, [&] { rest = begin(); }); };
  if (device_.is_cuda()) return start_on_device(started);
  started();
  if (device_.is_meta()) return finished();
  return std::make_unique<Deferred>(
      [this, named = std::move(named), label = std::string(label), rest = std::move(rest)] {
        record_in(named.group, "transfer", label, named.number, rest);
      });
}

Group::Rest Group::do_start_receive(const at::Tensor& tensor, int from) {
  return [this, tensor, from] { do_receive(tensor, from); };
}

Group::Rest Group::do_start_all_reduce(const at::Tensor& tensor, ReduceOp op) {
  return [this, tensor, op] { do_all_reduce(tensor, op); };
}

}  // namespace capstan::comm
