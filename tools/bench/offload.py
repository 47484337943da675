#!/usr/bin/env python3
"""tools/bench/offload.py [--ranks N] [--threads T] [--millions M] [--adamw FILE]: what offloading can reach here.

N processes at once, one GPU each, as in a run: rates of copies between pinned host memory and the GPU (one way, and each
way of both at once), of the host's memory, and of the host's update: parameters a second with ATen's fused AdamW and a
cast to bf16 after it, and with Capstan's kernel (--adamw .../lib/libcapstan_adamw.so), which does both in one pass and is what
offloaded updates use. Traffic a parameter: ATen 32 bytes and 8 for the cast, Capstan 30, or 28 from bf16 gradients.
Needs PyTorch, of the version that Capstan is built with. One JSON line with means over the processes; rates of the host
are sums over them.
"""
import argparse
import json
import multiprocessing
import os
import time


def median_s(call, synchronise=None, times=5):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        if synchronise:
            synchronise()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[times // 2]


def updates(arguments, tensors, half):
    """Calls by name: ATen's update with the cast, in parts that stay in the cache, and ours."""
    import torch
    master, averages, squares, grads = tensors
    n, part = master.numel(), 1 << 20
    step, scale, skip = torch.ones(()), torch.full((), 1.5), torch.zeros(())

    def aten():
        for begin in range(0, n, part):
            one = [tensor[begin:begin + part] for tensor in (master, grads, averages, squares)]
            torch._fused_adamw_(*[[tensor] for tensor in one], [], [step], lr=1e-4, beta1=0.9, beta2=0.999,
                                weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False, grad_scale=scale,
                                found_inf=skip)
            half[begin:begin + part].copy_(one[0])
    calls = {'aten_adamw_and_cast': aten}
    if arguments.adamw:
        torch.ops.load_library(arguments.adamw)
        numbers = [1e-4, 0.9, 0.999, 0.01, 1e-8, 1.0, 1.5]
        narrow = grads.to(torch.bfloat16)
        own = torch.ops.capstan.adamw_
        calls['adamw'] = lambda: own(master, averages, squares, grads, half, numbers)
        calls['adamw_from_bf16'] = lambda: own(master, averages, squares, narrow, half, numbers)
    return calls


def worker(rank, arguments, start, results):
    import torch
    torch.set_num_threads(arguments.threads)
    n = arguments.millions * 1_000_000
    host = torch.zeros(n)
    other = torch.zeros(n)
    averages, squares, grads = torch.zeros(n), torch.zeros(n), torch.ones(n)
    half = torch.zeros(n, dtype=torch.bfloat16)
    out = {}
    for name, update in updates(arguments, (host, averages, squares, grads), half).items():
        update()
        start.wait()
        out[f'{name}_params_per_s'] = n / median_s(update)
    start.wait()
    out['host_copy_bytes_per_s'] = 8 * n / median_s(lambda: other.copy_(host))
    start.wait()
    out['to_bf16_bytes_per_s'] = 6 * n / median_s(lambda: half.copy_(host))
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
        pinned = torch.empty(min(n, 256_000_000)).pin_memory()
        device = torch.empty(pinned.numel(), device='cuda')
        other_pinned, other_device = torch.empty_like(pinned).pin_memory(), torch.empty_like(device)
        beside = torch.cuda.Stream()

        def both():
            device.copy_(pinned, non_blocking=True)
            with torch.cuda.stream(beside):
                other_pinned.copy_(other_device, non_blocking=True)
        for name, call in (('to_gpu', lambda: device.copy_(pinned, non_blocking=True)),
                           ('to_host', lambda: pinned.copy_(device, non_blocking=True)),
                           ('to_gpu_and_host_each', both)):
            torch.cuda.synchronize()
            start.wait()
            out[f'{name}_bytes_per_s'] = 4 * pinned.numel() / median_s(call, torch.cuda.synchronize)
    results.put(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ranks', type=int, default=1)
    parser.add_argument('--threads', type=int, help='of each rank (default: cores / ranks)')
    parser.add_argument('--adamw', help='libcapstan_adamw.so, to measure its kernel too')
    parser.add_argument('--millions', type=int, default=400, help='parameters a rank (default 400)')
    arguments = parser.parse_args()
    arguments.threads = arguments.threads or max(1, (os.cpu_count() or 1) // arguments.ranks)
    context = multiprocessing.get_context('spawn')
    start, results = context.Barrier(arguments.ranks), context.Queue()
    ranks = [context.Process(target=worker, args=(rank, arguments, start, results)) for rank in range(arguments.ranks)]
    for rank in ranks:
        rank.start()
    all_ranks = [results.get() for _ in ranks]
    for rank in ranks:
        rank.join()
    numbers = {'ranks': arguments.ranks, 'threads': arguments.threads, 'millions': arguments.millions}
    for name in all_ranks[0]:
        total = sum(rank[name] for rank in all_ranks)
        mean_of_gpu = name.startswith('to_gpu') or name.startswith('to_host')
        key = name.replace('params_per_s', 'Gparams_per_s').replace('bytes_per_s', 'GB_per_s')
        numbers[key] = round((total / len(all_ranks) if mean_of_gpu else total) / 1e9, 2)
    print(json.dumps(numbers))


if __name__ == '__main__':
    main()
