"""A folder that runs wherever it is unpacked, by the torch that `use-torch` is told of, and the archive of it."""
import shutil
import tarfile

import zstandard

from .steps import FILES, filled, relocate, run, set_times

LEVEL = 12   # 19 makes it a tenth smaller in ten times the time


def unpack(wheel, manual, words, folder, tools):
    """The wheel's files as bin, lib, include and share; the libraries that came along are in lib/bundled."""
    site = folder / 'of-wheel'
    run('python3', '-m', 'zipfile', '-e', wheel, site)
    tree = folder / f'capstan-{words["VERSION"]}'
    shutil.move(site / 'capstan', tree)
    (tree / '__init__.py').unlink()
    shutil.move(site / 'capstan.libs', tree / 'lib/bundled')
    shutil.copytree(manual, tree / 'share', dirs_exist_ok=True)
    (tree / 'use-torch').write_text(filled('use-torch', words), encoding='utf-8')
    for file in [tree / 'use-torch', *(tree / 'bin').iterdir()]:
        file.chmod(0o755)
    relocate(tools, tree, tree / 'lib', tree / 'lib/bundled', tree / 'torch/lib')
    shutil.copyfile(FILES / 'capstan.def', tree / 'share/capstan/capstan.def')
    set_times(tree)
    return tree


def owned_by_root(member):
    member.uid = member.gid = 0
    member.uname = member.gname = 'root'
    return member


def pack(tree, file):
    """tar by tarfile, in the order of names, and Zstandard; the same tree gives the same bytes."""
    plain = file.with_suffix('')
    with tarfile.open(plain, 'w', format=tarfile.GNU_FORMAT) as archive:
        for each in [tree, *sorted(tree.rglob('*'))]:
            archive.add(each, each.relative_to(tree.parent), recursive=False, filter=owned_by_root)
    with plain.open('rb') as read, file.open('wb') as written:
        zstandard.ZstdCompressor(level=LEVEL, threads=2).copy_stream(read, written)
    plain.unlink()
    return file
