#!/usr/bin/env python3
"""Puts LibTorch and what it needs of NVIDIA's libraries into .deps (called by tools/setup, which documents the options).

.deps has the shape of a Python site-packages folder: torch/ and nvidia/ side by side, because libtorch's
DT_RPATH looks in ../../nvidia. Nothing needs LD_LIBRARY_PATH then. Versions and checksums: tools/pins.txt.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
PARITY_PROBE = ('import importlib.util as u, torch, transformers, safetensors, tokenizers; '
                'assert torch.zeros(2).sum() == 0 and u.find_spec("bitsandbytes")')
PREFERENCES_PROBE = 'import importlib.util as u; assert all(u.find_spec(name) for name in ("trl", "datasets"))'
READERS_PROBE = 'import importlib.util as u; assert all(u.find_spec(name) for name in ("wandb", "tensorboard", "mlflow"))'


def say(text):
    print(f'setup: {text}', flush=True)


def fail(text):
    sys.exit(f'setup: {text}')


class Pins:
    def __init__(self):
        rows = [line.split() for line in (HERE / 'pins.txt').read_text().splitlines() if line and line[0] != '#']
        self.torch = {row[2]: row[3] for row in rows if row[0] == 'torch'}
        self.torch_version = next(row[1] for row in rows if row[0] == 'torch')
        self.nvidia = [dict(zip(('package', 'version', 'soname', 'folder', 'use', 'sha256'), row[1:]))
                       for row in rows if row[0] == 'nvidia']
        self.headers = [dict(zip(('package', 'version', 'python', 'folder', 'sha256'), row[1:])) for row in rows if row[0] == 'headers']
        self._python = [row[1:] for row in rows if row[0] == 'python']

    def python(self, *uses):
        return [package for use, package in self._python if use in uses]


class Deps:
    """The folder that is filled, with its own pip (pip's configuration, proxies and caches apply)."""

    def __init__(self, folder):
        self.folder = folder
        self.torch = folder / 'torch'
        self.downloads = folder / 'downloads'

    def python(self, environment='venv'):
        return self.folder / environment / 'bin' / 'python3'

    def pip(self, *arguments, environment='venv'):
        python = self.python(environment)
        if not python.exists():
            run([sys.executable, '-m', 'venv', str(self.folder / environment)],
                'cannot make a Python environment (Debian: apt-get install python3-venv)')
        quiet = [] if sys.stderr.isatty() else ['--progress-bar', 'off']
        if arguments[0] == 'install':   # Python compiles what is imported; pip, all that there is, in two thirds of its time
            quiet.append('--no-compile')
        return [str(python), '-m', 'pip', arguments[0], '--quiet', '--disable-pip-version-check', *quiet, *arguments[1:]]

    def wheel(self, package, version, sha256, python=None):
        """Downloads one wheel, unless it is there, and checks it. Returns its path."""
        self.downloads.mkdir(parents=True, exist_ok=True)
        for path in self.downloads.glob(f'{package.replace("-", "_")}-{version}*.whl'):
            if digest(path) == sha256:
                return path
            path.unlink()
        say(f'downloading {package} {version}')
        pinned = self.downloads / f'{package}.txt'
        pinned.write_text(f'{package}=={version} --hash=sha256:{sha256}\n')
        target = ['--python-version', f'{python[2]}.{python[3:]}', '--platform', 'manylinux_2_28_x86_64'] if python else []
        run(self.pip('download', '--no-deps', '--only-binary=:all:', *target, '--require-hashes', '-r', str(pinned), '-d', str(self.downloads)),
            f'{package} {version} could not be downloaded; run tools/setup again to continue, or set up pip (pip config) to reach a package index')
        pinned.unlink()
        return next(self.downloads.glob(f'{package.replace("-", "_")}-{version}*.whl'))

    def unfinished(self, package):
        """Whether an earlier unpacking was interrupted: its wheel is still there."""
        return any(self.downloads.glob(f'{package.replace("-", "_")}-*.whl'))

    def unpack(self, wheel, only='', into=''):
        """What begins with `only`, into the folder or one in it; the wheel is deleted once all of it is there."""
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.filename.startswith(only):
                    self._place(archive, member, self.folder / into / member.filename)
        wheel.unlink()

    @staticmethod
    def _place(archive, member, target):
        """One file, by renaming: a program that runs from the old one is not disturbed. What is there and equal is
        left alone, and times are the wheel's, so that nothing is rebuilt because of this."""
        if target.is_file() and target.stat().st_size == member.file_size and crc(target) == member.CRC:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(target.name + '.new')
        with archive.open(member) as source, open(fresh, 'wb') as file:
            shutil.copyfileobj(source, file, 1 << 22)
        fresh.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
        moment = time.mktime(member.date_time + (0, 0, -1))
        os.utime(fresh, (moment, moment))
        fresh.replace(target)


def crc(path):
    total = 0
    with open(path, 'rb') as file:
        while block := file.read(1 << 22):
            total = zlib.crc32(block, total)
    return total


def run(command, message):
    if subprocess.run(command, check=False).returncode != 0:
        fail(message)


def digest(path):
    total = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 22):
            total.update(block)
    return total.hexdigest()


def torch_version(folder):
    """The version of LibTorch in `folder`, only from its files; None where there is none."""
    if not (folder / 'lib' / 'libtorch_cpu.so').exists():
        return None
    try:
        found = re.search(r'__version__ = [\'"]([^\'"+]+)', (folder / 'version.py').read_text())
        return found.group(1) if found else 'unknown'
    except OSError:
        return 'unknown'


def torch_of(folder):
    """The torch folder of what a user gave: LibTorch, site-packages or an environment."""
    folder = pathlib.Path(folder).expanduser().resolve()
    for candidate in [folder, folder / 'torch', *folder.glob('lib/python3*/site-packages/torch')]:
        if torch_version(candidate):
            return candidate
    fail(f'no torch in {folder} (looked for lib/libtorch_cpu.so, torch/ and lib/python3*/site-packages/torch)')


def torch_of_python(version):
    """The torch of the python3 on PATH, where it has the right version. Nothing is imported."""
    script = 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")'
    found = subprocess.run(['python3', '-c', script], capture_output=True, text=True, check=False).stdout.strip()
    return pathlib.Path(found) if found and torch_version(pathlib.Path(found)) == version else None


def link(deps, target):
    if deps.torch.is_symlink():
        deps.torch.unlink()
    elif deps.torch.exists():
        fail(f'{deps.torch} is a folder; remove it to use {target} instead')
    deps.folder.mkdir(parents=True, exist_ok=True)
    deps.torch.symlink_to(target)
    say(f'LibTorch is {target}')


def provide_torch(deps, pins, given, whole):
    """`whole`: with the Python package too, which the parity tests import."""
    if given:
        folder = torch_of(given)
        if torch_version(folder) != pins.torch_version:
            fail(f'{folder} is torch {torch_version(folder)}; Capstan needs {pins.torch_version}')
        if not (deps.torch.exists() and deps.torch.samefile(folder)):
            link(deps, folder)
        return
    have = None if deps.unfinished('torch') else torch_version(deps.torch)
    if have == pins.torch_version and (not whole or (deps.torch / '__init__.py').exists()):
        return
    if have not in (None, pins.torch_version):
        say(f'{deps.torch} is {have}, replacing it by {pins.torch_version}')
    if have != pins.torch_version and (existing := torch_of_python(pins.torch_version)):
        link(deps, existing)
        return
    python = f'cp{sys.version_info.major}{sys.version_info.minor}'
    python = python if python in pins.torch else next(iter(pins.torch))
    wheel = deps.wheel('torch', pins.torch_version, pins.torch[python], python)
    say('unpacking torch (1.5 GB)')
    if deps.torch.is_symlink():
        deps.torch.unlink()
    elif deps.torch.exists() and have != pins.torch_version:
        shutil.rmtree(deps.torch)
    deps.unpack(wheel)


class Toolkit:
    """A CUDA toolkit of this machine, and which of its libraries are new enough for this LibTorch."""

    def __init__(self):
        homes = [os.environ.get('CUDA_HOME'), os.environ.get('CUDA_PATH'), '/usr/local/cuda', *sorted(glob.glob('/usr/local/cuda-13*'))]
        nvcc = shutil.which('nvcc')
        homes.insert(0, str(pathlib.Path(nvcc).resolve().parent.parent) if nvcc else None)
        self.lib = next((lib for home in homes if home for lib in (pathlib.Path(home, 'lib64'),)
                         if self._number(lib / 'libcudart.so.13', 'cudaRuntimeGetVersion') // 10 == 1300), None)

    @staticmethod
    def _number(library, function, by_pointer=True):
        """A library's own version number; 0 where it cannot be asked. In a process of its own."""
        script = ('import ctypes, sys; f = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2]); f.restype = ctypes.c_size_t; v = ctypes.c_int();'
                  'print(f() if sys.argv[3] == "0" else (f(ctypes.byref(v)), v.value)[1])')
        found = subprocess.run([sys.executable, '-c', script, str(library), function, str(int(by_pointer))],
                               capture_output=True, text=True, check=False)
        return int(found.stdout) if found.returncode == 0 else 0

    def matches(self, pin):
        if not self.lib or not (self.lib / pin['soname']).exists():
            return False
        parts = [int(part) for part in pin['version'].split('.')[:3]]
        if pin['soname'] == 'libcudnn.so.9':
            return self._number(self.lib / pin['soname'], 'cudnnGetVersion', by_pointer=False) >= parts[0] * 10000 + parts[1] * 100 + parts[2]
        if pin['soname'] == 'libnccl.so.2':
            return self._number(self.lib / pin['soname'], 'ncclGetVersion') >= parts[0] * 10000 + parts[1] * 100 + parts[2]
        return pin['folder'] == 'cu13'

    def link(self, pin, folder):
        stem = pin['soname'].split('.so')[0]
        folder.mkdir(parents=True, exist_ok=True)
        for library in self.lib.glob(f'{stem}*.so*'):
            target = folder / library.name
            if not target.exists():
                target.unlink(missing_ok=True)
                target.symlink_to(library)


def has_gpu_tools():
    return shutil.which('nvcc') is not None or os.path.exists('/usr/local/cuda/bin/nvcc') or os.path.exists('/proc/driver/nvidia/version')


def cuda_major(torch):
    needed = subprocess.run(['readelf', '-d', str(torch / 'lib' / 'libtorch_cpu.so')], capture_output=True, text=True, check=False).stdout
    found = re.search(r'libcudart\.so\.(\d+)', needed)
    return int(found.group(1)) if found else None


def provide_nvidia(deps, pins, uses, with_toolkit):
    """Each library next to LibTorch: there already, linked from the toolkit, or out of its wheel."""
    major = cuda_major(deps.torch)
    if major is None:
        return
    if major != 13:
        say(f'this LibTorch needs CUDA {major}, whose libraries tools/setup does not fetch: they must be next to it or known to the loader')
        return
    beside = deps.torch.resolve().parent / 'nvidia'
    missing = [pin for pin in pins.nvidia if pin['use'] in uses and (deps.unfinished(pin['package']) or not any(
        (root / pin['folder'] / 'lib' / pin['soname']).exists() for root in (beside, deps.folder / 'nvidia')))]
    toolkit = Toolkit() if with_toolkit and missing else None
    for pin in missing:
        if toolkit and toolkit.matches(pin):
            toolkit.link(pin, deps.folder / 'nvidia' / pin['folder'] / 'lib')
        else:
            deps.unpack(deps.wheel(pin['package'], pin['version'], pin['sha256']))


def provide_headers(deps, pins):
    """What GPU modules are compiled with and no library brings. Returns whether all of it is there."""
    complete = True
    for pin in pins.headers:
        folder = f'nvidia/{pin["folder"]}'
        if not deps.unfinished(pin['package']) and (deps.folder / folder).exists():
            continue
        try:
            deps.unpack(deps.wheel(pin['package'], pin['version'], pin['sha256'], pin['python']), 'include/', folder)
        except SystemExit as stop:   # a machine without a network may have all else
            say(f'{str(stop).removeprefix("setup: ")}; only builds with CAPSTAN_CUDA need it')
            complete = False
    return complete


def provide_parity(deps, pins, environment, use):
    """An environment with one transformers, next to the unpacked wheel's torch: no second copy of it."""
    def show_torch():
        site = next((deps.folder / environment).glob('lib/python3*/site-packages'), None)
        if site:
            (site / 'capstan_torch.pth').write_text(f'{deps.torch.resolve().parent}\n')
        return site

    python, packages = deps.python(environment), pins.python(use, 'both')
    probe = f'{PARITY_PROBE}; assert transformers.__version__ == "{packages[0].split("==")[1]}"'
    if any(package.startswith('wandb==') for package in packages):
        probe += f'; {READERS_PROBE}'
    if any(package.startswith('datasets==') for package in packages):
        probe += f'; {PREFERENCES_PROBE}'
    site = show_torch()
    if site and subprocess.run([str(python), '-c', probe], capture_output=True, check=False).returncode == 0:
        return
    if site:   # pip would complain that torch's own requirements are not installed as it knows them
        (site / 'capstan_torch.pth').unlink()
    say(f'installing the Python packages of the parity tests ({packages[0]})')
    failure = 'the Python packages of the parity tests could not be installed'
    run(deps.pip('install', *packages, environment=environment), failure)
    run(deps.pip('install', '--no-deps', *pins.python(f'{use}-alone', 'both-alone'), environment=environment), failure)
    show_torch()
    run([str(python), '-c', probe], f'{python} cannot import torch and {packages[0]} (the reason stands above)')


def provide_tidy(deps, pins):
    if not (deps.python().parent / 'clangd-tidy').exists():
        say('installing clangd-tidy')
        run(deps.pip('install', *pins.python('tidy')), 'clangd-tidy could not be installed')


def provide_release(deps, pins):
    """The folder of the programs that make a wheel, an environment of their own."""
    if not list((deps.folder / 'venv-release').glob('lib/python3*/site-packages/zstandard')):   # the last of the pins
        say('installing what makes packages')
        run(deps.pip('install', *pins.python('release'), environment='venv-release'), 'what makes packages could not be installed')
    return deps.folder / 'venv-release/bin'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--deps', default='.deps')
    parser.add_argument('--torch')
    parser.add_argument('--cuda', action='store_true', default=None)
    parser.add_argument('--no-cuda', dest='cuda', action='store_false')
    parser.add_argument('--no-toolkit', action='store_true')
    parser.add_argument('--parity', action='store_true')
    parser.add_argument('--tidy', action='store_true')
    options = parser.parse_args()
    if not sys.platform.startswith('linux') or os.uname().machine != 'x86_64':
        fail('LibTorch is fetched for Linux on x86_64; on other machines build with -DTorch_ROOT')
    pins, deps = Pins(), Deps(pathlib.Path(os.path.abspath(options.deps)))
    provide_torch(deps, pins, options.torch or os.environ.get('Torch_ROOT'), options.parity)
    cuda = has_gpu_tools() if options.cuda is None else options.cuda
    # Python's torch loads libtorch_cuda, which needs all of them even where there is no GPU.
    provide_nvidia(deps, pins, {'cpu', 'cuda'} if cuda or options.parity else {'cpu'}, not options.no_toolkit)
    complete = cuda and provide_headers(deps, pins)
    if options.parity:
        with concurrent.futures.ThreadPoolExecutor() as both:   # each waits for downloads
            list(both.map(lambda pair: provide_parity(deps, pins, *pair), (('venv', 'parity'), ('venv5', 'parity5'))))
    if options.tidy:
        provide_tidy(deps, pins)
    say(f'LibTorch {pins.torch_version} is in {options.deps}/torch{", with all that GPUs need" if complete else ""}')


if __name__ == '__main__':
    main()
