#!/usr/bin/env python3
"""tools/bench/rendezvous.py [N…] [--build FOLDER]: times how N processes of this host find each other as ranks do, and what
rank 0's memory grows by. Builds tools/bench/rendezvous.cc with the libraries of a build folder.
"""
import argparse
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def build_program(build, out):
    torch = ROOT / '.deps/torch'
    folders = [f'-I{ROOT}/core/{each}' for each in ('engine', 'host', 'peers/include', 'include')]
    subprocess.run(['g++', '-std=c++20', '-O2', *folders, '-isystem', f'{torch}/include', '-isystem', f'{torch}/include/torch/csrc/api/include',
                    str(ROOT / 'tools/bench/rendezvous.cc'), f'-L{build}/lib', f'-Wl,-rpath,{build}/lib,-rpath,{torch}/lib',
                    '-lcapstan_engine', '-lcapstan', f'-L{torch}/lib', '-ltorch_cpu', '-lc10', '-Wl,--allow-shlib-undefined',
                    '-o', str(out)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('ranks', type=int, nargs='*', default=[8, 128, 512])
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/cpu')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build_program(arguments.build.resolve(), folder / 'rendezvous')
        for ranks in arguments.ranks:
            subprocess.run([folder / 'rendezvous', str(ranks), folder / f'store-{ranks}'], check=True)


if __name__ == '__main__':
    main()
