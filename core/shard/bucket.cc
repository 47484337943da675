#include "shard/bucket.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <utility>

namespace capstan::shard {
namespace {

at::TensorOptions options(const Precision& precision, c10::ScalarType dtype) {
  return at::TensorOptions().dtype(dtype).device(precision.device);
}

// Gives a tensor's storage memory, or takes it away, without touching any tensor that looks at it: saved tensors
// and the leaf itself keep pointing to the same storage (PyTorch's FSDP2 frees and refills in the same way).
void set_storage_bytes(const at::Tensor& tensor, std::size_t bytes) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  auto* allocator = c10::GetAllocator(tensor.device().type());
  storage->set_data_ptr_noswap(bytes == 0 ? at::DataPtr(nullptr, tensor.device()) : allocator->allocate(bytes));
  storage->set_nbytes(bytes);
}

// The whole weight's leaf over a storage of its own, and an alias to write through.
void make_leaf(Held& held, const at::TensorOptions& options, std::int64_t room) {
  auto flat = at::empty({room}, options);
  held.alias = flat.narrow(0, 0, held.cut.numel);
  held.leaf = at::empty({0}, options).set_(flat.storage(), 0, held.cut.shape, c10::contiguous_strides(held.cut.shape));
  held.leaf.set_requires_grad(held.weight->trainable());
  held.weight->bind(held.leaf);
}

// Copies between the slabs of all ranks, one behind the other, and whole weights.
struct Moves {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  void add(const at::Tensor& destination, const at::Tensor& source) {
    to.push_back(destination);
    from.push_back(source);
  }
  void copy() const {
    if (!to.empty()) at::_foreach_copy_(to, from);
  }
  void sum() const {
    if (!to.empty()) at::_foreach_add_(to, from);
  }
};

}  // namespace

Bucket::Bucket(std::string name, std::vector<nn::WeightPtr> weights, std::shared_ptr<comm::Group> group, bool sharded,
               const layout::Mesh& mesh, int rank, const Precision& precision, const std::string& owner)
    : name_(std::move(name)),
      gather_label_(cat("all-gather ", owner, " ", name_)),
      reduce_label_(cat("reduce-scatter ", owner, " ", name_, ", backward")),
      group_(std::move(group)),
      sharded_(sharded && group_->size() > 1),
      trainable_(weights.front()->trainable()),
      precision_(precision) {
  if (!trainable_) precision_.master = precision_.compute;  // nothing is updated, so nothing more exact is kept
  for (auto& weight : weights) {
    CAPSTAN_ASSERT(weight->trainable() == trainable_);
    Held held;
    held.cut = cut_weight(*weight, mesh, rank, group_->size());
    held.weight = std::move(weight);
    held.slab_offset = slab_;
    slab_ += held.cut.chunk_room;
    held_.push_back(std::move(held));
  }
}

void Bucket::allocate(bool needs_whole_accumulator) {
  const bool masters_apart = precision_.compute != precision_.master;
  if (sharded_) {
    param_slab_ = at::zeros({slab_}, options(precision_, precision_.master));
    if (trainable_) grad_slab_ = at::zeros({slab_}, options(precision_, precision_.reduce));
  }
  for (auto& held : held_) {
    const auto room = held.cut.whole_room;
    make_leaf(held, options(precision_, precision_.compute), room);
    if (sharded_) {
      set_storage_bytes(held.leaf, 0);
    } else if (masters_apart) {
      held.master = at::zeros({room}, options(precision_, precision_.master));
    } else {
      held.master = at::empty({0}, held.leaf.options()).set_(held.leaf.storage(), 0, {room}, {1});
      held.master.zero_();
    }
    const bool whole_grad = trainable_ && (!sharded_ || needs_whole_accumulator);
    const bool raw = group_->size() == 1 && !needs_whole_accumulator && precision_.compute == precision_.reduce;
    if (whole_grad && !raw) held.grad = at::zeros({room}, options(precision_, precision_.reduce));
    held.grad_is_raw = trainable_ && !sharded_ && raw;
  }
}

void Bucket::fill(layout::Source& source, const layout::Mesh& mesh, int rank) {
  for (auto& held : held_) {
    for (std::size_t i = 0; i < held.weight->records().size(); ++i) {
      const auto& record = held.weight->records()[i];
      const auto box = record.param.layout.box(record.shape, mesh, rank);
      const auto& piece = my_pieces(held)[i];
      const auto whole_begin = held.cut.pieces.front()[i].in_whole;
      const auto out = sharded_ ? param_slab_.narrow(0, held.slab_offset + piece.in_chunk, piece.numel)
                                : held.master.narrow(0, whole_begin, box.numel());
      if (out.numel() > 0) source.fill(record, box, out);
    }
  }
  publish();
}

void Bucket::publish() {
  if (sharded_) return;
  for (auto& held : held_) {
    if (!held.master.is_alias_of(held.alias)) held.alias.copy_(held.master.narrow(0, 0, held.cut.numel));
  }
}

void Bucket::gather(const Scratch& scratch) {
  if (!sharded_ || users_++ > 0) return;
  const at::NoGradGuard no_grad;
  const auto all = scratch.gather.narrow(0, 0, slab_ * group_->size());
  group_->all_gather(all, param_slab_.to(precision_.compute), gather_label_);
  Moves moves;
  for (auto& held : held_) {
    set_storage_bytes(held.leaf, static_cast<std::size_t>(held.cut.whole_room) * held.leaf.element_size());
    for (int r = 0; r < group_->size(); ++r) {
      for (const auto& piece : held.cut.pieces[static_cast<std::size_t>(r)]) {
        if (piece.numel == 0) continue;
        moves.add(held.alias.narrow(0, piece.in_whole, piece.numel),
                  all.narrow(0, r * slab_ + held.slab_offset + piece.in_chunk, piece.numel));
      }
    }
  }
  moves.copy();
}

void Bucket::release() {
  if (!sharded_) return;
  CAPSTAN_ASSERT(users_ > 0);
  if (--users_ > 0) return;
  for (auto& held : held_) set_storage_bytes(held.leaf, 0);
}

at::Tensor Bucket::master_slice(const Held& held) const {
  if (sharded_) return param_slab_.narrow(0, held.slab_offset, held.cut.chunk_room);
  return held.grad_is_raw ? held.master.narrow(0, 0, held.cut.numel) : held.master;
}

at::Tensor Bucket::grad_slice(const Held& held) const {
  return sharded_ ? grad_slab_.narrow(0, held.slab_offset, held.cut.chunk_room) : held.grad;
}

at::Tensor Bucket::counted_grad(const Held& held, const Piece& piece) const {
  if (sharded_) return grad_slab_.narrow(0, held.slab_offset + piece.in_chunk, piece.numel);
  return held.grad.narrow(0, piece.in_whole, piece.numel);
}

void Bucket::collect(const Collect& how, const Scratch& scratch) {
  if (!trainable_) return;
  const at::NoGradGuard no_grad;
  if (group_->size() == 1) {
    for (auto& held : held_) accumulate(held, how.first);
  } else if (how.accumulate) {
    for (auto& held : held_) accumulate(held, how.first);
    if (how.reduce) reduce(/*from_accumulator=*/true, /*add=*/false, scratch);
  } else {
    reduce(/*from_accumulator=*/false, /*add=*/!how.first, scratch);
  }
}

// The leaf's gradient moves into `grad`; a weight that the loss does not reach has none, which counts as zero.
void Bucket::accumulate(Held& held, bool first) {
  auto& raw = held.leaf.mutable_grad();
  if (held.grad_is_raw) {
    held.grad = raw.defined() ? raw.contiguous().view(-1) : at::zeros({held.cut.numel}, held.leaf.options());
  } else {
    const auto into = held.grad.narrow(0, 0, held.cut.numel);
    if (!raw.defined()) {
      if (first) into.zero_();
    } else if (first) {
      into.copy_(raw.view(-1));
    } else {
      into.add_(raw.view(-1));
    }
  }
  raw.reset();
}

void Bucket::reduce(bool from_accumulator, bool add, const Scratch& scratch) {
  const auto ranks = group_->size();
  const auto all = scratch.reduce.narrow(0, 0, slab_ * ranks);
  all.zero_();  // padding must not carry what an earlier bucket left
  Moves in;
  Moves out;
  for (auto& held : held_) {
    auto& raw = held.leaf.mutable_grad();
    const auto source = from_accumulator ? held.grad : raw.defined() ? raw.contiguous().view(-1) : at::Tensor();
    for (int r = 0; r < ranks; ++r) {
      for (const auto& piece : held.cut.pieces[static_cast<std::size_t>(r)]) {
        if (piece.numel == 0) continue;
        const auto slot = all.narrow(0, r * slab_ + held.slab_offset + piece.in_chunk, piece.numel);
        if (source.defined()) in.add(slot, source.narrow(0, piece.in_whole, piece.numel));
        if (!sharded_) out.add(held.grad.narrow(0, piece.in_whole, piece.numel), slot);
      }
    }
    raw.reset();
  }
  in.copy();
  const auto summed = sharded_ && !add ? grad_slab_ : scratch.shard.narrow(0, 0, slab_);
  group_->reduce_scatter(summed, all, reduce_label_);
  if (sharded_) {
    if (add) grad_slab_.add_(summed);
    return;
  }
  // Whole gradients take the same sums by the same call as sharded ones, so that both are bit-equal.
  group_->all_gather(all, summed, reduce_label_);
  if (add) {
    out.sum();
  } else {
    out.copy();
  }
}

}  // namespace capstan::shard
