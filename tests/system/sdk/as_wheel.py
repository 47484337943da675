"""The wheel in an environment that has nothing but torch: it trains, a plugin is built against it, and it leaves no trace."""
import pathlib
import re
import sys

from bench import ROOT, check, check_words

MOST_MB = 60   # so that it is there in a moment, beside torch's own files


def environment(bench):
    """An empty Python environment with torch as pip would have installed it."""
    folder = bench.folder / 'env'
    bench.run(sys.executable, '-m', 'venv', folder)
    site = next(folder.glob('lib/python3*/site-packages'))
    torch = pathlib.Path(bench.torch).resolve()
    for name in ('nvidia', *(info.name for info in torch.parent.glob('torch-*.dist-info'))):
        (site / name).symlink_to(torch.parent / name)
    (site / 'torch').symlink_to(torch)
    return folder, site


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


def stage(bench):
    said = bench.run(ROOT / 'tools/release', '--build', bench.build, '--out', bench.folder / 'dist')
    wheel = next((bench.folder / 'dist').glob('*.whl'))
    megabytes = wheel.stat().st_size / 1e6
    check(megabytes < MOST_MB, f'{wheel.name} has {megabytes:.0f} MB, more than {MOST_MB}')
    folder, site = environment(bench)
    before = contents(folder)
    bench.run(folder / 'bin/pip', 'install', '--quiet', '--no-index', '--no-deps', wheel)
    package, program = site / 'capstan', folder / 'bin/capstan'
    for file in [package / 'bin/capstan', *package.glob('lib/**/*.so')]:
        paths = ''.join(re.findall(r'\((?:RPATH|RUNPATH)\).*\[(.*)\]', bench.run('readelf', '-d', file)))
        check(all(path.startswith('$ORIGIN') for path in paths.split(':')), f'{file} looks for libraries in {paths}')
    runs = bench.folder / 'runs/of-wheel'
    output = bench.run(program, 'run', '-n', 2, package / 'share/capstan/configs/quickstart.toml', 'train.max_steps=2', 'train.micro_batch=1',
                       'train.global_batch=2', 'train.generate_samples=0', 'train.generate_train_samples=0', f'run.dir={runs}')
    check_words(output, '2 ranks', 'Weights: ')
    refuses_other_torch(bench, program, site)
    build_plugin(bench, folder, package)
    bench.run(folder / 'bin/pip', 'uninstall', '--quiet', '--yes', 'capstan')
    left = contents(folder) - before - contents(folder / 'of_wheel') - {folder / 'of_wheel'}
    check(not left, f'left behind: {sorted(map(str, left))[:5]}')
    return f'{said.strip().splitlines()[-1].rsplit("/", 1)[-1]}'
