"""What tools/test starts: a command with its verdict, and how a program of many cases is cut into pieces that run at once.

A program that dies before its last case has the verdicts of the others all the same: those that had not ended run again in
processes of their own, without the one that it died in.
"""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77                                     # what a test ends with where it cannot run, and says why
HANG_S = 900                                     # no test case takes this long unless it hangs
# What a program says of cases that it leaves out because the machine lacks something.
LEFT_OUT = re.compile(r'^ *(?:skipped: (.+)|not tested: (.+)|(.+): nothing tested)$', re.MULTILINE)
CASE_ENDED = re.compile(r'^\d+\.\d+ s: (.*)\n', re.MULTILINE)   # what Catch says with -d yes
CASES = re.compile(r'(?:in |^test cases: +)(\d+)(?: test cases?\)| \|)', re.MULTILINE)
CAUGHT = 'fatal error condition'                 # what Catch2 says of a signal that it could catch
MOST_DEATHS = 20                                 # of one program, whose other cases are given up then


class Run:
    """One command of the suite, and what it takes to repeat it. It hangs when nothing is heard of it for limit_s."""

    def __init__(self, name, command, limit_s=HANG_S, environment=None, is_catch=True):
        self.name, self.command, self.limit_s, self.environment, self.is_catch = name, command, limit_s, environment or {}, is_catch
        self.begun, self.passed, self.skipped, self.output = False, False, False, ''
        self.seconds, self.processor_s = 0.0, 0.0          # elapsed; and what it and all that it waited for computed
        self.ended, self.died, self.cases = [], '', None   # cases: how many there must be, where that is known

    def __call__(self):
        start = time.monotonic()
        self.begun = True
        self.passed, self.skipped = self.start(self.command)
        if self.is_catch and self.died:
            self.without_the_dead()
        ran = CASES.search(self.output)
        if self.passed and self.cases is not None and int(ran[1] if ran else 0) != self.cases:
            self.passed, self.output = False, f'{self.output}\nnot all of its {self.cases} cases ran\n'
        self.seconds = time.monotonic() - start
        return self

    def start(self, command):
        """Runs the command, adds to the output, and returns whether it passed and whether it was skipped."""
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen([*command, *(('-d', 'yes') if self.is_catch else ())], cwd=ROOT, stdout=output,
                                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment})
            except OSError:
                self.output += f'{command[0]} is not there'
                return False, False
            hangs = not self.wait(process, output)
            output.seek(0)
            said = output.read().decode(errors='replace')
        if hangs:
            said += f'\nsilent for {self.limit_s} s: stopped\n'
        elif process.returncode < 0:
            said += f'\nended by signal {-process.returncode}\n'
        self.ended = CASE_ENDED.findall(said)
        stopped = process.returncode == -signal.SIGINT   # by who waits for the tests: no other case is to run then
        self.died = '' if (process.returncode >= 0 or stopped) and not hangs else 'seen' if CAUGHT in said else 'unseen'
        self.output += said if hangs else CASE_ENDED.sub('', said)
        return process.returncode in (0, SKIPPED), process.returncode == SKIPPED

    def wait(self, process, output):
        """False: nothing came for limit_s, and the process was killed."""
        size, heard, hangs = 0, time.monotonic(), False
        while True:
            ended, status, used = os.wait4(process.pid, 0 if hangs else os.WNOHANG)
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.processor_s += used.ru_utime + used.ru_stime
                return not hangs
            time.sleep(0.1)
            if (now := os.fstat(output.fileno()).st_size) != size:
                size, heard = now, time.monotonic()
            elif time.monotonic() - heard > self.limit_s:
                os.kill(process.pid, signal.SIGKILL)   # process.kill() may reap it, and wait4 would find none
                hangs = True

    def without_the_dead(self):
        """Runs the cases after the one that the program died in, until all have a verdict."""
        left = cases_of(self.command)
        for _ in range(MOST_DEATHS):
            ended = [name for name in self.ended if name in left]
            left = [name for name in left if name not in ended]
            in_last = self.died == 'seen' and ended   # Catch2 says then that the case has ended
            self.output += f'\nit died in: {ended[-1] if in_last else left.pop(0) if left else "its end"}\n'
            if not left:
                return
            with tempfile.NamedTemporaryFile('w', suffix='.cases') as file:
                write_cases(file.name, left)
                self.start([*program_of(self.command), '-f', file.name])
            if not self.died:
                return

    def left_out(self):
        """Why not all was tested -> how often that was said. Only of a program that passed."""
        if self.skipped:
            return {self.summary(): 1}
        counts = {}
        for words in LEFT_OUT.findall(self.output) if self.passed else ():
            reason = ''.join(words)
            counts[reason] = counts.get(reason, 0) + 1
        return counts

    def summary(self):
        if self.skipped:
            return self.output.strip().splitlines()[-1] if self.output.strip() else 'skipped'
        found = re.search(r'\(([\d,]+ assertions? in [\d,]+ test cases?)\)', self.output)
        return found.group(1) if found else ('nothing to run' if 'No test cases matched' in self.output else '')


def program_of(command):
    """A command without what chooses cases: that comes after the program's file."""
    last = max((place for place, part in enumerate(command) if isinstance(part, pathlib.Path)), default=0)
    return command[:last + 1]


def cases_of(command):
    """The names of the cases that a command of Catch2 2 runs, in its order. Its exit status is their number."""
    listed = subprocess.run([*command, '--list-test-names-only'], cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    return [name[1:-1] if name.startswith('"#') else name for name in listed if name]


def write_cases(file, names):
    """For -f. Between its quotes Catch2 2 takes a comma for an end, [ for a tag and a quote for the end of both."""
    lines = ['"' + re.sub(r'([\\,["])', r'\\\1', name) + '"\n' for name in names]
    pathlib.Path(file).write_text(''.join(lines), encoding='utf-8')


def pieces(run, count):
    """The run as several ones of every count-th case each: neighbours take about as long as each other. Their names are kept
    next to the program, so that what is said of a failed piece can be repeated."""
    names = cases_of(run.command)
    if len(names) < count:
        return [run]
    program, made = program_of(run.command), []
    for number in range(count):
        file = program[-1].with_name(f'{program[-1].name}.{number + 1}.cases')
        own = names[number::count]
        write_cases(file, own)
        made.append(Run(f'{run.name} {number + 1}/{count}', [*program, '-f', str(file.relative_to(ROOT))], run.limit_s, run.environment))
        made[-1].cases = len(own)
    return made
