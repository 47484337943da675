#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Where the copies of tokens are among rows: a permutation and its inverse, int64 on the rows' device.
struct CopiesAt {
  at::Tensor place;  ///< [T copies]: the row that holds copy c of token t is place[t · copies + c]
  at::Tensor order;  ///< [T copies]: row i is copy order[i]
};

/// out[t] = sum over c of weights[t, c] · rows[place[t · copies + c]]: `rows` [T copies, h], `weights` [T, copies],
/// both of one dtype, float64, float32, bfloat16 or half; out [T, h]. Products and sums are float32 (float64 for
/// float64), in the order of c, and rounded once. Backward makes the gradients of rows and weights in one pass over the
/// rows. Deterministic. On CUDA it reads and writes each row once; on CPU it is made of ATen's calls.
at::Tensor combine_rows(const at::Tensor& rows, const CopiesAt& at, const at::Tensor& weights);

/// The same with weights of 1, and without a gradient.
at::Tensor sum_copies(const at::Tensor& rows, const at::Tensor& place, std::int64_t copies);

}  // namespace ops
CAPSTAN_END_NAMESPACE
