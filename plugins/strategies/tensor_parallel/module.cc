#include "tensor_parallel.h"

CAPSTAN_STRATEGY("tensor_parallel", "0.1.0",
                 "splits matrices, heads and vocabulary over ranks that see the same samples",
                 tensor_parallel::TensorParallel, tensor_parallel::TensorParallelOptions)
