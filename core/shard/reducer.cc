#include "shard/reducer.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/ops/norm.h>

namespace capstan::shard {
namespace {

void write_or_add(const at::Tensor& to, const at::Tensor& from, bool write) {
  if (write) {
    to.copy_(from);
  } else {
    to.add_(from);
  }
}

}  // namespace

Reducer::Reducer(Bucket& bucket, Shared& shared, const GroupOf& group_of)
    : bucket_(bucket),
      plan_(bucket.plan()),
      shared_(shared),
      storage_(gradient_storage(bucket.plan(), shared.options)),
      label_(cat(shared.options.owner(), " ", bucket.plan().name, ", backward")) {
  if (plan_.copies > 1) copies_ = group_of({layout::Axis::replicate}, 0);
  // Named by its size, it is not the group in which the layers on these axes communicate: that is another stream's.
  for (const auto& partial : plan_.partials) partial_groups_.push_back(group_of(partial.axes, partial.ranks));
}

void Reducer::allocate() {
  const auto options = at::TensorOptions().dtype(shared_.options.precision.master).device(shared_.device());
  if (storage_.whole) whole_ = at::zeros({plan_.whole}, options);
  if (storage_.piece && !storage_.passes) piece_ = at::zeros({plan_.slab}, options);
  raw_.resize(storage_.raw ? plan_.weights.size() : 0);
}

void Reducer::collect(const Collect& how) {
  if (!plan_.trainable) return;
  const at::NoGradGuard no_grad;
  const bool waits = shared_.options.waits();
  if (waits || !plan_.reduces()) accumulate(how.first);
  if (plan_.reduces() && (!waits || how.last)) reduce(how, waits);
  if (how.last && !plan_.partials.empty()) sum_partials();
}

// The leaves' gradients move into the accumulators; a weight that the loss does not reach has none, which counts as
// zero.
void Reducer::accumulate(bool first) {
  Moves moves;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    auto& grad = bucket_.leaf(i).mutable_grad();
    if (storage_.raw) {
      raw_[i] = grad.defined() ? grad.contiguous().view(-1) : at::zeros({planned.cut.numel}, bucket_.leaf(i).options());
    } else {
      const auto into = whole_.narrow(0, planned.whole_offset, planned.cut.numel);
      if (grad.defined()) {
        moves.add(into, grad.contiguous().view(-1));
      } else if (first) {
        into.zero_();
      }
    }
    grad.reset();
  }
  moves.run(first);
}

// A weight's flat gradient to be summed now; undefined: zero.
at::Tensor Reducer::source(std::size_t i, bool waited) {
  const auto& planned = plan_.weights[i];
  if (waited) return whole_.narrow(0, planned.whole_offset, planned.cut.numel);
  auto& grad = bucket_.leaf(i).mutable_grad();
  if (!grad.defined()) return {};
  auto flat = grad.contiguous().view(-1);
  held_.push_back(flat);
  grad.reset();
  return flat;
}

void Reducer::reduce(const Collect& how, bool waited) {
  const bool write = waited || how.first;
  {
    const Lane::Use lane(shared_.lanes.reduce);
    if (plan_.cut_optim) {
      reduce_to_piece(how, waited, write);
    } else if (shared_.options.deterministic && !shared_.options.reduce_seats.contains(layout::Axis::dp)) {
      reduce_in_order(waited, write);
    } else {
      reduce_whole(how, waited, write);
    }
    done_.record(shared_.device());
  }
  if (how.last && copies_) sum_copies(how);
}

// All ranks' pieces one behind the other, in the dtype of sums, gaps zero.
void Reducer::pack(const at::Tensor& all, bool waited) {
  Moves moves;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    const auto from = source(i, waited);
    for (int r = 0; r < plan_.ranks; ++r) {
      pack_weight(i, r, from, all.narrow(0, r * plan_.slab + planned.slab_offset, planned.cut.chunk_room), moves);
    }
  }
  moves.run(true);
  read_.record(shared_.device());
}

// One rank's chunk of a weight; without a gradient it is zero.
void Reducer::pack_weight(std::size_t i, int rank, const at::Tensor& from, const at::Tensor& chunk,
                          Moves& moves) const {
  if (!from.defined()) {
    chunk.zero_();
    return;
  }
  std::int64_t filled = 0;
  for (const auto& piece : plan_.pieces(plan_.weights[i], rank)) {
    if (piece.in_chunk > filled) chunk.narrow(0, filled, piece.in_chunk - filled).zero_();
    filled = piece.in_chunk + piece.numel;
    if (piece.numel > 0) moves.add(piece.of_chunk(chunk), piece.of_whole(from));
  }
  if (filled < chunk.numel()) chunk.narrow(0, filled, chunk.numel() - filled).zero_();
}

void Reducer::reduce_to_piece(const Collect& how, bool waited, bool write) {
  const auto& options = shared_.options;
  if (storage_.passes) piece_ = shared_.transit.room(plan_, passing_dtype(plan_, options, write, how.last));
  const bool direct = (write || storage_.passes) && options.precision.reduce == piece_.scalar_type();
  const auto out = direct ? piece_ : shared_.shard_scratch.narrow(0, 0, plan_.slab);
  if (reduces_in_place(shared_.options, waited)) {
    reduce_in_place(waited, out);
  } else {
    reduce_through_scratch(how, waited, out);
  }
  if (storage_.passes && !write) {
    add_earlier(out);
  } else if (!direct) {
    write_or_add(piece_, out, write);
  }
}

// To what was summed and sent in earlier micro-steps, as if it had stayed here.
void Reducer::add_earlier(const at::Tensor& out) {
  const auto earlier = shared_.transit.earlier(plan_);
  if (out.is_same(piece_)) {
    piece_.add_(earlier);
  } else {
    piece_.copy_(earlier);
    piece_.add_(out);
  }
  shared_.transit.release(plan_);
}

// Every record's pieces are read where they are. Autograd's gradients have no room behind them, and a weight's pieces
// may not lie side by side: those weights are packed.
void Reducer::reduce_in_place(bool waited, const at::Tensor& sum) {
  std::vector<at::Tensor> out;
  std::vector<at::Tensor> in;
  std::int64_t scratch = 0;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    auto from = source(i, waited);
    if (from.defined() && (waited ? planned.cut.in_place : planned.cut.even)) {
      if (waited) from = whole_.narrow(0, planned.whole_offset, planned.cut.whole_room);
      for (const auto& piece : plan_.pieces(planned, 0)) {
        const auto stride = planned.cut.strides[piece.record];
        if (stride == 0) continue;
        in.push_back(from.narrow(0, piece.in_whole, stride * plan_.ranks));
        out.push_back(sum.narrow(0, planned.slab_offset + piece.in_chunk, stride));
      }
      continue;
    }
    const auto room = planned.cut.chunk_room * plan_.ranks;
    const auto staged = staging(scratch, room);
    Moves moves;
    for (int r = 0; r < plan_.ranks; ++r) {
      pack_weight(i, r, from, staged.narrow(0, r * planned.cut.chunk_room, planned.cut.chunk_room), moves);
    }
    moves.run(true);
    in.push_back(staged);
    out.push_back(sum.narrow(0, planned.slab_offset, planned.cut.chunk_room));
    scratch += room;
  }
  bucket_.group().reduce_scatter(out, in, "reduce-scatter " + label_);
  read_.record(shared_.device());
}

// Scratch for one weight; a weight without a gradient, which is rare, may not have been counted in its size.
at::Tensor Reducer::staging(std::int64_t begin, std::int64_t size) const {
  const auto& scratch = shared_.reduce_scratch;
  if (begin + size <= scratch.numel()) return scratch.narrow(0, begin, size);
  return at::empty({size}, scratch.options());
}

void Reducer::reduce_through_scratch(const Collect& how, bool waited, const at::Tensor& out) {
  const auto all = shared_.reduce_scratch.narrow(0, 0, plan_.slab * plan_.ranks);
  pack(all, waited);
  auto& group = bucket_.group();
  if (group.size() == 1 || !seat(layout::Axis::dp, how, Flat::pieces, all, out, group))
    group.reduce_scatter(out, all, "reduce-scatter " + label_);
}

// Whole gradients take the same sums by the same calls as pieces, so that both are bit-equal.
void Reducer::reduce_in_order(bool waited, bool write) {
  const auto all = shared_.reduce_scratch.narrow(0, 0, plan_.slab * plan_.ranks);
  pack(all, waited);
  const auto sum = shared_.shard_scratch.narrow(0, 0, plan_.slab);
  bucket_.group().reduce_scatter(sum, all, "reduce-scatter " + label_);
  bucket_.group().all_gather(all, sum, "all-gather " + label_);
  unpack(all, write);
}

void Reducer::unpack(const at::Tensor& all, bool write) {
  Moves moves;
  for (const auto& planned : plan_.weights) {
    for (int r = 0; r < plan_.ranks; ++r) {
      for (const auto& piece : plan_.pieces(planned, r)) {
        if (piece.numel == 0) continue;
        moves.add(piece.of_whole(whole_.narrow(0, planned.whole_offset, planned.cut.numel)),
                  piece.of_chunk(all.narrow(0, r * plan_.slab + planned.slab_offset, planned.cut.chunk_room)));
      }
    }
  }
  moves.run(write);
}

// One all-reduce over the whole weights side by side: in the accumulators themselves where dtypes allow.
void Reducer::reduce_whole(const Collect& how, bool waited, bool write) {
  const auto& precision = shared_.options.precision;
  const bool in_place = write && precision.reduce == precision.master;
  const auto flat = in_place ? whole_ : shared_.reduce_scratch.narrow(0, 0, plan_.whole);
  if (!waited || !in_place) {
    Moves moves;
    if (!in_place) flat.zero_();
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
      const auto& planned = plan_.weights[i];
      const auto from = source(i, waited);
      const auto into = flat.narrow(0, planned.whole_offset, planned.cut.numel);
      if (from.defined()) {
        moves.add(into, from);
      } else {
        into.zero_();
      }
    }
    moves.run(true);
    read_.record(shared_.device());
  }
  auto& group = bucket_.group();
  if (group.size() > 1 && !seat(layout::Axis::dp, how, Flat::whole, flat, flat, group))
    group.all_reduce(flat, comm::ReduceOp::sum, "all-reduce " + label_);
  if (!in_place) write_or_add(whole_, flat, write);
}

// Hybrid: once a step, after all that is summed inside the copy.
void Reducer::sum_copies(const Collect& how) {
  const Lane::Use lane(shared_.lanes.replicate, false);
  done_.wait(shared_.device());
  const auto& sum = storage_.piece ? piece_ : whole_;
  const auto reduce = shared_.options.precision.reduce;
  const auto moved = sum.to(reduce);
  const auto flat = storage_.piece ? Flat::piece : Flat::whole;
  if (!seat(layout::Axis::replicate, how, flat, moved, moved, *copies_))
    copies_->all_reduce(moved, comm::ReduceOp::sum, cat("all-reduce of copies ", label_));
  if (!moved.is_same(sum)) sum.copy_(moved);
  done_.record(shared_.device());
}

// A record's gradient in what is kept of the sum.
at::Tensor Reducer::summed(const PartialRecord& partial) const {
  const auto& planned = plan_.weights[partial.weight];
  const auto all = slice(partial.weight);
  if (storage_.piece) {
    const auto& piece = plan_.pieces(planned, bucket_.position())[partial.record];
    return all.narrow(0, piece.in_chunk, piece.numel);
  }
  return all.narrow(0, plan_.pieces(planned, 0)[partial.record].in_whole, plan_.summed_elements(partial));
}

// Once a step. Ranks that add up hold the same boxes, and cut them alike among their data ranks.
void Reducer::sum_partials() {
  const Lane::Use lane(shared_.lanes.reduce);
  done_.wait(shared_.device());
  for (std::size_t i = 0; i < plan_.partials.size(); ++i) {
    Moves in;
    Moves out;
    std::int64_t elements = 0;
    for (const auto& record : plan_.partials[i].records) {
      const auto part = summed(record);
      const auto room = shared_.partial_scratch.narrow(0, elements, part.numel());
      if (part.numel() == 0) continue;
      in.add(room, part);
      out.add(part, room);
      elements += part.numel();
    }
    if (elements == 0) continue;
    in.run(true);
    partial_groups_[i]->all_reduce(shared_.partial_scratch.narrow(0, 0, elements), comm::ReduceOp::sum,
                                   cat("all-reduce of parts ", label_));
    out.run(true);
  }
  done_.record(shared_.device());
}

void Reducer::measure(const at::Tensor& out, const std::vector<at::Tensor>& parts) {
  const Lane::Use lane(shared_.lanes.reduce);
  done_.wait(shared_.device());
  ops::squared_norms(out, parts);
  done_.record(shared_.device());
}

bool Reducer::seat(layout::Axis axis, const Collect& how, Flat flat, const at::Tensor& gradient, const at::Tensor& out,
                   comm::Group& group) {
  const auto found = shared_.options.reduce_seats.find(axis);
  if (found == shared_.options.reduce_seats.end()) return false;
  strategy::Bucket bucket{plan_.name, gradient, out, group, parts(flat), how.micro_step, how.last, {}};
  found->second(bucket);
  return true;
}

std::vector<strategy::BucketPart> Reducer::parts(Flat flat) const {
  std::vector<strategy::BucketPart> parts;
  for (const auto& planned : plan_.weights) {
    for (int r = 0; r < plan_.ranks; ++r) {
      if (flat == Flat::piece && r != bucket_.position()) continue;
      for (const auto& piece : plan_.pieces(planned, r)) {
        if (piece.numel == 0) continue;
        const auto& record = planned.weight->records()[piece.record];
        const auto in_slab = planned.slab_offset + piece.in_chunk + (flat == Flat::pieces ? r * plan_.slab : 0);
        if (flat != Flat::whole) parts.push_back({&record, in_slab, piece.numel});
        for (std::int64_t b = 0; flat == Flat::whole && b < piece.blocks; ++b) {
          const auto block = piece.block(b);
          parts.push_back({&record, planned.whole_offset + block.in_whole, block.numel});
        }
      }
    }
  }
  return parts;
}

void Reducer::let_go() {
  if (held_.empty()) return;
  read_.wait(shared_.device());
  held_.clear();
}

void Reducer::finish() {
  let_go();
  done_.wait(shared_.device());
}

at::Tensor Reducer::slice(std::size_t i) const {
  const auto& planned = plan_.weights[i];
  if (storage_.piece) return piece_.narrow(0, planned.slab_offset, planned.cut.chunk_room);
  return storage_.raw ? raw_[i] : whole_.narrow(0, planned.whole_offset, planned.cut.whole_room);
}

at::Tensor Reducer::counted(std::size_t i, const Piece& piece) const {
  const auto all = slice(i);
  return all.narrow(0, storage_.piece ? piece.in_chunk : piece.in_whole, piece.numel);
}

}  // namespace capstan::shard
