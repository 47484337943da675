"""Whether plugins/ and models/ by themselves can be built against the installation.

Compiling all of them a second time says little that the tree's own build has not said. So CI proves it from that build:
all that an object was made from is the plugin's own, is installed byte by byte, or is the system's and LibTorch's (Ninja's
dependencies); the flags are those that the installed CMake functions give; each plugin is linked with the same libraries
and carries the same ABI note. Files of plugins of which something changed are compiled, but not to the end. One plugin of
each kind is built anyway: those that capstan-new-plugin makes (the eight kinds), an installed example of each kind that
has one (llama is Capstan's own), and here one monitor and one data source. All of them are built with --whole.

What this does not see is an include that only the tree's precompiled header has: the compiler says it of plugins that
change, --whole of all.
"""
import concurrent.futures
import functools
import json
import pathlib
import re

from bench import ROOT, build_jobs, check, check_words, plain
from changes import base, changed

# Whether they compile and load is asked: in a third of the time, since a plugin's files are read as one, as in the tree.
QUICK = ('-DCMAKE_UNITY_BUILD=ON', '-DCMAKE_UNITY_BUILD_BATCH_SIZE=8', '-DCMAKE_CXX_FLAGS=-Wno-subobject-linkage',
         '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0')
FOLDERS = ('plugins', 'models')
INSTALLED = re.compile(r'(?:core|(?:plugins|models)/libraries/\w+)/include/(.*)')
# What one may have that the other has not: the precompiled header and the warnings are a project's own, CMake's flags of
# RelWithDebInfo have NDEBUG and another -g than the tree's, and the name of a target is in a definition.
BY_DESIGN = re.compile(r'-W|-include$|.*cmake_pch\.hxx$|-g\d?$|-DNDEBUG$|-D\w+_EXPORTS$')
BUILT = ('plugin_monitor_csv', 'plugin_data_synthetic')   # of kinds whose libraries neither examples nor made plugins have


def of_tree(path):
    """A path below the tree's root, or nothing."""
    return path.relative_to(ROOT).as_posix() if ROOT in path.parents else ''


def commands(folder):
    """source -> (its object, the command that compiles it); the files that a unity file includes have its command."""
    found = {}
    for entry in json.loads((folder / 'compile_commands.json').read_text(encoding='utf-8')):
        file = pathlib.Path(entry['directory'], entry['file']).resolve()
        together = re.findall(r'^#include "(.*\.cc)"$', file.read_text(encoding='utf-8'), re.MULTILINE) if 'unity' in file.parts else []
        for part in [(file.parent / name).resolve() for name in together] or [file]:
            found[part] = (re.search(r' -o (\S+)', entry['command'])[1], entry['command'])
    return found


def of_sdk(source):
    """Whether a file is of a library that is installed, which plugins/ by itself does not build."""
    match = re.match(r'(?:plugins|models)/libraries/\w+', of_tree(source))
    return bool(match) and (match[0].startswith('models/') or (ROOT / match[0] / 'CMakeLists.txt').exists())


def plugins_of(folder):
    """The same of commands(), only of files that plugins/ or models/ by themselves compile; GPU modules are not asked for there."""
    return {source: made for source, made in commands(folder).items() if of_tree(source).startswith(('plugins/', 'models/')) and not of_sdk(source)
            and not made[0].startswith('tests/') and not source.name.endswith(('.cu', '_cuda.cc'))}


def dependencies(build, run):
    """object -> the files that it was made from."""
    place = functools.cache(lambda line: (build / line.strip()).resolve())   # most of them are the same headers
    found = {}
    for block in run('ninja', '-C', build, '-t', 'deps').split('\n\n'):
        lines = block.splitlines()
        if lines:
            found[lines[0].split(': #deps')[0]] = list(map(place, lines[1:]))
    return found


@functools.cache
def is_there(bench, own, path):
    """Whether what is in the folder `own` of the tree may be made from this file."""
    name = of_tree(path)
    if path.is_relative_to(bench.build) or path.is_relative_to(ROOT / '.deps') or path.is_relative_to(pathlib.Path(bench.torch).resolve()):
        return not path.is_relative_to(bench.build) or 'unity' in path.parts or path.name.startswith('cmake_pch.hxx')
    if not name:
        return path.is_relative_to('/usr')
    if match := INSTALLED.fullmatch(name):
        copy = bench.prefix / 'include' / match[1]
        return copy.exists() and copy.read_bytes() == path.read_bytes()
    library = re.match(r'plugins/libraries/\w+/', name) if own.startswith('plugins/') else None
    return name.startswith(own) or bool(library) or name in ('core/pch.h', 'core/host_pch.h')   # plugin_pch.h takes the former's place there; the latter has nothing of Capstan


def check_dependencies(bench, sources):
    made_from = dependencies(bench.build, bench.run)
    for source, (built, _) in sources.items():
        check(built in made_from, f'{bench.build} has no dependencies of {built}: it is not built, or not by Ninja')
        parts = of_tree(source).split('/')
        own = '/'.join(parts[:2 if parts[0] == 'models' else 3]) + '/'
        for path in made_from[built]:
            check(is_there(bench, own, path), f'{of_tree(source)} is made from {path}, which an installation does not have')
    return len({built for built, _ in sources.values()})


def flags(bench, command):
    """(flags, folders of headers) of a command, both without what differs by design."""
    kept, folders, words = [], set(), iter(plain(command)[1:])
    for word in words:
        if word in ('-isystem', '-I') or word.startswith('-I'):
            folders.add(pathlib.Path(word[2:] if word.startswith('-I') and word != '-I' else next(words)).resolve())
        elif not BY_DESIGN.match(word):
            kept.append(word)
    inside = {of_tree(folder) for folder in folders if not folder.is_relative_to(ROOT / '.deps') and not folder.is_relative_to(bench.prefix)} - {''}
    return sorted(set(kept)), inside


def check_flags(bench, sources, theirs):
    check(set(sources) == set(theirs), f'not the same files: {sorted(map(of_tree, set(sources) ^ set(theirs)))}')
    for source, (_, command) in sources.items():
        ours, folders = flags(bench, command)
        others, _ = flags(bench, theirs[source][1])
        check(ours == others, f'{of_tree(source)} is compiled with other flags: {sorted(set(ours) ^ set(others))}')
        wrong = [folder for folder in folders if not re.fullmatch(r'core/include|(plugins|models)/libraries(/\w+/include)?', folder)]
        check(not wrong, f'{of_tree(source)} is compiled with headers of {wrong}, which are not installed')


LINK = re.compile(r'^build \S*plugins/(\w+/[\w-]+\.so): CXX_MODULE_LIBRARY_LINKER__\S+ (.*?)\n((?:  .*\n)*)', re.MULTILINE)


def links(folder):
    """kind/name.so -> names of the libraries that it is linked with, and of its ABI note, which is the text's hash."""
    found = {}
    for name, inputs, variables in LINK.findall((folder / 'build.ninja').read_text(encoding='utf-8')):
        if name.endswith('_cuda.so'):
            continue
        words = re.search(r'^  LINK_LIBRARIES = (.*)$', variables, re.MULTILINE)
        libraries = {pathlib.Path(word).name for word in (words[1].split() if words else ()) if not word.startswith('-')}
        found[name] = (libraries, re.findall(r'abi_note_\w+', inputs)[:1])
    return found


def check_links(bench):
    ours = {name: link for name, link in links(bench.build).items() if (bench.prefix / 'lib/capstan/plugins' / name).exists()}
    theirs = {name: link for folder in FOLDERS for name, link in links(bench.folder / f'alone_{folder}').items()}
    check(set(ours) == set(theirs) and len(ours) > 40, f'not the same plugins: {sorted(set(ours) ^ set(theirs))}, of {len(ours)}')
    for name, link in ours.items():
        check(link == theirs[name], f'{name} is linked otherwise: {link} in the tree, {theirs[name]} by itself')
    return len(ours)


def compile_changed(bench, theirs):
    """The files of plugins of which something changed, as an author's compiler reads them, but no objects."""
    folders = {ROOT / pathlib.Path(name).parent for name in changed(base())} if base() else set()
    wanted = [(source, command) for source, (_, command) in theirs.items() if source.parent in folders]

    with concurrent.futures.ThreadPoolExecutor(build_jobs()) as pool:
        for (source, _), (status, said) in zip(wanted, pool.map(lambda each: bench.ended(*plain(each[1]), '-fsyntax-only', each[0]), wanted)):
            check(status == 0, f'{of_tree(source)} does not compile against the installation:\n{said}')
    return len(wanted)


def prove(bench):
    for folder in FOLDERS:
        bench.configure(ROOT / folder, f'alone_{folder}', '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON')
    sources = plugins_of(bench.build)
    theirs = {source: made for folder in FOLDERS for source, made in plugins_of(bench.folder / f'alone_{folder}').items()}
    objects = check_dependencies(bench, sources)
    check_flags(bench, sources, theirs)
    plugins, again = check_links(bench), compile_changed(bench, theirs)
    bench.run('ninja', '-C', bench.folder / 'alone_plugins', '-j', build_jobs(), *BUILT)
    output = bench.run(bench.program, 'plugins', 'csv', CAPSTAN_PLUGIN_PATH=str(bench.folder / 'alone_plugins/plugins'))
    check_words(output, 'alone_plugins/plugins/monitor/csv.so')
    return f'{plugins} plugins, {objects} objects, {again} changed files compiled'


def build(bench):
    for folder in FOLDERS:
        bench.configure(ROOT / folder, f'alone_{folder}', *QUICK)
        bench.ninja(f'alone_{folder}')
        ours = {path.relative_to(bench.folder / f'alone_{folder}/plugins') for path in (bench.folder / f'alone_{folder}').glob('plugins/*/*.so')}
        installed = {path.relative_to(bench.prefix / 'lib/capstan/plugins') for path in bench.prefix.glob('lib/capstan/plugins/*/*.so')}
        wanted = {path for path in installed if (path.parts[0] == 'model') == (folder == 'models') and not path.stem.endswith('_cuda')}
        check(ours == wanted, f'{folder}/ by itself made {sorted(map(str, ours))}, the installation has {sorted(map(str, wanted))}')
    output = bench.run(bench.program, 'plugins', 'fsdp', CAPSTAN_PLUGIN_PATH=str(bench.folder / 'alone_plugins/plugins'))
    check_words(output, 'alone_plugins/plugins/strategy/fsdp.so')


def stage(bench):
    """Both with --whole, in folders of their own would cost another configuration: the build comes last."""
    told = prove(bench)
    if bench.whole:
        build(bench)
        told += ', all built'
    return told
