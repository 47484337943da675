"""What the checks of tests/system/sdk share: a folder to work in, and commands whose ending is checked."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


class Failed(Exception):
    """A check that did not hold; its text says which and what was seen."""


class NotTried(Exception):
    """What this machine lacks for a check."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def check_words(output, *words):
    """Every word stands in what was printed, whose line breaks mean nothing."""
    flat = ' '.join(output.split())
    for word in words:
        check(word in flat, f'"{word}" is not in:\n{output}')


class Bench:
    """The folder that all of it happens in, and commands run there."""

    def __init__(self, build, whole=False):
        self.build, self.whole = build, whole   # whole: also what is too long for every commit
        self.folder = build / 'tests' / 'sdk'
        self.prefix = self.folder / 'moved' / 'capstan'
        self.program = self.prefix / 'bin' / 'capstan'
        cache = (build / 'CMakeCache.txt').read_text(encoding='utf-8')
        self.cuda = 'CAPSTAN_CUDA:BOOL=ON' in cache
        self.torch = re.search(r'^Torch_ROOT:\w+=(.*)$', cache, re.M).group(1) or str(ROOT / '.deps' / 'torch')
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith('CAPSTAN_') and key != 'Torch_ROOT'}
        self.environment['HOME'] = str(self.folder / 'home')
        launcher = [] if whole else [str(HERE / 'once'), str(self.folder / 'once')]
        if shutil.which('ccache'):   # the same folder each time: what did not change comes from the cache
            launcher.append('ccache')
            self.environment['CCACHE_SLOPPINESS'] = 'pch_defines,time_macros'   # what it needs for precompiled headers
            self.environment.setdefault('CCACHE_DIR', subprocess.run(['ccache', '-k', 'cache_dir'], capture_output=True, text=True, check=True).stdout.strip())
        if launcher:
            self.environment['CMAKE_CXX_COMPILER_LAUNCHER'] = ';'.join(launcher)

    def ended(self, *command, cwd=None, **environment):
        """(status, output) of a command. What it took is in commands.log, from which one sees what is dear."""
        words, start = [str(part) for part in command], time.monotonic()
        with subprocess.Popen(words, cwd=cwd or self.folder, text=True, errors='replace', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**self.environment, **environment}) as process:
            output = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        with (self.folder / 'commands.log').open('a', encoding='utf-8') as log:
            log.write(f'{used.ru_utime + used.ru_stime:7.2f} of a processor {time.monotonic() - start:7.2f} s  {" ".join(words)[:400]!r}\n')
        return process.returncode, output

    def run(self, *command, status=0, cwd=None, **environment):
        """Output of a command that has to end with this status; None: anything but 0."""
        ended, output = self.ended(*command, cwd=cwd, **environment)
        check(ended != 0 if status is None else ended == status, f'{" ".join(map(str, command))}\nended with {ended}:\n{output}')
        return output

    def configure(self, source, name, *options, status=0, **environment):
        return self.run('cmake', '-G', 'Ninja', '-S', source, '-B', self.folder / name, f'-DCapstan_ROOT={self.prefix}', *options,
                        status=status, **environment)

    def ninja(self, name, *targets):
        return self.run('ninja', '-C', self.folder / name, '-j', build_jobs(), *targets)


def plain(command):
    """The words of a command of compile_commands.json from the compiler to the output: without a cache before it."""
    words = shlex.split(command)
    compiler = next(place for place, word in enumerate(words) if re.search(r'(^|/)(c\+\+|g\+\+|clang\+\+)[-\d.]*$', word))
    return words[compiler:words.index('-o')]


def processor_s():
    """What this process has computed until now, and all that it waited for."""
    return sum(os.times()[:4])


def build_jobs():
    """As many compilers as cores, but each may take 1.5 GB."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return max(1, min(os.cpu_count() or 1, int(memory // 1.5e9)))
