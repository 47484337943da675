"""The wheel and the archive with the compilers, the torch and the systems of others.

The wheel stands in a Python environment; each g++ and clang++ that this machine has builds and tests the eight kinds of
plugins against it, or is refused by name where its standard library is of another GCC. The newest torch on PyPI is
refused in one sentence. The archive runs in images of other systems, by podman or docker, or for root in what debootstrap
unpacks, with this machine's LibTorch: where glibc is too old the loader says so. What a machine lacks is listed as not
tried, with the reason. Last all of it is built for another processor (cross.py).
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess

from as_packages import environment, pip, train, unpack
from bench import HERE, ROOT, Failed, NotTried, check, check_words
from cross import aarch64
from kinds import build_outside, make_plugins, test_outside

COMPILERS = (*(f'g++-{major}' for major in range(11, 16)), *(f'clang++-{major}' for major in range(14, 22)))
IMAGES = ('debian:12', 'debian:13', 'ubuntu:22.04', 'ubuntu:24.04', 'almalinux:9')   # the last is as RHEL 9
# image -> what debootstrap calls it, who signs its packages, and whose steps it is unpacked by, which know where they are.
DEBIAN = ('debian-archive-keyring', 'bookworm')
UBUNTU = ('ubuntu-archive-keyring', 'jammy')
UNPACKED = {'debian:12': ('bookworm', *DEBIAN), 'debian:13': ('trixie', *DEBIAN), 'ubuntu:22.04': ('jammy', *UBUNTU), 'ubuntu:24.04': ('noble', *UBUNTU)}
KINDS_THAT_TRAIN = ('strategy', 'model', 'monitor')   # of those that are made, each with a run of its own


def install(bench):
    """The packages, and the wheel where pip puts it; from here on that is the Capstan that is tried."""
    shutil.rmtree(bench.folder, ignore_errors=True)
    bench.folder.joinpath('home').mkdir(parents=True)
    bench.run(ROOT / 'tools/release', '--build', bench.build, '--out', bench.folder / 'dist')
    folder, site = environment(bench)
    wheel = next(bench.folder.glob('dist/*.whl'))
    pip(bench, folder, 'install', '--quiet', '--no-index', '--no-deps', wheel)
    bench.prefix = site / 'capstan'
    bench.program = bench.prefix / 'bin/capstan'
    return wheel.name


def standard_library(bench, compiler):
    """The GCC whose standard library it uses, as "12"."""
    macros = bench.run(compiler, '-std=c++20', '-x', 'c++', '-E', '-dM', '-include', 'version', '/dev/null')
    found = re.search(r'define _GLIBCXX_RELEASE (\d+)', macros)
    if not found:
        raise NotTried('it uses no standard library of a GCC')
    return found[1]


def train_plugin(bench, kind, name):
    """A run of the installed program, whose objects and exceptions pass to and from what this compiler has made."""
    folder = bench.folder / f'out/own_{kind}'
    (folder / 'build').unlink(missing_ok=True)
    (folder / 'build').symlink_to(bench.folder / name)   # where its configuration looks for it
    said = bench.run(bench.program, 'run', '-n', 2, folder / f'own_{kind}.toml', 'train.max_steps=2', f'run.dir={bench.folder}/runs/{name}')
    check_words(said, '2 ranks', 'Weights: ')


def compile_plugins(bench, made, compiler):
    if not shutil.which(compiler):
        raise NotTried('it is not installed')
    if not made:
        made.update(make_plugins(bench))
    tag = (bench.prefix / 'lib/cmake/Capstan/CapstanConfig.cmake').read_text(encoding='utf-8')
    ours, theirs, name = re.search(r' cxx=gcc(\d+)', tag)[1], standard_library(bench, compiler), f'build-{compiler}'
    if ours != theirs:
        said = bench.configure(HERE / 'project', name, f'-DCMAKE_CXX_COMPILER={compiler}', status=None)
        check_words(said, 'would refuse plugins built here', f'cxx=gcc{ours}', f'cxx=gcc{theirs}', 'Use the same compiler')
        return f"refused by name: its standard library is GCC {theirs}'s, Capstan's GCC {ours}'s"
    build_outside(bench, made, name, f'-DCMAKE_CXX_COMPILER={compiler}')
    test_outside(bench, made, name)
    for kind in KINDS_THAT_TRAIN:
        train_plugin(bench, kind, name)
    return 'eight kinds built and tested, three of them trained'


def newest_torch(bench):
    """PyPI's, without what it requires: only its version is looked at before Capstan ends."""
    folder = bench.folder / 'newest'
    bench.run('python3', '-m', 'venv', folder)
    try:
        bench.run(folder / 'bin/pip', 'install', '--quiet', '--no-deps', 'torch')
    except Failed as failure:
        raise NotTried(f'pip has no torch: {last_line(str(failure))}') from failure
    found = bench.run(folder / 'bin/python', '-c', 'from importlib.metadata import version; print(version("torch"))').strip().split('+')[0]
    bench.run(folder / 'bin/pip', 'install', '--quiet', '--no-index', '--no-deps', next(bench.folder.glob('dist/*.whl')))
    pinned = re.search(r'^torch (\S+)', (ROOT / 'tools/pins.txt').read_text(encoding='utf-8'), re.M)[1]
    if found == pinned:
        raise NotTried(f'{found} is the newest, which Capstan is built for')
    said = bench.run(folder / 'bin/capstan', '--version', status=1)
    shutil.rmtree(folder)
    check_words(said, f'this environment has torch {found}, and this Capstan was built for {pinned}', f'fix: pip install torch=={pinned}')
    return said.splitlines()[0]


def last_line(text):
    return (text.strip().splitlines() or ['it said nothing'])[-1]


@functools.cache
def container_program():
    """The first that answers, or nothing."""
    for name in ('podman', 'docker'):
        if shutil.which(name) and subprocess.run([name, 'info'], capture_output=True, check=False).returncode == 0:
            return name
    return None


def libtorch(bench):
    """Its folder, and all folders that an image has to see for it: NVIDIA's libraries may be links to a toolkit's."""
    torch = pathlib.Path(bench.torch).resolve()
    links = [file.readlink() for file in torch.parent.glob('nvidia/*/lib/*.so*') if file.is_symlink()]
    return torch, {torch.parent, *(link.parent for link in links if link.is_absolute())}


IN_IMAGE = 'ldd --version 2>&1 | head -1; cp -r {tree} /tmp/capstan && /tmp/capstan/use-torch {torch} && /tmp/capstan/bin/capstan --version && ' \
    '/tmp/capstan/bin/capstan run -n 2 /tmp/capstan/share/capstan/configs/quickstart.toml train.max_steps=2 train.micro_batch=1 ' \
    'train.global_batch=2 train.generate_samples=0 train.generate_train_samples=0 run.dir=/tmp/runs'


def in_container(program, image, folders, command):
    """How that ended, in an image."""
    got = subprocess.run([program, 'pull', '--quiet', image], capture_output=True, text=True, check=False)
    if got.returncode != 0 and subprocess.run([program, 'image', 'inspect', image], capture_output=True, check=False).returncode != 0:
        raise NotTried(f'{program} cannot pull {image}: {last_line(got.stderr)}')
    mounted = [word for folder in folders for word in ('-v', f'{folder.resolve()}:{folder}:ro')]
    done = subprocess.run([program, 'run', '--rm', '--network', 'none', *mounted, image, 'sh', '-c', command],
                          capture_output=True, text=True, check=False)
    if done.returncode == 125:   # the program's own failure, not that of what it ran
        raise NotTried(f'{program} cannot run {image}: {last_line(done.stderr)}')
    return done


IN_ROOT = 'set -e; root=$1; shift; for each in /proc /dev "$@"; do mkdir -p "$root$each"; mount --rbind "$(realpath "$each")" "$root$each"; done; ' \
    'exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root sh -c "$COMMAND"'


def in_unpacked(bench, image, folders, command):
    """The same in the system's smallest set of packages, unpacked here, with mounts of its own."""
    lacking = [name for name in ('debootstrap', 'unshare') if not shutil.which(name)]
    if lacking or os.geteuid() != 0:
        raise NotTried(f'neither podman nor docker answers, and {lacking[0] + " is not installed" if lacking else "debootstrap wants root"}')
    if image not in UNPACKED:
        raise NotTried('neither podman nor docker answers, and debootstrap does not know this system')
    suite, keys, steps = UNPACKED[image]
    signers = pathlib.Path('/usr/share/keyrings', f'{keys}.gpg')
    if not signers.exists():
        raise NotTried(f'neither podman nor docker answers, and {signers} is not there, by which debootstrap checks packages')
    root = bench.folder / 'systems' / suite
    bench.run('debootstrap', '--variant=minbase', f'--keyring={signers}', suite, root, '', f'/usr/share/debootstrap/scripts/{steps}')
    done = subprocess.run(['unshare', '--mount', 'sh', '-c', IN_ROOT, 'sh', root, *folders], capture_output=True, text=True, check=False,
                          env={**os.environ, 'COMMAND': command})
    shutil.rmtree(root)
    return done


def in_image(bench, image):
    """The archive as it is unpacked, in a system in which nothing is installed."""
    archive = next(bench.folder.glob('dist/*.tar.zst'))
    tree, (torch, folders) = unpack(bench, archive), libtorch(bench)
    folders, command = sorted({tree, *folders}), IN_IMAGE.format(tree=tree, torch=torch)
    program = container_program()
    done = in_container(program, image, folders, command) if program else in_unpacked(bench, image, folders, command)
    said = done.stdout + done.stderr
    version = re.search(r'^ldd .*?(\d+)\.(\d+)$', done.stdout, re.M)
    check(version, f'{image} did not run, and ended with {done.returncode}:\n{said}')
    glibc = tuple(map(int, version.groups()))
    needed = tuple(map(int, re.search(r'manylinux_(\d+)_(\d+)', next(bench.folder.glob('dist/*.whl')).name).groups()))
    if glibc < needed:
        check(done.returncode != 0 and re.search(r"version `GLIBC(XX)?_[\d.]+' not found", said), f'{image} has glibc {glibc}, and Capstan ran or failed otherwise:\n{said}')
        return f'refused by the loader: glibc {glibc[0]}.{glibc[1]} is older than {needed[0]}.{needed[1]}'
    check_words(said, 'Capstan uses torch', '2 ranks', 'Weights: ')
    return f'glibc {glibc[0]}.{glibc[1]}: two steps on two ranks, in {"an image" if program else "a tree"} without any other package'


def apptainer_image(bench):
    """The recipe that comes with the archive, by its own test."""
    if not shutil.which('apptainer'):
        raise NotTried('apptainer is not installed')
    wheel = next(bench.folder.glob('dist/*.whl'))
    bench.run('apptainer', 'build', '--build-arg', f'wheel={wheel}', bench.folder / 'capstan.sif', ROOT / 'tools/packages/capstan.def')
    return bench.run('apptainer', 'run', bench.folder / 'capstan.sif', '--version').strip()


def stages():
    made = {}
    return [('the wheel', install),
            *((compiler, lambda bench, compiler=compiler: compile_plugins(bench, made, compiler)) for compiler in COMPILERS),
            ('the newest torch on PyPI', newest_torch),
            *((image, lambda bench, image=image: in_image(bench, image)) for image in IMAGES),
            ("apptainer's recipe", apptainer_image),
            ('aarch64', aarch64)]
