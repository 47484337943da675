"""take_gpu_memory.py GPU: takes all memory of this GPU but some hundred MiB, says so, and holds it until its input ends."""
import ctypes
import sys

LEAVE = 700 << 20   # a rank's context and its first tensors fit, its buffers do not


def checked(result, what):
    if result != 0:
        sys.exit(f'take_gpu_memory: {what}: CUDA error {result}')


def main():
    cuda = ctypes.CDLL('libcuda.so.1')
    device, context = ctypes.c_int(), ctypes.c_void_p()
    checked(cuda.cuInit(0), 'init')
    checked(cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])), 'device')
    checked(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), 'context')
    checked(cuda.cuCtxSetCurrent(context), 'context')
    free, total, held = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    checked(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), 'memory')
    checked(cuda.cuMemAlloc_v2(ctypes.byref(held), ctypes.c_size_t(max(1, free.value - LEAVE))), 'allocation')
    print(f'GPU {sys.argv[1]}: {(free.value - LEAVE) >> 20} MiB taken, {LEAVE >> 20} MiB left', flush=True)
    sys.stdin.read()


main()
