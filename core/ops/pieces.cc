#include "ops/pieces.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/collectives.h>

namespace capstan::ops {
namespace {

std::int64_t piece_length(std::int64_t full, int size) { return (full + size - 1) / size; }

/// x with dimension 0 filled up with zeros to `rows`, contiguous.
at::Tensor padded(const at::Tensor& x, std::int64_t rows) {
  if (x.size(0) == rows) {
    return x.contiguous();
  }
  auto shape = x.sizes().vec();
  shape[0] = rows;
  at::Tensor out = at::zeros(shape, x.options());
  out.narrow(0, 0, x.size(0)).copy_(x);
  return out;
}

/// A tensor like `rows`, with another number of them.
at::Tensor room(const at::Tensor& rows, std::int64_t count) {
  auto shape = rows.sizes().vec();
  shape[0] = count;
  return at::empty(shape, rows.options());
}

/// The first `length` rows as dimension `dim` again.
at::Tensor in_place(const at::Tensor& rows, std::int64_t length, std::int64_t dim) {
  return rows.narrow(0, 0, length).movedim(0, dim).contiguous();
}

}  // namespace

Piece piece_of(std::int64_t full, int size, int rank) {
  const std::int64_t length = piece_length(full, size);
  const std::int64_t begin = std::min(full, rank * length);
  return {begin, std::min(length, full - begin)};
}

at::Tensor sum_over(comm::Group& group, const at::Tensor& x, std::string_view label) {
  at::Tensor out = x.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(out, comm::ReduceOp::sum, label);
  return out;
}

at::Tensor cut(const comm::Group& group, const at::Tensor& x, std::int64_t dim) {
  const Piece piece = piece_of(x.size(dim), group.size(), group.rank());
  return x.narrow(dim, piece.begin, piece.length).clone(at::MemoryFormat::Contiguous);
}

// Every piece but the last ones is full, so all padding of the gathered pieces comes after `full`.
at::Tensor gather(comm::Group& group, const at::Tensor& x, std::int64_t dim, std::int64_t full,
                  std::string_view label) {
  CAPSTAN_ASSERT(x.size(dim) == piece_of(full, group.size(), group.rank()).length);
  const at::Tensor mine = padded(x.movedim(dim, 0), piece_length(full, group.size()));
  const at::Tensor all = room(mine, mine.size(0) * group.size());
  group.all_gather(all, mine, label);
  return in_place(all, full, dim);
}

at::Tensor reduce_pieces(comm::Group& group, const at::Tensor& x, std::int64_t dim, std::string_view label) {
  const std::int64_t length = piece_length(x.size(dim), group.size());
  const at::Tensor all = padded(x.movedim(dim, 0), length * group.size());
  const at::Tensor mine = room(all, length);
  group.reduce_scatter(mine, all, label);
  return in_place(mine, piece_of(x.size(dim), group.size(), group.rank()).length, dim);
}

}  // namespace capstan::ops
