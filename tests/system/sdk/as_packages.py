"""What tools/release makes: the wheel in an environment that has nothing but torch, the archive, the Debian package."""
import json
import pathlib
import re
import sys

from bench import ROOT, check, check_words

MOST_MB = 60   # so that it is there in a moment, beside torch's own files


def environment(bench):
    """An empty Python environment with torch as pip would have installed it."""
    folder = bench.folder / 'env'
    bench.run(sys.executable, '-m', 'venv', '--without-pip', folder)
    site = next(folder.glob('lib/python3*/site-packages'))
    torch = pathlib.Path(bench.torch).resolve()
    for name in ('nvidia', *(info.name for info in torch.parent.glob('torch-*.dist-info'))):
        (site / name).symlink_to(torch.parent / name)
    (site / 'torch').symlink_to(torch)
    return folder, site


def pip(bench, folder, *words):
    """By the pip of another environment, which is there: to install one takes longer than to install Capstan."""
    bench.run(ROOT / '.deps/venv-release/bin/python', '-m', 'pip', '--python', folder / 'bin/python', *words)


def contents(folder):
    return {path for path in folder.rglob('*') if '__pycache__' not in path.parts}


def refuses_other_torch(bench, program, site):
    """One sentence with both versions, before anything of another LibTorch is loaded."""
    info = next(site.glob('torch-*.dist-info'))
    info.rename(site / 'torch.kept')
    other = site / 'torch-2.10.0.dist-info'
    other.mkdir()
    (other / 'METADATA').write_text('Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0\n', encoding='utf-8')
    check_words(bench.run(program, '--version', status=1), 'this environment has torch 2.10.0, and this Capstan was built for')
    (other / 'METADATA').unlink()
    other.rmdir()
    check_words(bench.run(program, '--version', status=1), 'this environment has no torch', 'fix: pip install torch==')
    (site / 'torch.kept').rename(info)


def build_plugin(bench, folder, package):
    bench.run(folder / 'bin/capstan-new-plugin', 'monitor', 'of_wheel', '--out', folder)
    source = folder / 'of_wheel'
    bench.run('cmake', '-G', 'Ninja', '-S', source, '-B', source / 'build', f'-DCapstan_ROOT={package}')
    bench.run('ninja', '-C', source / 'build')
    bench.run('ctest', '--test-dir', source / 'build', '--output-on-failure', '--no-tests=error')


def train(bench, program, package):
    runs = bench.folder / 'runs' / package.parent.name
    said = bench.run(program, 'run', '-n', 2, package / 'share/capstan/configs/quickstart.toml', 'train.max_steps=2', 'train.micro_batch=1',
                     'train.global_batch=2', 'train.generate_samples=0', 'train.generate_train_samples=0', f'run.dir={runs}')
    check_words(said, '2 ranks', 'Weights: ')


def check_relative(bench, package):
    """No file looks for libraries in a folder of the machine on which it was built."""
    for file in [package / 'bin/capstan', *package.glob('lib/**/*.so')]:
        paths = ''.join(re.findall(r'\((?:RPATH|RUNPATH)\).*\[(.*)\]', bench.run('readelf', '-d', file)))
        check(all(path.startswith('$ORIGIN') for path in paths.split(':')), f'{file} looks for libraries in {paths}')


def completes(bench, script):
    """What bash offers after a line."""
    ask = f'source {script}; function=$(complete -p capstan | sed "s/.*-F \\([^ ]*\\).*/\\1/"); ' \
        'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); $function capstan "${@: -1}" ""; echo "${COMPREPLY[*]}"; }; '
    check_words(bench.run('bash', '-c', ask + 'ask capstan ch'), 'check chat checkpoint')
    check_words(bench.run('bash', '-c', ask + 'ask capstan report --format ""'), 'text csv markdown html')
    check_words(bench.run('bash', '-c', ask + 'ask capstan checkpoint ""'), 'ls verify show')
    check_words(bench.run('bash', '-c', ask + 'ask capstan run --'), '--ranks', '--spawn-local', '--verbose')
    check_words(bench.run('bash', '-c', ask + 'ask capstan report --'), '--format', '--serve', '--port')
    check_words(bench.run('bash', '-c', ask + 'ask capstan chat --'), '--ranks', '--template-variable')   # which its help has under a heading of their own


def reads_by_its_own_python(bench, folder, program):
    """Files that Python reads are read by the environment's, which is not activated; it has no PyYAML, and says so of itself."""
    (bench.folder / 'axolotl.yml').write_text('base_model: a\n', encoding='utf-8')
    check_words(bench.run('env', '-u', 'VIRTUAL_ENV', program, 'import-axolotl', bench.folder / 'axolotl.yml', status=None),
                f'this Python has no PyYAML: {folder}/bin/python3')


def from_wheel(bench, wheel):
    megabytes = wheel.stat().st_size / 1e6
    check(megabytes < MOST_MB, f'{wheel.name} has {megabytes:.0f} MB, more than {MOST_MB}')
    folder, site = environment(bench)
    before = contents(folder)
    pip(bench, folder, 'install', '--quiet', '--no-index', '--no-deps', wheel)
    package, program = site / 'capstan', folder / 'bin/capstan'
    check_relative(bench, package)
    train(bench, program, package)
    reads_by_its_own_python(bench, folder, program)
    completes(bench, folder / 'share/bash-completion/completions/capstan')
    check_words((folder / 'share/man/man1/capstan.1').read_text(encoding='utf-8'), 'capstan sweep', '--weak'.replace('-', '\\-'), 'capstan \\- trainer')
    refuses_other_torch(bench, program, site)
    build_plugin(bench, folder, package)
    pip(bench, folder, 'uninstall', '--quiet', '--yes', 'capstan')
    left = contents(folder) - before - contents(folder / 'of_wheel') - {folder / 'of_wheel'}
    check(not any(path.is_file() for path in left), f'left behind: {sorted(map(str, left))[:5]}')


def unpack(bench, archive):
    """The archive's folder."""
    code = 'import sys, tarfile, zstandard; tarfile.open(fileobj=zstandard.ZstdDecompressor().stream_reader(open(sys.argv[1], "rb")), mode="r|").extractall(sys.argv[2])'
    bench.run(ROOT / '.deps/venv-release/bin/python', '-W', 'ignore', '-c', code, archive, bench.folder / 'unpacked')
    return next((bench.folder / 'unpacked').glob('capstan-*'))


def from_archive(bench, archive):
    """Unpacked where it happens to be, it says what it needs, is told, and trains."""
    tree = unpack(bench, archive)
    check_relative(bench, tree)
    quickstart = tree / 'share/capstan/configs/quickstart.toml'
    check_words(bench.run(tree / 'bin/capstan', 'check', quickstart, status=None), 'libtorch', 'use-torch FOLDER')
    check_words(bench.run(tree / 'use-torch', bench.folder, status=1), 'there is no torch in', 'pip install torch==')
    other = bench.folder / 'other/torch'
    (other / 'lib').mkdir(parents=True, exist_ok=True)
    (other / 'lib/libtorch_cpu.so').touch()
    (other / 'version.py').write_text("__version__ = '2.10.0+cpu'\n", encoding='utf-8')
    check_words(bench.run(tree / 'use-torch', other.parent, status=1), 'is torch 2.10.0, and this Capstan was built for')
    check_words(bench.run(tree / 'use-torch', bench.torch), 'Capstan uses torch')
    train(bench, tree / 'bin/capstan', tree)
    return tree


def from_debian_package(bench, package, tree):
    """Its files, unpacked as dpkg would below another root; every one of the archive's is there."""
    root = bench.folder / 'root'
    bench.run('dpkg-deb', '-x', package, root)
    for name in ('capstan', 'capstan-new-plugin', 'capstan-use-torch'):
        check((root / 'usr/bin' / name).resolve().is_file(), f'usr/bin/{name} leads nowhere')
    check_words(bench.run(root / 'usr/bin/capstan', '--version'), 'capstan ')
    own = root / 'usr/lib/capstan'
    missing = [path.relative_to(tree) for path in contents(tree) if path.is_file() and 'torch' not in path.relative_to(tree).parts[:1]
               and not (own / path.relative_to(tree)).exists() and path.relative_to(tree).parts[1] not in ('man', 'bash-completion', 'zsh', 'fish')
               and path.relative_to(tree).parts[0] != 'nvidia']
    check(not missing, f'missing in {package.name}: {missing[:5]}')
    check((root / 'usr/share/man/man1/capstan.1').exists(), 'there is no manual page')


def stage(bench):
    said = bench.run(ROOT / 'tools/release', '--build', bench.build, '--out', bench.folder / 'dist')
    made = bench.folder / 'dist'
    from_wheel(bench, next(made.glob('*.whl')))
    tree = from_archive(bench, next(made.glob('*.tar.zst')))
    from_debian_package(bench, next(made.glob('*.deb')), tree)
    parts = {each['name'] for each in json.loads(next(made.glob('*.spdx.json')).read_text(encoding='utf-8'))['packages']}
    check({'capstan', 'torch', 'libfmt9', 'libspdlog1.10'} <= parts or not pathlib.Path('/etc/debian_version').read_text(encoding='utf-8').startswith('12'),
          f'the SPDX list has only {sorted(parts)}')
    return ', '.join(line.rsplit('/', 1)[-1] for line in said.strip().splitlines() if ' MB)' in line)
