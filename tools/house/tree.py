"""What the rules look at: the tree's files, the room table, the allow-list."""
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


class Rooms:
    """The room tables of docs/architecture.md: | room | holds | may include |, in the storey of the heading above.

    "nn (layout)" is the room nn, which has the SDK folders nn and layout. The host's rooms, and those above a row with
    "above this line", know no LibTorch.
    """

    def __init__(self, text):
        self.allowed, self.plain, self.storey, self.folders = {}, set(), {}, {}
        storey, above = None, True
        for line in text.splitlines():
            heading = re.match(r'#+ The (host|engine)\b', line)
            storey = heading.group(1) if heading else None if line.startswith('#') else storey
            if 'above this line' in line:
                above, self.plain = False, set(self.allowed)
            row = re.fullmatch(r'\| ([a-z]+)(?: \(([a-z ]+)\))? \|[^|]*\|([^|]*)\|\s*', line)
            if not row or row.group(1) == 'room':
                continue
            room = row.group(1)
            self.allowed[room] = {*row.group(3).split(), room, 'base'}
            self.storey[room] = storey
            self.folders |= {folder: room for folder in (room, *(row.group(2) or '').split())}
        if above or not self.allowed:
            raise SystemExit('check-house: docs/architecture.md has no room tables (headings "The host", "The engine", '
                             '| room | holds | may include | rows and one row with "above this line")')


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
        self.rooms = Rooms(self.text('docs/architecture.md'))
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
    match = re.match(r'core/(include/capstan|host|engine)/([a-z]+)/|core/(testing)/', path)
    if not match:
        return None
    folder = match.group(2) or match.group(3)
    return rooms.folders.get(folder, folder) if rooms and match.group(1) == 'include/capstan' else folder
