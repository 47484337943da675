#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/comm/group.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

#include "comm/call_log.h"
#include "comm/ordered_sum.h"
#include "comm/side_stream.h"

namespace capstan::comm {
namespace {

/// Records a call from its start to its end. When it throws, the entry stays, for reports, and the error says where it
/// happened.
template <class F>
auto recorded(CallLog& log, const char* operation, const Group& group, std::string_view label, std::int64_t number,
              const F& call) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const std::uint64_t ticket = log.begin(operation, group.name(), label, number);
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      log.end(ticket, group.device());
    } else {
      auto result = call();
      log.end(ticket, group.device());
      return result;
    }
  } catch (Error& error) {
    const Call here{operation, group.name(), std::string(label), number, start};
    error.add_context(cat("in ", here.text(), ", for ", number_text(std::round(here.seconds() * 10) / 10), " s"));
    throw;
  }
}

/// The log has the wait as a separate call: the time between start and wait belongs to no collective.
class RecordedPending final : public Pending {
 public:
  RecordedPending(std::unique_ptr<Pending> pending, const Group& group, std::shared_ptr<CallLog> log, Call call)
      : pending_(std::move(pending)), group_(group), log_(std::move(log)), call_(std::move(call)) {}
  void wait() override {
    CAPSTAN_ASSERT(pending_ != nullptr);
    recorded(*log_, call_.operation.c_str(), group_, call_.label, call_.number,
             [&] { std::exchange(pending_, nullptr)->wait(); });
  }

 private:
  std::unique_ptr<Pending> pending_;
  const Group& group_;
  std::shared_ptr<CallLog> log_;
  Call call_;
};

class Finished final : public Pending {
  void wait() override {}
};

/// A host call that runs in wait().
template <class Call>
class Deferred final : public Pending {
 public:
  explicit Deferred(Call call) : call_(std::move(call)) {}
  void wait() override { call_(); }

 private:
  Call call_;
};

template <class Call>
std::unique_ptr<Pending> deferred(Call call) {
  return std::make_unique<Deferred<Call>>(std::move(call));
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

Group::Group(std::string name, std::vector<int> ranks, int rank, c10::Device device, std::shared_ptr<CallLog> log)
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

void Group::check_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label) const {
  check(out, "all-gather", label);
  check(in, "all-gather", label);
  CAPSTAN_ASSERT(out.numel() == in.numel() * size() && out.scalar_type() == in.scalar_type());
}

void Group::check_scatter(const at::Tensor& out, const at::Tensor& in, std::string_view label) const {
  check(out, "reduce-scatter", label);
  check(in, "reduce-scatter", label);
  CAPSTAN_ASSERT(in.numel() == out.numel() * size() && in.scalar_type() == out.scalar_type());
}

void Group::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label) {
  if (connected_) return connected_->all_reduce(tensor, op, label);
  check(tensor, "all-reduce", label);
  if (size() == 1 || tensor.numel() == 0) return;
  recorded(*log_, "all-reduce", *this, label, ++calls_, [&] { do_all_reduce(tensor, op); });
}

void Group::all_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label) {
  if (connected_) return connected_->all_gather(out, in, label);
  check_gather(out, in, label);
  if (size() == 1) return copy_memory(out, in);
  if (in.numel() == 0) return;
  recorded(*log_, "all-gather", *this, label, ++calls_, [&] { do_all_gather(out, in); });
}

void Group::reduce_scatter(const at::Tensor& out, const at::Tensor& in, std::string_view label) {
  if (connected_) return connected_->reduce_scatter(out, in, label);
  check(out, "reduce-scatter", label);
  check(in, "reduce-scatter", label);
  CAPSTAN_ASSERT(in.numel() == out.numel() * size() && out.scalar_type() == in.scalar_type());
  if (size() == 1) return copy_memory(out, in);
  if (out.numel() == 0) return;
  recorded(*log_, "reduce-scatter", *this, label, ++calls_, [&] { do_reduce_scatter(out, in); });
}

void Group::all_gather(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in, std::string_view label) {
  if (connected_) return connected_->all_gather(out, in, label);
  CAPSTAN_ASSERT(out.size() == in.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    check_gather(out[i], in[i], label);
    if (size() == 1) copy_memory(out[i], in[i]);
  }
  if (size() == 1 || out.empty()) return;
  recorded(*log_, "all-gather", *this, label, ++calls_, [&] { do_all_gather_list(out, in); });
}

void Group::reduce_scatter(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in,
                           std::string_view label) {
  if (connected_) return connected_->reduce_scatter(out, in, label);
  CAPSTAN_ASSERT(out.size() == in.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    check(out[i], "reduce-scatter", label);
    check(in[i], "reduce-scatter", label);
    CAPSTAN_ASSERT(in[i].numel() == out[i].numel() * size() && out[i].scalar_type() == in[i].scalar_type());
    if (size() == 1) copy_memory(out[i], in[i]);
  }
  if (size() == 1 || out.empty()) return;
  recorded(*log_, "reduce-scatter", *this, label, ++calls_, [&] { do_reduce_scatter_list(out, in); });
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
  recorded(*log_, "broadcast", *this, label, ++calls_, [&] { do_broadcast(tensor, root); });
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
  recorded(*log_, "all-to-all", *this, label, ++calls_, [&] { do_all_to_all(out, in, out_counts, in_counts); });
}

void Group::barrier(std::string_view label) {
  if (connected_) return connected_->barrier(label);
  if (size() == 1) return;
  recorded(*log_, "barrier", *this, label, ++calls_, [&] { do_barrier(); });
}

template <class Queue, class Start>
std::unique_ptr<Pending> Group::start(const char* operation, std::string_view label, const Queue& queue,
                                      const Start& start) {
  const auto number = ++calls_;
  if (!device_.is_cuda()) {  // also in a dry run on the meta device
    auto pending = recorded(*log_, operation, *this, label, number, start);
    return std::make_unique<RecordedPending>(std::move(pending), *this, log_,
                                             Call{operation, name_, std::string(label), number, {}});
  }
  if (!side_stream_) side_stream_ = std::make_unique<SideStream>(device_, true);
  Event done;
  {
    const SideStream::Use use(*side_stream_);
    recorded(*log_, operation, *this, label, number, queue);
    done.record(device_);
  }
  return std::make_unique<Queued>(device_, std::move(done));
}

std::unique_ptr<Pending> Group::start_all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label) {
  if (connected_) return connected_->start_all_reduce(tensor, op, label);
  check(tensor, "all-reduce", label);
  if (size() == 1 || tensor.numel() == 0) return std::make_unique<Finished>();
  return start(
      "all-reduce", label, [&] { do_all_reduce(tensor, op); }, [&] { return do_start_all_reduce(tensor, op); });
}

std::unique_ptr<Pending> Group::start_all_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label) {
  if (connected_) return connected_->start_all_gather(out, in, label);
  check_gather(out, in, label);
  if (size() == 1) copy_memory(out, in);
  if (size() == 1 || in.numel() == 0) return std::make_unique<Finished>();
  return start(
      "all-gather", label, [&] { do_all_gather(out, in); }, [&] { return do_start_all_gather(out, in); });
}

std::unique_ptr<Pending> Group::start_reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                                                     std::string_view label) {
  if (connected_) return connected_->start_reduce_scatter(out, in, label);
  check_scatter(out, in, label);
  if (size() == 1) copy_memory(out, in);
  if (size() == 1 || out.numel() == 0) return std::make_unique<Finished>();
  return start(
      "reduce-scatter", label, [&] { do_reduce_scatter(out, in); }, [&] { return do_start_reduce_scatter(out, in); });
}

std::unique_ptr<Pending> Group::do_start_all_reduce(const at::Tensor& tensor, ReduceOp op) {
  return deferred([this, tensor, op] { do_all_reduce(tensor, op); });
}

std::unique_ptr<Pending> Group::do_start_all_gather(const at::Tensor& out, const at::Tensor& in) {
  return deferred([this, out, in] { do_all_gather(out, in); });
}

std::unique_ptr<Pending> Group::do_start_reduce_scatter(const at::Tensor& out, const at::Tensor& in) {
  return deferred([this, out, in] { do_reduce_scatter(out, in); });
}

}  // namespace capstan::comm
