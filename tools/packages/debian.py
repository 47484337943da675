"""A Debian package of the archive's folder. It needs no other package: LibTorch is linked by capstan-use-torch."""
import os
import shutil

from .archive import LEVEL
from .steps import filled, run, set_times

LINKS = {'bin/capstan': '../lib/capstan/bin/capstan', 'bin/capstan-new-plugin': '../lib/capstan/bin/capstan-new-plugin', 'bin/capstan-use-torch': '../lib/capstan/use-torch'}
# share/… of the archive -> where Debian's programs look
MOVES = {'man': 'man', 'bash-completion': 'bash-completion', 'zsh/site-functions': 'zsh/vendor-completions', 'fish/vendor_completions.d': 'fish/vendor_completions.d'}


def link(usr):
    (usr / 'bin').mkdir()
    for name, target in LINKS.items():
        (usr / name).symlink_to(target)


def move_manual(tree, usr):
    for name, place in MOVES.items():
        (usr / 'share' / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(tree / 'share' / name, usr / 'share' / place)
    shutil.rmtree(tree / 'share/zsh')
    shutil.rmtree(tree / 'share/fish')


def make(tree, words, folder, file):
    root = folder / 'debian'
    own = root / 'usr/lib/capstan'
    shutil.copytree(tree, own, symlinks=True)
    link(root / 'usr')
    move_manual(own, root / 'usr')
    (root / 'DEBIAN').mkdir()
    size = sum(each.lstat().st_size for each in root.rglob('*')) // 1024
    (root / 'DEBIAN/control').write_text(filled('control', {**words, 'SIZE': str(size)}), encoding='utf-8')
    (root / 'DEBIAN/prerm').write_text('#!/bin/sh\nset -e\nrm -f /usr/lib/capstan/torch /usr/lib/capstan/nvidia   # links of capstan-use-torch\n', encoding='utf-8')
    (root / 'DEBIAN/prerm').chmod(0o755)
    documents = root / 'usr/share/doc/capstan'
    documents.mkdir(parents=True)
    (documents / 'copyright').write_text('The libraries that come along have theirs in /usr/lib/capstan/share/doc/capstan/licences.\n', encoding='utf-8')
    for each in root.rglob('*'):
        if not each.is_symlink():
            each.chmod(0o755 if each.is_dir() or os.access(each, os.X_OK) else 0o644)
    set_times(root)
    run('dpkg-deb', '--root-owner-group', '-Zzstd', f'-z{LEVEL}', '--build', root, file)   # xz makes it a sixth smaller in ten times the time
    return file
