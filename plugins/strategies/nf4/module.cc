#include <torch/library.h>

#include "nf4.h"

// Its one implementation is in nf4_cuda.so, which ranks that use GPUs open too.
TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("nf4_decode(Tensor(a!) values, Tensor bytes, int run, int stride, int first) -> ()");
}

CAPSTAN_STRATEGY("nf4", "0.1.0", "keeps chosen frozen weights in 4 bits", nf4::Nf4, nf4::Nf4Options)
