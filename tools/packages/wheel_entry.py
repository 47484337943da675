"""Capstan in a Python environment: the commands of bin/, by the LibTorch of this environment's torch.

Nothing of Capstan runs in Python. What is here finds the files and starts the program.
"""
import importlib.metadata
import os
import pathlib
import sys

PREFIX = pathlib.Path(__file__).resolve().parent   # bin, lib, include and share are here
TORCH = '@TORCH@'                                  # the version that the libraries were linked with


def refuse_other_torch():
    try:
        found = importlib.metadata.version('torch').split('+')[0]
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f'capstan: this environment has no torch, whose libraries Capstan uses\n    fix: pip install torch=={TORCH}')
    if found != TORCH:
        sys.exit(f'capstan: this environment has torch {found}, and this Capstan was built for {TORCH}\n'
                 f'    fix: pip install torch=={TORCH}, or the Capstan that was built for torch {found}')


def start(program):
    refuse_other_torch()
    file = PREFIX / 'bin' / program
    # Tables and chat templates are read by this environment's Python, which need not be activated.
    os.execve(file, [str(file), *sys.argv[1:]], {'VIRTUAL_ENV': sys.prefix, **os.environ})


def main():
    start('capstan')


def new_plugin():
    start('capstan-new-plugin')
