"""Another processor: Capstan compiled and linked for aarch64 on this machine, with torch's wheel for it.

Debian's cross compiler, Debian's packages for arm64 unpacked in a folder, PyPI's torch: everything that is installed is
built, and where an emulator is installed too, two steps are trained by what was built. What a machine lacks is the reason
for which it is not tried.
"""
import re
import shutil

from bench import ROOT, NotTried, check, check_words

COMPILER = 'aarch64-linux-gnu-g++-12'
EMULATOR = 'qemu-aarch64-static'
PLATFORMS = [word for glibc in ('2_28', '2_27', '2_25', '2_17') for word in ('--platform', f'manylinux_{glibc}_aarch64')] + ['--platform', 'manylinux2014_aarch64']
APT = '''APT::Architecture "arm64"; APT::Architectures {{ "arm64"; }}; APT::Install-Recommends "false"; APT::Sandbox::User "root";
Debug::NoLocking "true"; Dir::State::Lists "{0}/lists"; Dir::State::status "{0}/status"; Dir::Cache "{0}/cache";
'''
TOOLCHAIN = '''set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT "{root}")
set(CMAKE_FIND_ROOT_PATH "{root}" "{site}/torch")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,{site}/nvidia/cu13/lib")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,{site}/nvidia/cu13/lib")
'''


def debian_root(bench, folder):
    """The libraries that tools/setup installs here, as Debian has them for arm64."""
    listed = re.search(r'^PACKAGES=\((.*?)\)', (ROOT / 'tools/setup').read_text(encoding='utf-8'), re.M | re.S)[1].split()
    libraries = [name for name in listed if name.startswith('lib') or name in ('catch2', 'nlohmann-json3-dev')]
    state, root = folder / 'apt', folder / 'root'
    for made in (state / 'lists/partial', state / 'cache/archives/partial', root):
        made.mkdir(parents=True)
    (state / 'status').touch()
    (folder / 'apt.conf').write_text(APT.format(state), encoding='utf-8')
    bench.run('apt-get', 'update', '-qq', APT_CONFIG=str(folder / 'apt.conf'))
    bench.run('apt-get', 'install', '-y', '-qq', '--download-only', *libraries, 'libc6-dev', 'libstdc++-12-dev', APT_CONFIG=str(folder / 'apt.conf'))
    for package in sorted(state.glob('cache/archives/*.deb')):
        bench.run('dpkg', '-x', package, root)
    shutil.rmtree(state)
    return root


def torch_wheels(bench, folder):
    """torch, and of NVIDIA's wheels what each machine needs."""
    pins = (ROOT / 'tools/pins.txt').read_text(encoding='utf-8')
    wanted = ['torch==' + re.search(r'^torch (\S+)', pins, re.M)[1]]
    wanted += [f'{name}=={version}' for name, version in re.findall(r'^nvidia (\S+) (\S+) \S+ \S+ cpu ', pins, re.M)]
    python = ROOT / '.deps/venv-release/bin/python'
    bench.run(python, '-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:', '--python-version', '311', *PLATFORMS,
              '--dest', folder / 'wheels', *wanted)
    for wheel in folder.glob('wheels/*.whl'):
        shutil.unpack_archive(wheel, folder / 'site', 'zip')
    shutil.rmtree(folder / 'wheels')
    return folder / 'site'


def emulated(bench, folder, root, site):
    """Two steps on one rank, whose every instruction is an emulator's."""
    if not shutil.which(EMULATOR):
        return f'linked; not run: {EMULATOR} is not installed'
    libraries = ':'.join(map(str, (site / 'torch/lib', site / 'nvidia/cu13/lib')))
    said = bench.run(EMULATOR, '-L', root, '-E', f'LD_LIBRARY_PATH={libraries}', folder / 'build/bin/capstan', 'run', ROOT / 'configs/quickstart.toml',
                     'train.max_steps=2', 'train.generate_samples=0', 'train.generate_train_samples=0', f'run.dir={folder}/runs')
    check_words(said, 'Weights: ')
    return f'linked, and two steps trained by {EMULATOR}'


def aarch64(bench):
    for needed in (COMPILER, 'apt-get', 'dpkg'):
        if not shutil.which(needed):
            raise NotTried(f'{needed} is not installed')
    folder = bench.folder / 'aarch64'
    folder.mkdir()
    root, site = debian_root(bench, folder), torch_wheels(bench, folder)
    (folder / 'toolchain.cmake').write_text(TOOLCHAIN.format(root=root, site=site), encoding='utf-8')
    bench.run('cmake', '-G', 'Ninja', '-S', ROOT, '-B', folder / 'build', f'-DCMAKE_TOOLCHAIN_FILE={folder}/toolchain.cmake',
              f'-DTorch_ROOT={site}/torch', '-DCMAKE_BUILD_TYPE=RelWithDebInfo')
    bench.ninja('aarch64/build', 'installable')
    made = [folder / 'build/bin/capstan', *folder.glob('build/lib/**/*.so')]
    for file in made:
        check('AArch64' in bench.run('readelf', '-h', file), f'{file} is not for aarch64')
    said = emulated(bench, folder, root, site)
    return f'{len(made)} files {said}'
