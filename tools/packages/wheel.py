"""The wheel: LibTorch, CUDA and NCCL are those of the environment's torch, the other libraries come along."""
import os
import re
import shutil

from .steps import ROOT, filled, relocate, run

TORCHS = ('libtorch', 'libc10', 'libgomp', 'libcu', 'libnv', 'libnccl')   # what torch's wheel has, or those that it requires
ENTRIES = '''[console_scripts]
capstan = capstan:main
capstan-new-plugin = capstan:new_plugin

[cmake.prefix]
capstan = capstan
'''


def describe(site, words):
    """What makes a folder of files a wheel."""
    (site / 'capstan/__init__.py').write_text(filled('wheel_entry.py', words), encoding='utf-8')
    info = site / f'capstan-{words["VERSION"]}.dist-info'
    info.mkdir()
    readme = (ROOT / 'README.md').read_text(encoding='utf-8')
    (info / 'METADATA').write_text(filled('METADATA', words) + readme, encoding='utf-8')
    (info / 'WHEEL').write_text('Wheel-Version: 1.0\nGenerator: capstan\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n', encoding='utf-8')
    (info / 'entry_points.txt').write_text(ENTRIES, encoding='utf-8')


def make(tools, installed, manual, words, folder, out):
    """The wheel's path. `installed` is an installation, `manual` the folder share of its pages and completions."""
    site = folder / 'site'
    package = site / 'capstan'
    shutil.copytree(installed, package, symlinks=True)
    describe(site, words)
    shutil.copytree(manual, site / f'capstan-{words["VERSION"]}.data/data/share')
    relocate(tools, package, package / 'lib', site / 'torch/lib')
    packed = folder / 'packed'
    packed.mkdir()
    run(tools / 'wheel', 'pack', site, '--dest-dir', packed)
    excluded = [word for name in TORCHS for word in ('--exclude', f'{name}*')]
    said = run(tools / 'auditwheel', 'repair', *excluded, '--wheel-dir', out, *packed.glob('*.whl'), PATH=f'{tools}:{os.environ["PATH"]}')
    return out / re.search(r'([^/\s]+\.whl)$', said.strip().splitlines()[-1]).group(1)
