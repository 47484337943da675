#pragma once
// What a rank does, in order: its collectives, where the started ones begin and are waited for, and the matrix products
// between them.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <capstan/base/text.h>
#include <capstan/comm/group.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_log.h"

namespace capstan::testing {

using Trace = std::vector<std::string>;

/// A group that notes the calls that go through it with their labels: "all-reduce x", "start all-gather x", "wait".
class NotedGroup final : public comm::Group {
 public:
  NotedGroup(std::shared_ptr<comm::Group> group, Trace& trace)
      : NotedGroup(std::move(group), trace, std::make_shared<comm::CallLog>()) {}

 private:
  NotedGroup(std::shared_ptr<comm::Group> group, Trace& trace, std::shared_ptr<comm::CallLog> log)
      : Group("noted", group->ranks(), group->rank(), group->device(), log),
        group_(std::move(group)),
        trace_(trace),
        log_(std::move(log)) {}

  class Wait final : public comm::Pending {
   public:
    Wait(std::unique_ptr<comm::Pending> pending, Trace& trace) : pending_(std::move(pending)), trace_(trace) {}
    void wait() override {
      trace_.emplace_back("wait");
      pending_->wait();
    }

   private:
    std::unique_ptr<comm::Pending> pending_;
    Trace& trace_;
  };

  void note(const char* what) { trace_.push_back(cat(what, " ", log_->last()->label)); }
  std::unique_ptr<comm::Pending> noted(std::unique_ptr<comm::Pending> pending) {
    return std::make_unique<Wait>(std::move(pending), trace_);
  }

  void do_all_reduce(const at::Tensor& tensor, comm::ReduceOp op) override {
    note("all-reduce");
    group_->all_reduce(tensor, op, "noted");
  }
  void do_all_gather(const at::Tensor& out, const at::Tensor& in) override {
    note("all-gather");
    group_->all_gather(out, in, "noted");
  }
  void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    note("reduce-scatter");
    group_->reduce_scatter(out, in, "noted");
  }
  std::unique_ptr<comm::Pending> do_start_all_reduce(const at::Tensor& tensor, comm::ReduceOp op) override {
    note("start all-reduce");
    return noted(group_->start_all_reduce(tensor, op, "noted"));
  }
  std::unique_ptr<comm::Pending> do_start_all_gather(const at::Tensor& out, const at::Tensor& in) override {
    note("start all-gather");
    return noted(group_->start_all_gather(out, in, "noted"));
  }
  std::unique_ptr<comm::Pending> do_start_reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    note("start reduce-scatter");
    return noted(group_->start_reduce_scatter(out, in, "noted"));
  }
  [[noreturn]] static void unexpected() { throw std::logic_error("layers that are split make no such call"); }
  void do_broadcast(const at::Tensor&, int) override { unexpected(); }
  void do_all_to_all(const at::Tensor&, const at::Tensor&, const std::vector<std::int64_t>&,
                     const std::vector<std::int64_t>&) override {
    unexpected();
  }
  void do_barrier() override { unexpected(); }

  std::shared_ptr<comm::Group> group_;
  Trace& trace_;
  std::shared_ptr<comm::CallLog> log_;
};

/// While it lives, this thread's matrix products are noted: "mm". Their operands can't be: RecordFunction's layout
/// depends on NDEBUG, with which LibTorch is built and this is not.
class NotedProducts {
 public:
  explicit NotedProducts(Trace& trace) {
    here() = &trace;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&note).scopes({at::RecordScope::FUNCTION}));
  }
  ~NotedProducts() {
    at::removeCallback(handle_);
    here() = nullptr;
  }
  NotedProducts(const NotedProducts&) = delete;
  NotedProducts& operator=(const NotedProducts&) = delete;

 private:
  // ATen calls a function pointer, on the thread that multiplies.
  static Trace*& here() {
    static thread_local Trace* trace = nullptr;
    return trace;
  }
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
    if (here() != nullptr && std::string(function.name()) == "aten::mm") here()->emplace_back("mm");
    return nullptr;
  }

  at::CallbackHandle handle_{};
};

}  // namespace capstan::testing
