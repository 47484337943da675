#pragma once

/// Before a function that kernels call too: compiled for the host by any compiler, for host and device by nvcc.
#ifdef __CUDACC__
#define CAPSTAN_HOST_DEVICE __host__ __device__
#else
#define CAPSTAN_HOST_DEVICE
#endif
