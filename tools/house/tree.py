"""What the rules look at: the tree's files, the room tables, the allow-list."""
import fnmatch
import pathlib
import re
import subprocess

from . import cxx

CXX = ('.cc', '.h', '.cu', '.cuh')
DOCUMENTS = ('README.md', 'docs/*.md')


class Finding:
    def __init__(self, path, line, what, rule, fix):
        self.path, self.line, self.what, self.rule, self.fix = path, line, what, rule, fix

    def __str__(self):
        where = f'{self.path}:{self.line}' if self.line else self.path
        return f'{where}: {self.what} ({self.rule})\n    {self.fix}'


ROOM_TABLES = {'host': 'docs/host.md', 'engine': 'docs/engine.md'}   # a storey's


class Rooms:
    """The room tables of docs/host.md and docs/engine.md: | room | holds | may include |, below the heading "The rooms".

    "nn (layout)" is the room nn, which has the SDK folders nn and layout. The host's rooms, and the engine's above a row
    with "above this line", know no LibTorch.
    """

    def __init__(self, texts):
        self.allowed, self.plain, self.storey, self.folders = {}, set(), {}, {}
        for storey, text in texts.items():
            self._read(storey, text)

    def _read(self, storey, text):
        in_table, above, before = False, storey == 'engine', len(self.allowed)
        for line in text.splitlines():
            if line.startswith('#'):
                in_table = re.fullmatch(r'#+ The rooms', line) is not None
            row = re.fullmatch(r'\| ([a-z_]+)(?: \(([a-z ]+)\))? \|[^|]*\|([^|]*)\|\s*', line) if in_table else None
            if in_table and 'above this line' in line:
                above, self.plain = False, set(self.allowed)
            if not row or row.group(1) == 'room':
                continue
            room = row.group(1)
            self.allowed[room] = {*row.group(3).split(), room, 'base'}
            self.storey[room] = storey
            self.folders |= {folder: room for folder in (room, *(row.group(2) or '').split())}
        if above or len(self.allowed) == before:
            line = ' and one row with "above this line"' if storey == 'engine' else ''
            raise SystemExit(f'check-house: {ROOM_TABLES[storey]} has no room table (the heading "The rooms", '
                             f'| room | holds | may include | rows{line})')

    def table_of(self, room):
        """The document that has the room's row."""
        return ROOM_TABLES[self.storey[room]]


class Allowed:
    """tools/house-allow.txt: "path what reason" a line; every line must be needed."""
    PATH = 'tools/house-allow.txt'

    def __init__(self, text):
        self.lines, self.used, self.faults = {}, set(), []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith('#'):
                continue
            words = line.split(None, 2)
            if len(words) < 3:
                self.faults.append(Finding(self.PATH, number, f'"{line}" gives no reason', 'allow-list',
                                           'write: path, then the function or rule, then why'))
            else:
                self.lines[words[0], words[1]] = number

    def covers(self, path, what):
        if (path, what) not in self.lines:
            return False
        self.used.add((path, what))
        return True

    def stale(self):
        return [Finding(self.PATH, number, f'{path} {what} is not needed any more', 'allow-list', 'remove the line')
                for (path, what), number in self.lines.items() if (path, what) not in self.used]


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = self._files()
        self.rooms = Rooms({storey: self.text(path) for storey, path in ROOM_TABLES.items()})
        self.allowed = Allowed(self.text(Allowed.PATH) if (self.root / Allowed.PATH).exists() else '')
        self.sources = [cxx.Source(path, self.text(path)) for path in self.files
                        if path.endswith(CXX) and path.startswith(('core/', 'plugins/', 'models/', 'tests/'))]
        self.documents = [path for path in self.files if any(fnmatch.fnmatch(path, each) for each in DOCUMENTS)]

    def text(self, path):
        return (self.root / path).read_text(encoding='utf-8')

    def _files(self):
        """Tracked and new files that git does not ignore; everything where there is no git."""
        git = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                             cwd=self.root, capture_output=True, text=True, check=False)
        if git.returncode == 0:
            names = git.stdout.split('\0')
        else:
            names = [str(path.relative_to(self.root)) for path in self.root.rglob('*')]
        return sorted(name for name in set(names) if name and (self.root / name).is_file())


def room_of(path, rooms=None):
    """The room of a file of core, or None. `rooms` knows which SDK folders a room has besides that of its name."""
    match = re.match(r'core/(include/capstan|host|engine)/([a-z]+)/|core/(testing|kernels|gpus|peers|checkpoint_files|hf_config|hf|predict|diagnosis|resume|frozen|generation|session|step_time|arguments|json|data)/', path)
    if not match:
        return None
    folder = match.group(2) or match.group(3)
    return rooms.folders.get(folder, folder) if rooms and match.group(1) == 'include/capstan' else folder
