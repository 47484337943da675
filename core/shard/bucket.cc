#include "shard/bucket.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/ops/pinned.h>

#include <utility>

#include "shard/fill.h"

namespace capstan::shard {
namespace {

// Gives a tensor's storage memory, or takes it away, without touching any tensor that looks at it: saved tensors
// and the leaf itself keep pointing to the same storage (PyTorch's FSDP2 frees and refills in the same way).
void set_storage_bytes(const at::Tensor& tensor, std::size_t bytes) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  auto* allocator = c10::GetAllocator(tensor.device().type());
  storage->set_data_ptr_noswap(bytes == 0 ? at::DataPtr(nullptr, tensor.device()) : allocator->allocate(bytes));
  storage->set_nbytes(bytes);
}

// The memory is used on the current stream, which is not the one it was allocated on.
void note_use(const at::Tensor& tensor) {
  const auto device = tensor.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), guard.getStream(device));
}

}  // namespace

Bucket::Bucket(const BucketPlan& plan, Shared& shared, const GroupOf& group_of)
    : plan_(plan),
      shared_(shared),
      label_(cat("all-gather ", shared.options.owner(), " ", plan.name)),
      group_(group_of(plan.axes, 0)),
      on_host_(plan.on_host()),
      send_from_(shard::send_from(plan, shared.options)) {
  CAPSTAN_ASSERT(group_->size() == plan.ranks);
  if (reshards(plan, shared.options.policy)) part_group_ = group_of(plan.axes, shared.options.policy.reshard_size);
}

void Bucket::allocate() {
  const auto& options = shared_.options;
  const auto dtype = master_dtype(plan_, options);
  const auto on_device = at::TensorOptions().device(shared_.device());
  const bool apart = plan_.gathers() || dtype != options.precision.compute;
  if (apart) {
    const auto size = plan_.gathers() ? plan_.slab : plan_.whole;
    const bool sent = on_host_ && dtype == options.precision.compute;
    masters_ = on_host_ ? ops::host_zeros(size, dtype, sent && options.policy.pin_memory, shared_.device())
                        : at::zeros({size}, on_device.dtype(dtype));
    if (on_host_ && !sent) {
      host_send_ = ops::host_zeros(plan_.slab, options.precision.compute, options.policy.pin_memory, shared_.device());
    }
    if (send_from_ == SendFrom::host) send_copy_ = sent ? masters_ : host_send_;
    if (send_from_ == SendFrom::device_copy) {
      send_copy_ = at::zeros({plan_.slab}, on_device.dtype(options.precision.compute));
    }
  }
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) make_leaf(i);
  if (!apart) {
    // The masters are the whole copies themselves, seen with their padding.
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) master_slice(i, false).zero_();
  }
}

// The whole weight's leaf over a storage of its own, and an alias to write through.
void Bucket::make_leaf(std::size_t i) {
  const auto& cut = plan_.weights[i].cut;
  auto& weight = *plan_.weights[i].weight;
  const auto options = at::TensorOptions().dtype(shared_.options.precision.compute).device(shared_.device());
  Leaf leaf;
  auto flat = at::empty({cut.whole_room}, options);
  leaf.alias = flat.narrow(0, 0, cut.numel);
  leaf.tensor = at::empty({0}, options).set_(flat.storage(), 0, cut.shape, c10::contiguous_strides(cut.shape));
  leaf.tensor.set_requires_grad(plan_.trainable);
  weight.bind(leaf.tensor);
  if (plan_.cut_param) set_storage_bytes(leaf.tensor, 0);
  leaves_.push_back(std::move(leaf));
}

at::Tensor Bucket::master_slice(std::size_t i, bool raw) const {
  const auto& planned = plan_.weights[i];
  if (plan_.gathers()) return masters_.narrow(0, planned.slab_offset, planned.cut.chunk_room);
  const auto size = raw ? planned.cut.numel : planned.cut.whole_room;
  if (masters_.defined()) return masters_.narrow(0, planned.whole_offset, size);
  return whole_room(i).narrow(0, 0, size);
}

// Where one record's part of this rank's masters begins.
at::Tensor Bucket::fill_target(std::size_t i, std::size_t record) const {
  const auto& planned = plan_.weights[i];
  if (plan_.gathers()) {
    const auto& piece = plan_.pieces(planned, position())[record];
    return master_slice(i, true).narrow(0, piece.in_chunk, piece.numel);
  }
  const auto begin = plan_.pieces(planned, 0)[record].in_whole;
  std::int64_t numel = 0;
  for (int r = 0; r < plan_.ranks; ++r) numel += plan_.pieces(planned, r)[record].numel;
  return master_slice(i, true).narrow(0, begin, numel);
}

void Bucket::fill(layout::Source& source) {
  std::vector<FillTask> tasks;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& records = plan_.weights[i].weight->records();
    for (std::size_t j = 0; j < records.size(); ++j) {
      const auto& record = records[j];
      const auto layout = plan_.gathers() ? record.sharded(shared_.options.mesh) : record.compute;
      auto out = fill_target(i, j);
      if (out.numel() == 0) continue;
      tasks.push_back({&record, layout.box(record.shape, shared_.options.mesh, shared_.options.rank), std::move(out)});
    }
  }
  fill_all(source, tasks);
  if (on_host_) publish_from_host();
  publish();
}

std::vector<std::string> Bucket::fill_from_first(layout::Source& source, comm::Group& everyone) {
  fill(source);
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& records = plan_.weights[i].weight->records();
    for (std::size_t j = 0; j < records.size(); ++j) {
      const auto& record = records[j];
      const auto box = record.compute.box(record.shape, shared_.options.mesh, shared_.options.rank);
      const auto dtype = master_dtype(plan_, shared_.options);
      auto whole = at::zeros({box.numel()}, at::TensorOptions().dtype(dtype).device(shared_.device()));
      if (everyone.rank() == 0 && box.numel() > 0) source.fill(record, box, whole);
      everyone.broadcast(whole, 0, cat("broadcast ", shared_.options.owner(), " ", record.name));
      const auto mine = fill_target(i, j);
      if (plan_.gathers()) {
        auto piece = plan_.pieces(plan_.weights[i], position())[j];
        piece.in_whole -= plan_.pieces(plan_.weights[i], 0)[j].in_whole;
        whole = piece.of_whole(whole).reshape({-1});
      }
      const auto theirs = whole.to(mine.device());
      if (at::equal(mine, theirs)) continue;
      differing.push_back(record.name);
      mine.copy_(theirs);
    }
  }
  if (on_host_) publish_from_host();
  publish();
  return differing;
}

void Bucket::publish() {
  if (plan_.gathers()) {
    if (!plan_.cut_param) state_ = State::empty;  // gathered anew when next used
    if (!on_host_ && send_from_ == SendFrom::device_copy) send_copy_.copy_(masters_);
    kept_ = at::Tensor();
    return;
  }
  if (!masters_.defined()) return;
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    to.push_back(leaves_[i].alias);
    from.push_back(master_slice(i, true));
  }
  at::_foreach_copy_(to, from);
}

void Bucket::publish_from_host() {
  cast_to_send(0, plan_.slab);
  send_up();
}

void Bucket::cast_to_send(std::int64_t begin, std::int64_t elements) {
  if (host_send_.defined()) host_send_.narrow(0, begin, elements).copy_(masters_.narrow(0, begin, elements));
}

at::Tensor Bucket::send_slice(std::size_t i) const {
  const auto& planned = plan_.weights[i];
  return host_send_.defined() ? host_send_.narrow(0, planned.slab_offset, planned.cut.chunk_room) : at::Tensor();
}

void Bucket::send_up() {
  if (send_from_ != SendFrom::device_copy) return;
  const Lane::Use lane(shared_.lanes.transfer, false);
  send_copy_.copy_(host_send_.defined() ? host_send_ : masters_, /*non_blocking=*/true);
  uploaded_.record(shared_.device());
}

void Bucket::prefetch(bool keep) {
  if (plan_.gathers() && state_ == State::empty) start(keep);
}

void Bucket::acquire(bool keep) {
  if (!plan_.gathers()) return;
  if (state_ == State::empty) start(keep);
  if (state_ == State::gathering) gathered_.wait(shared_.device());
  state_ = State::there;
  ++users_;
}

void Bucket::release() {
  if (!plan_.gathers()) return;
  CAPSTAN_ASSERT(users_ > 0);
  if (--users_ > 0 || !plan_.cut_param) return;
  give_memory();
  state_ = State::empty;
}

// With the limit, memory comes from the stream that computes: what that one has freed can be used, and the gather
// waits for it. Without, it comes from the lane's own, and the gather waits for nothing but the last update.
void Bucket::take_memory() {
  if (!plan_.cut_param) return;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto elements = static_cast<std::size_t>(plan_.weights[i].cut.whole_room);
    set_storage_bytes(leaves_[i].tensor, elements * leaves_[i].tensor.element_size());
  }
}

void Bucket::give_memory() {
  const bool foreign = !shared_.options.policy.limit_all_gathers && shared_.lanes.gather.beside();
  for (auto& leaf : leaves_) {
    if (foreign) note_use(leaf.tensor);
    set_storage_bytes(leaf.tensor, 0);
  }
}

void Bucket::start(bool keep) {
  const at::NoGradGuard no_grad;
  if (await_update_) await_update_();
  const bool limited = shared_.options.policy.limit_all_gathers;
  if (limited) take_memory();
  const Lane::Use lane(shared_.lanes.gather, limited);
  if (!limited) {
    shared_.updated.wait(shared_.device());
    take_memory();
  }
  if (gathers_in_place(plan_, shared_.options)) {
    gather_in_place();
  } else {
    gather_through_scratch(keep);
  }
  gathered_.record(shared_.device());
  state_ = State::gathering;
}

// Every record's pieces go to where they belong. A weight whose pieces don't lie side by side comes through scratch.
void Bucket::gather_in_place() {
  const auto mine = piece_to_send();
  std::vector<at::Tensor> out;
  std::vector<at::Tensor> in;
  std::vector<std::size_t> staged;
  std::int64_t scratch = 0;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    if (!planned.cut.in_place) {
      const auto room = planned.cut.chunk_room;
      out.push_back(shared_.gather_scratch.narrow(0, scratch, room * plan_.ranks));
      in.push_back(mine.narrow(0, planned.slab_offset, room));
      staged.push_back(i);
      scratch += room * plan_.ranks;
      continue;
    }
    const auto flat = whole_room(i);
    for (const auto& piece : plan_.pieces(planned, 0)) {
      const auto stride = planned.cut.strides[piece.record];
      if (stride == 0) continue;
      out.push_back(flat.narrow(0, piece.in_whole, stride * plan_.ranks));
      in.push_back(mine.narrow(0, planned.slab_offset + piece.in_chunk, stride));
    }
  }
  group_->all_gather(out, in, label_);
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  scratch = 0;
  for (const auto i : staged) {
    const auto room = plan_.weights[i].cut.chunk_room;
    for (int r = 0; r < plan_.ranks; ++r)
      unpack_weight(i, r, shared_.gather_scratch.narrow(0, scratch + r * room, room), to, from);
    scratch += room * plan_.ranks;
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
}

// The weight's storage with its padding.
at::Tensor Bucket::whole_room(std::size_t i) const {
  const auto& alias = leaves_[i].alias;
  return at::empty({0}, alias.options()).set_(alias.storage(), 0, {plan_.weights[i].cut.whole_room}, {1});
}

void Bucket::gather_through_scratch(bool keep) {
  const auto all = shared_.gather_scratch.narrow(0, 0, plan_.slab * plan_.ranks);
  gather_pieces(all);
  unpack(all);
  if (keep && part_group_) {
    const auto mine = plan_.slab * (plan_.ranks / part_group_->size());
    kept_ = all.narrow(0, part_group_->rank() * mine, mine).clone();
  }
}

void Bucket::gather_pieces(const at::Tensor& all) {
  if (kept_.defined()) {
    part_group_->all_gather(all, kept_, label_);
    kept_ = at::Tensor();
    return;
  }
  group_->all_gather(all, piece_to_send(), label_);
}

at::Tensor Bucket::piece_to_send() {
  if (send_from_ == SendFrom::master) return masters_.to(shared_.options.precision.compute);
  if (send_from_ == SendFrom::device_copy) uploaded_.wait(shared_.device());
  return send_copy_.to(shared_.device(), /*non_blocking=*/true);
}

void Bucket::unpack(const at::Tensor& all) {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    for (int r = 0; r < plan_.ranks; ++r) {
      const auto chunk = all.narrow(0, r * plan_.slab + planned.slab_offset, planned.cut.chunk_room);
      unpack_weight(i, r, chunk, to, from);
    }
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
}

// Copies of one rank's chunk of a weight to where its pieces belong.
void Bucket::unpack_weight(std::size_t i, int rank, const at::Tensor& chunk, std::vector<at::Tensor>& to,
                           std::vector<at::Tensor>& from) const {
  for (const auto& piece : plan_.pieces(plan_.weights[i], rank)) {
    if (piece.numel == 0) continue;
    to.push_back(piece.of_whole(leaves_[i].alias));
    from.push_back(piece.of_chunk(chunk));
  }
}

}  // namespace capstan::shard
