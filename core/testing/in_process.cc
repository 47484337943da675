// Ranks as threads of one process. A collective is a barrier, reads of the other ranks' tensors, and a second barrier.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "comm/agree.h"
#include "comm/ordered_sum.h"
#include "peers/call_log.h"
#include "peers/failure.h"

namespace capstan::comm {
namespace {

/// What a rank shares for the others to read.
struct Post {
  const char* operation = "";
  at::Tensor tensor;
  std::int64_t size = 0;  // what all ranks must agree on, in elements
  std::vector<std::int64_t> counts;
  at::Tensor part;  // a piece of the result, made between the two barriers
};

/// The rendezvous of one group.
struct Table {
  std::vector<int> ranks;
  std::array<std::vector<Post>, 2> posts;  // used in turn: a fast rank posts its next call while others still read
  int joined = 0;                          // ranks that made their Group
  int arrived = 0;
  std::uint64_t round = 0;
  std::map<std::pair<int, int>, std::deque<at::Tensor>> sent;  // by sender and receiver: copies on their way
  std::condition_variable changed;
};

/// Shared by the ranks of one run. Everything but the posts is guarded by `mutex`; a rank writes its own post before
/// a barrier and reads the others' after it.
class Team {
 public:
  explicit Team(int size) : size_(size), ended_(static_cast<std::size_t>(size), false) {}

  int size() const { return size_; }

  std::shared_ptr<Table> join(const std::string& name, const std::vector<int>& ranks) {
    std::scoped_lock lock(mutex_);
    std::shared_ptr<Table>& table = tables_[name];
    if (!table) {
      table = std::make_shared<Table>();
      table->ranks = ranks;
      for (auto& posts : table->posts) posts.resize(ranks.size());
    }
    if (table->ranks != ranks) throw std::logic_error(cat("ranks disagree about the members of group ", name));
    if (++table->joined > static_cast<int>(ranks.size())) {
      throw std::logic_error(cat("the group name '", name, "' is used twice"));
    }
    return table;
  }

  /// Returns when all members have arrived. Throws Error when a rank has failed, or ended without arriving.
  void meet(Table& table, const std::string& who) {
    std::unique_lock lock(mutex_);
    throw_if_failed();
    if (++table.arrived == static_cast<int>(table.ranks.size())) {
      table.arrived = 0;
      ++table.round;
      table.changed.notify_all();
      return;
    }
    const std::uint64_t round = table.round;
    table.changed.wait(lock, [&] { return table.round != round || failure_ || gone(table) >= 0; });
    if (table.round != round) return;
    throw_if_failed();
    throw std::logic_error(cat("rank ", gone(table), " has ended while ", who, " waits for it"));
  }

  void send(Table& table, std::pair<int, int> way, at::Tensor copy) {
    std::scoped_lock lock(mutex_);
    throw_if_failed();
    table.sent[way].push_back(std::move(copy));
    table.changed.notify_all();
  }

  /// Waits for what the sender sends. Throws like meet().
  at::Tensor receive(Table& table, std::pair<int, int> way, const std::string& who) {
    std::unique_lock lock(mutex_);
    auto& sent = table.sent[way];
    const auto sender = table.ranks[static_cast<std::size_t>(way.first)];
    const auto has_ended = [&] { return static_cast<bool>(ended_[static_cast<std::size_t>(sender)]); };
    table.changed.wait(lock, [&] { return !sent.empty() || failure_ || has_ended(); });
    throw_if_failed();
    if (sent.empty()) throw std::logic_error(cat("rank ", sender, " has ended while ", who, " waits for it"));
    auto copy = std::move(sent.front());
    sent.pop_front();
    return copy;
  }

  void fail(int rank, const std::string& message, const std::exception_ptr& exception) {
    std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = peers::Failure{rank, {}, message};
    if (exception && !exception_ && failure_->rank == rank) exception_ = exception;
    wake_all();
  }

  void end(int rank) {
    std::scoped_lock lock(mutex_);
    ended_[static_cast<std::size_t>(rank)] = true;
    wake_all();
  }

  /// Called when all threads have ended.
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
    throw_if_failed();
  }

 private:
  void throw_if_failed() const {
    if (failure_) throw PeerFailed(failure_->text(), failure_->rank);
  }
  int gone(const Table& table) const {
    for (const int rank : table.ranks) {
      if (ended_[static_cast<std::size_t>(rank)]) return rank;
    }
    return -1;
  }
  void wake_all() {
    for (const auto& [name, table] : tables_) table->changed.notify_all();
  }

  const int size_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Table>> tables_;
  std::vector<bool> ended_;
  std::optional<peers::Failure> failure_;
  std::exception_ptr exception_;
};

std::string describe(int rank, const Post& post) {
  return cat("rank ", rank, ": ", post.operation, " of ", post.size, " ",
             post.tensor.defined() ? c10::toString(post.tensor.scalar_type()) : "");
}

class InProcessGroup final : public Group {
 public:
  InProcessGroup(std::shared_ptr<Team> team, std::shared_ptr<Table> table, std::string name, int rank,
                 std::shared_ptr<peers::CallLog> log)
      : Group(std::move(name), table->ranks, rank, c10::Device(c10::kCPU), std::move(log)),
        team_(std::move(team)),
        table_(std::move(table)) {}

 private:
  std::vector<Post>& posts() { return table_->posts[turn_]; }
  Post& mine() { return posts()[static_cast<std::size_t>(rank())]; }

  void meet() { team_->meet(*table_, cat("group ", name())); }

  /// The end of a call: no rank reads this rank's tensor any more.
  void meet_and_let_go() {
    meet();
    mine().tensor.reset();
  }

  /// Posts this rank's tensor and waits for the others'; all must make the same call.
  void post(const char* operation, const at::Tensor& tensor, std::int64_t agreed,
            std::vector<std::int64_t> counts = {}) {
    turn_ = 1 - turn_;
    mine() = Post{operation, tensor.defined() ? flat_memory(tensor) : tensor, agreed, std::move(counts), {}};
    meet();
    const Post& first = posts()[0];
    for (std::size_t i = 1; i < posts().size(); ++i) {
      const Post& other = posts()[i];
      const bool same_type = first.tensor.defined() == other.tensor.defined() &&
                             (!first.tensor.defined() || first.tensor.scalar_type() == other.tensor.scalar_type());
      if (std::string_view(first.operation) == other.operation && first.size == other.size && same_type) continue;
      throw std::logic_error(cat("group ", name(), ": ranks call different collectives: ", describe(ranks()[0], first),
                                 "; ", describe(ranks()[i], other)));
    }
  }

  /// Slice [from, from + length) of every rank's post.
  std::vector<at::Tensor> slices(std::int64_t from, std::int64_t length) {
    std::vector<at::Tensor> parts;
    parts.reserve(posts().size());
    for (const Post& post : posts()) parts.push_back(post.tensor.narrow(0, from, length));
    return parts;
  }

  void do_all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    post("all-reduce", tensor, tensor.numel());
    // Each rank sums one piece; the pieces are copied once all are computed and no input is read any more.
    const std::int64_t piece = (tensor.numel() + size() - 1) / size();
    const std::int64_t from = std::min(tensor.numel(), piece * rank());
    const std::int64_t length = std::min(tensor.numel() - from, piece);
    mine().part = at::empty({length}, mine().tensor.options());
    if (length > 0) reduce_in_rank_order(mine().part, slices(from, length), op);
    meet_and_let_go();
    const at::Tensor target = flat_memory(tensor);
    std::int64_t at = 0;
    for (const Post& other : posts()) {
      target.narrow(0, at, other.part.numel()).copy_(other.part);
      at += other.part.numel();
    }
  }

  void do_all_gather(const at::Tensor& out, const at::Tensor& in) override {
    post("all-gather", in, in.numel());
    // The result is built in a copy: `in` may be a piece of `out`, which a neighbour still reads.
    const at::Tensor result = at::empty({out.numel()}, out.options());
    for (int i = 0; i < size(); ++i) {
      result.narrow(0, i * in.numel(), in.numel()).copy_(posts()[static_cast<std::size_t>(i)].tensor);
    }
    meet_and_let_go();
    flat_memory(out).copy_(result);
  }

  void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    post("reduce-scatter", in, in.numel());
    const at::Tensor result = at::empty({out.numel()}, out.options());
    reduce_in_rank_order(result, slices(rank() * out.numel(), out.numel()), ReduceOp::sum);
    meet_and_let_go();
    flat_memory(out).copy_(result);
  }

  void do_broadcast(const at::Tensor& tensor, int root) override {
    post("broadcast", tensor, tensor.numel());
    if (rank() != root) mine().tensor.copy_(posts()[static_cast<std::size_t>(root)].tensor);
    meet_and_let_go();
  }

  void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                     const std::vector<std::int64_t>& in_counts) override {
    const std::int64_t row = c10::multiply_integers(in.sizes().slice(1));
    post("all-to-all", in, row, in_counts);
    const at::Tensor target = flat_memory(out);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < posts().size(); ++i) {
      const Post& other = posts()[i];
      const auto me = static_cast<std::size_t>(rank());
      if (other.counts[me] != out_counts[i]) {
        throw std::logic_error(cat("all-to-all of group ", name(), ": rank ", ranks()[i], " sends ", other.counts[me],
                                   " rows where rank ", ranks()[me], " expects ", out_counts[i]));
      }
      std::int64_t from = 0;
      for (std::size_t k = 0; k < me; ++k) from += other.counts[k];
      const std::int64_t length = out_counts[i] * row;
      target.narrow(0, at, length).copy_(other.tensor.narrow(0, from * row, length));
      at += length;
    }
    meet_and_let_go();
  }

  void do_barrier() override { post("barrier", {}, 0); }

  Rest do_start_send(const at::Tensor& tensor, int to) override {
    team_->send(*table_, {rank(), to}, flat_memory(tensor).clone());
    return [] {};
  }

  void do_receive(const at::Tensor& tensor, int from) override {
    const auto copy = team_->receive(*table_, {from, rank()}, cat("group ", name()));
    if (copy.numel() != tensor.numel() || copy.scalar_type() != tensor.scalar_type()) {
      throw std::logic_error(
          cat("group ", name(), ": rank ", ranks()[static_cast<std::size_t>(from)], " sends ", copy.numel(), " ",
              c10::toString(copy.scalar_type()), " where ",
              describe(ranks()[static_cast<std::size_t>(rank())], {"receive", tensor, tensor.numel(), {}, {}})));
    }
    flat_memory(tensor).copy_(copy);
  }

  std::shared_ptr<Team> team_;
  std::shared_ptr<Table> table_;
  std::size_t turn_ = 0;
};

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Team> team, int rank) : team_(std::move(team)) {
    world_.rank = world_.local_rank = rank;
    world_.size = world_.local_size = team_->size();
    world_.launcher = "in-process";
    std::vector<int> all(static_cast<std::size_t>(team_->size()));
    std::iota(all.begin(), all.end(), 0);
    everyone_ = group(" exchange", all, c10::Device(c10::kCPU));
  }

  const World& world() const override { return world_; }

  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, c10::Device device) override {
    if (!device.is_cpu()) throw Error("in-process ranks work on the CPU only", "ask for device = \"cpu\"");
    const auto found = std::find(ranks.begin(), ranks.end(), world_.rank);
    CAPSTAN_ASSERT(found != ranks.end());
    return std::make_shared<InProcessGroup>(team_, team_->join(name, ranks), name,
                                            static_cast<int>(found - ranks.begin()), log_);
  }

  std::string backend(c10::Device) const override { return "in-process"; }

  std::vector<std::string> exchange(const std::string& mine) override {
    return exchange_texts(*everyone_, mine, "exchange");
  }

  void trace(std::shared_ptr<monitor::Tracer> tracer) override { log_->trace(std::move(tracer)); }
  void report_failure(const std::string& message) override { team_->fail(world_.rank, message, nullptr); }

 private:
  World world_;
  std::shared_ptr<Team> team_;
  std::shared_ptr<peers::CallLog> log_ = std::make_shared<peers::CallLog>();
  std::shared_ptr<Group> everyone_;
};

void run_rank(const std::shared_ptr<Team>& team, int rank, const std::function<void(Communicator&)>& body) {
  try {
    InProcessCommunicator communicator(team, rank);
    body(communicator);
  } catch (const std::exception& error) {
    team->fail(rank, error.what(), std::current_exception());
  } catch (...) {
    team->fail(rank, "an exception that is no std::exception", std::current_exception());
  }
  team->end(rank);
}

}  // namespace

void run_in_process(int size, const std::function<void(Communicator&)>& body) {
  CAPSTAN_ASSERT(size > 0);
  const auto team = std::make_shared<Team>(size);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(run_rank, team, rank, std::cref(body));
  for (std::thread& thread : threads) thread.join();
  team->rethrow();
}

}  // namespace capstan::comm
