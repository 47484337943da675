"""What is refused when a plugin is configured or made, each with its words."""
import re
import shutil

from bench import HERE, ROOT, Failed, check, check_words

# What a project of today asks find_package for: 1.N, N the SDK's number.
WANTED = re.search(r'project\(Capstan VERSION (\d+\.\d+)', (ROOT / 'CMakeLists.txt').read_text(encoding='utf-8'))[1]


def configure(bench, code='', wanted=WANTED, torch='', prefix=None, status=None, **environment):
    """One configuration of tests/system/sdk/refusals; the words are CMake's output."""
    return bench.run('cmake', '-G', 'Ninja', '-S', HERE / 'refusals', '-B', bench.folder / 'refusals', f'-DWANTED={wanted}', f'-DCODE={code}',
                     f'-DTorch_ROOT={torch}', f'-DCapstan_ROOT={prefix or bench.prefix}', '-UCapstan_DIR', status=status, **environment)


def fake_torch(bench, major, minor, patch):
    """A folder that looks like LibTorch as far as its version goes."""
    folder = bench.folder / f'torch-{major}.{minor}.{patch}'
    header = folder / 'include/torch/headeronly/version.h'
    for file in (header, folder / 'lib/libtorch_cpu.so'):
        file.parent.mkdir(parents=True, exist_ok=True)
    (folder / 'lib/libtorch_cpu.so').touch()
    header.write_text(f'#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n#define TORCH_VERSION_PATCH {patch}\n', encoding='utf-8')
    return folder


def torch(bench):
    """Another LibTorch than Capstan's; the same one in another place is taken."""
    other = fake_torch(bench, 2, 10, 0)
    said = (f'LibTorch in {other} is 2.10.0; Capstan needs 2.11.0', 'Pass -DTorch_ROOT=FOLDER with a torch 2.11.0')
    check_words(configure(bench, torch=other), *said)
    shutil.rmtree(bench.folder / 'refusals')   # what was given on the command line is remembered
    check_words(bench.configure(HERE / 'refusals', 'refusals', '-DWANTED=1', status=None, Torch_ROOT=str(other)), *said)
    old = bench.folder / 'old-torch'
    shutil.copytree(other, old)
    shutil.rmtree(old / 'include')
    check_words(configure(bench, torch=old), f'LibTorch in {old} is older than 2.9; Capstan needs 2.11.0')
    empty = bench.folder / 'home'
    check_words(configure(bench, torch=empty), f'no LibTorch in {empty} (lib/libtorch_cpu.so is missing)', 'Pass -DTorch_ROOT=FOLDER')
    same = bench.folder / 'same-torch'
    same.symlink_to(bench.torch)
    check_words(configure(bench, torch=same, status=0), 'LibTorch 2.11.0', str(same))


def capstan(bench):
    """Another version of Capstan than the one that is there, and another compiler than Capstan's."""
    version = bench.run(bench.program, '--version').split()[1]
    _, number, level = map(int, version.split('.'))
    below = [f'1.{number - 1}...1.{number}.{level - 1}'] if level else []
    for wanted in ('0.1', '2', f'1.{number - 1}', f'1.{number + 1}', f'1.{number}.{level + 1}', f'1.{number - 1}.{level}...<1.{number}', *below):
        check_words(configure(bench, wanted=wanted), f'compatible with requested version {"range" if "..." in wanted else ""}', wanted, f'version: {version}')
    check_words(configure(bench, wanted=f'1.{number - 1}'), f'whose SDK has number {number}: share/doc/capstan/CHANGELOG.md of its prefix says what to change for it')
    check_words(configure(bench, wanted=f'1.{number}.{level + 1}'), 'whose level is too low: install a newer Capstan')
    for wanted in ('1', f'1.{number}', version, f'1.{number - 1}...1.{number}', f'1.{number - 1}...{version}'):
        configure(bench, wanted=wanted, status=0)
    package = bench.folder / 'other/lib/cmake/Capstan'
    shutil.copytree(bench.prefix / 'lib/cmake/Capstan', package)
    config = package / 'CapstanConfig.cmake'
    text = config.read_text(encoding='utf-8')
    check(' cxx=' in text, f'{config} has no ABI tag')
    config.write_text(text.replace(' cxx=', ' cxx=other'), encoding='utf-8')
    check_words(configure(bench, prefix=bench.folder / 'other'), 'would refuse plugins built here', 'it was built as', 'cxx=other',
                'Use the same compiler (-DCMAKE_CXX_COMPILER=FILE)')


def add_plugin(bench):
    """What capstan_add_plugin and capstan_add_test do not take."""
    source = '${CMAKE_BINARY_DIR}/source.cc'
    for code, words in (
            (f'capstan_add_plugin(mine KIND scheduler SOURCES {source})', "KIND must be model, strategy, optimizer, objective, data, tokenizer, monitor or command, not 'scheduler'"),
            (f'capstan_add_plugin(a.b KIND data SOURCES {source})', "capstan_add_plugin(a.b): a name has letters, digits, '_' and '-' only"),
            (f'capstan_add_plugin(mine_cuda KIND data SOURCES {source})', 'NAME_cuda.so is the GPU module of plugin NAME; choose another name'),
            ('capstan_add_plugin(mine KIND data SOURCES)', 'capstan_add_plugin(mine): SOURCES is empty'),
            ('capstan_add_plugin(mine KIND data SOURCES kernel.cu)', 'capstan_add_plugin(mine): SOURCES has kernels only'),
            (f'capstan_add_plugin(mine KIND data FILES {source})', 'capstan_add_plugin(mine): unknown arguments FILES'),
            ('capstan_add_test(mine)', 'capstan_add_test(mine): SOURCES is empty'),
            (f'capstan_add_test(mine PLUGIN mine SOURCES {source})', 'there is no target mine; a plugin\'s is plugin_<kind>_<name>'),
            (f'capstan_add_test(mine FILES x SOURCES {source})', 'capstan_add_test(mine): unknown arguments FILES')):
        check_words(configure(bench, code), words)
    check_words(configure(bench, f'capstan_add_plugin(mine KIND data SOURCES {source} kernel.cu)', status=0),
                'data plugin mine: without its kernels (CAPSTAN_CUDA is off)')


def new_plugin(bench):
    """What capstan-new-plugin does not make, and that it leaves everything as it was then."""
    tool = bench.prefix / 'bin/capstan-new-plugin'
    here = bench.folder / 'new'
    (here / 'taken').mkdir(parents=True)
    for arguments, words in (
            ((), "the kind is strategy, model, optimizer, objective, data, tokenizer, monitor or command, not ''"),
            (('scheduler', 'mine'), "the kind is strategy, model, optimizer, objective, data, tokenizer, monitor or command, not 'scheduler'"),
            (('data',), 'what is the data called?'),
            (('data', 'Mine'), "'Mine' is no name for a plugin"),
            (('data', 'my-own'), "'my-own' is no name for a plugin"),
            (('data', 'mine_cuda'), "'mine_cuda' ends in _cuda: mine_cuda.so would be the GPU module of plugin mine"),
            (('data', 'taken'), f'{here}/taken exists already; nothing was written')):
        check_words(bench.run(tool, *arguments, status=2, cwd=here), f'new-plugin: {words}')
    if [path.name for path in here.rglob('*')] != ['taken']:
        raise Failed(f'a refused capstan-new-plugin wrote to {here}')
