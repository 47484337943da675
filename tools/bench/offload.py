#!/usr/bin/env python3
"""tools/bench/offload.py [--ranks N] [--threads T] [--millions M]: what offloading can reach on this machine.

N processes at once, one GPU each, as in a run: rates of copies between pinned host memory and the GPU, of the host's
memory, and of ATen's fused AdamW on the host (the kernel that offloaded updates use; 28 bytes of traffic a parameter).
Needs PyTorch. One JSON line with means over the processes; rates of the host are sums over them.
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


def worker(rank, arguments, start, results):
    import torch
    torch.set_num_threads(arguments.threads)
    n = arguments.millions * 1_000_000
    host = torch.zeros(n)
    other = torch.zeros(n)
    averages, squares, grads = torch.zeros(n), torch.zeros(n), torch.ones(n)
    half = torch.zeros(n, dtype=torch.bfloat16)
    step = torch.ones(())
    out = {}

    def adamw():
        torch._fused_adamw_([host], [grads], [averages], [squares], [], [step], lr=1e-4, beta1=0.9, beta2=0.999,
                            weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False)
    adamw()
    start.wait()
    seconds = median_s(adamw)
    out['adamw_params_per_s'] = n / seconds
    out['adamw_bytes_per_s'] = 28 * n / seconds
    start.wait()
    out['host_copy_bytes_per_s'] = 8 * n / median_s(lambda: other.copy_(host))
    start.wait()
    out['to_bf16_bytes_per_s'] = 6 * n / median_s(lambda: half.copy_(host))
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
        pinned = torch.empty(min(n, 256_000_000)).pin_memory()
        device = torch.empty(pinned.numel(), device='cuda')
        for name, call in (('to_gpu', lambda: device.copy_(pinned, non_blocking=True)),
                           ('to_host', lambda: pinned.copy_(device, non_blocking=True))):
            torch.cuda.synchronize()
            start.wait()
            out[f'{name}_bytes_per_s'] = 4 * pinned.numel() / median_s(call, torch.cuda.synchronize)
    results.put(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ranks', type=int, default=1)
    parser.add_argument('--threads', type=int, help='of each rank (default: cores / ranks)')
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
