"""One function a rule: takes the tree, yields findings."""
import re

from . import limits
from .cxx import Walk, mutable_static
from .tree import ROOM_TABLES, Finding, room_of
from .walks import walks
from .words import member_comments, names, plain_words

FILE_LINES, FUNCTION_LINES, BRANCHES, PARAMETERS, MEMBERS = 350, 40, 12, 6, 15
OTHER_FILE_LINES, OTHER_FUNCTION_LINES = 400, 60   # tests and scripts
ROOMS, ROOM_LINES = 12, 5000                      # a storey's rooms, a room's lines without SDK headers
# With SDK headers and kernels, and without tests. The engine's aim is 35,000: this number only falls.
STOREY_LINES = {'host': 12000, 'engine': 34340}
# Libraries of their own, which are of no storey.
LIBRARY_LINES = {'testing': ROOM_LINES, 'kernels': 2400, 'gpus': 500, 'peers': 3600, 'checkpoint_files': 500, 'hf': 2400, 'hf_config': 1300, 'step_time': 1000, 'predict': 3300, 'diagnosis': 700, 'resume': 800, 'frozen': 300, 'generation': 1000, 'session': 500, 'arguments': 300, 'json': 1000, 'data': 2000}
OR_A_REASON = ', or a line with the reason in tools/house-allow.txt'
LIBTORCH = re.compile(r'(ATen|c10|torch|caffe2)/')
GPU = re.compile(r'cuda[\w.]*\.h|cublas\w*\.h|cudnn\w*\.h|cufft\w*\.h|cupti\w*\.h|nccl\w*\.h|nvml\w*\.h|nvtx3?/|cub/|thrust/|'
                 r'(c10|ATen)/cuda/|torch/csrc/cuda/|torch/csrc/distributed/c10d/(ProcessGroupNCCL|NCCLUtils|cuda/)')
# Libraries that cost each file seconds: one file includes them, and its unit's tests may compare with them.
DOORS = {'CLI/': ('core/arguments/arguments.cc', 'declare arguments with capstan/command/arguments.h'),
         'nlohmann/': ('core/json/parse.cc', 'tests/unit/json/', 'tools/bench/', 'read and write JSON with capstan/base/json.h')}
UMBRELLAS = ('model', 'strategy', 'optimizer', 'objective', 'data', 'tokenizer', 'monitor', 'command', 'testing')


def include_rules(tree):
    for source in tree.sources:
        for line, header, _ in source.includes:
            for what, rule, fix in _include_faults(tree, source.path, header):
                yield Finding(source.path, line, f'includes {header}: {what}', rule, fix)


def _include_faults(tree, path, header):
    room = room_of(path, tree.rooms)
    if room in tree.rooms.allowed:
        yield from _room_faults(tree, room, header)
    of_kernels = path.endswith('.cuh') and GPU.match(header)
    if path.startswith('core/include/') and not of_kernels and not re.match(r'capstan/|c10/|ATen/core/|[a-z_]+$', header):
        yield ('a header of core/include may include only the standard library, c10, ATen/core and capstan, and CUDA if it is a .cuh',
               'public headers', 'keep the type behind a forward declaration and include it in the .cc file')
    if path.startswith(('plugins/', 'models/')):
        first = header.split('/')[0]
        if '../' in header or first == 'core' or (first in tree.rooms.folders and '/' in header):
            yield ('plugins see only the SDK', 'plugin fence', 'include a <capstan/…> header, or move what is needed into one')
    if GPU.match(header) and not path.endswith(('.cu', '.cuh', '_cuda.cc')):
        yield ('CUDA, NCCL and NVML are for *.cu and *_cuda.cc', 'gpu fence',
               'move the code into a *_cuda.cc file next to its plain reference')
    for library, (*may, fix) in DOORS.items():
        if header.startswith(library) and not path.startswith(tuple(may)):
            yield f'only {may[0]} includes {library}', 'one door', fix
    if header in ('torch/torch.h', 'torch/all.h') and path.endswith(('.h', '.cuh')):
        yield ('it costs every user of the header 14 s and 1.2 GB', 'torch/torch.h', 'include the ATen or autograd header that is needed')


def _room_faults(tree, room, header):
    if room in tree.rooms.plain and LIBTORCH.match(header):
        yield (f'room {room} stands above the line and knows no LibTorch', 'the line', 'move the code to a room below the line')
    parts = header.removeprefix('capstan/').split('/')
    umbrella = header.startswith('capstan/') and len(parts) == 1 and parts[0].removesuffix('.h') in UMBRELLAS
    if umbrella and 'strategy' not in tree.rooms.allowed[room]:
        yield (f'room {room} may not include an umbrella header', 'room table', 'include the one header that is needed')
    target = tree.rooms.folders.get(parts[0], parts[0]) if len(parts) > 1 else None
    if target in tree.rooms.allowed and target not in tree.rooms.allowed[room]:
        yield (f'room {room} may not include room {target}', 'room table',
               f'{tree.rooms.table_of(room)} lets {room} include: {" ".join(sorted(tree.rooms.allowed[room] - {room}))}')


def unknown_rooms(tree):
    seen = set()
    for source in tree.sources:
        room = room_of(source.path, tree.rooms)
        if not room or room in seen:
            continue
        seen.add(room)
        storey = source.path.split('/')[1]
        if room not in tree.rooms.allowed:
            yield Finding(source.path, 0, f'room {room} is not in the table', 'room table',
                          f'add its row to {ROOM_TABLES.get(storey, ROOM_TABLES["engine"])}')
        elif storey in STOREY_LINES and storey != tree.rooms.storey[room]:
            yield Finding(source.path, 0, f'room {room} stands in the table of the {tree.rooms.storey[room]}', 'room table', 'move its folder, or its row')


def rooms_in_order(tree):
    """A room's row lists rooms above it, so that no circle can be. Libraries beside the storeys are seen by their doors."""
    order = [room for room in tree.rooms.allowed if room not in LIBRARY_LINES]
    for at, room in enumerate(order):
        for below in sorted((tree.rooms.allowed[room] - {'base'}) & set(order[at + 1:])):
            yield Finding(tree.rooms.table_of(room), 0, f'room {room} includes room {below}, which stands below it', 'room table',
                          'move what it needs up, or what needs it down')


# SDK headers keep their namespaces, which these rooms have besides their own to define what such headers declare;
# hf_config is a part of the library hf, checkpoint_files of the room checkpoint, compiled without the engine in sight.
OF_SDK = {'nn': {'layout'}, 'strategy': {'optimizer', 'objective'}, 'record': {'checkpoint'}, 'step_time': {'plan'}, 'step': {'execution'}, 'hf_config': {'hf'}, 'checkpoint_files': {'checkpoint'},
          'arguments': {'command'}, 'base': {'log', 'terminal'}}
OPENS = re.compile(r'\bnamespace\s+([\w:]+)\s*\{([^{}]*)\}?')
FORWARD = re.compile(r'(?:\s*(?:class|struct)\s+\w+\s*;)+\s*')


def namespaces(tree):
    """A room's namespace is its name. Others may be opened to announce their types."""
    for source in tree.sources:
        room = room_of(source.path, tree.rooms)
        if not room or source.path.startswith('core/include/') or '/gloo_shim/' in source.path:
            continue
        for line, match in source.find(OPENS):
            name = match.group(1).removeprefix('capstan').removeprefix('::').split('::')[0]
            if name in ('', room, *OF_SDK.get(room, ())) or FORWARD.fullmatch(match.group(2)):
                continue
            if not tree.allowed.covers(source.path, 'namespace'):
                yield Finding(source.path, line, f'opens the namespace {name} in room {room}', 'namespaces',
                              f'{room}, or move the file; if it defines what an SDK header declares, a line in {tree.allowed.PATH}')


ENVIRONMENT = re.compile(r'(?<![\w.>])(?:std::|::)?(?:secure_)?getenv\s*\(|(?<![\w.>])environ\b')
EXIT = re.compile(r'(?<![\w.>:])(?:std::|::)?(?:_exit|exit|quick_exit|_Exit)\s*\(|\bstd::(?:abort|terminate)\s*\(')
PRINT = re.compile(r'\bstd::(?:cout|cerr|clog|print|println|puts|printf|fputs|fprintf)\b|(?<![\w.>:])(?:printf|puts|putchar|perror)\s*\(|'
                   r'(?<![\w.>:])(?:fprintf|fputs|fwrite)\s*\([^;]*\bstd(?:out|err)\b|\bfmt::print')
THREAD_LOCAL = re.compile(r'\bthread_local\b')
THROWS_RAW = re.compile(r'\b(?:std::filesystem|fs)::(?:exists|is_directory|is_regular_file|is_empty)\s*\((?:[^(),]|\([^()]*\))*\)')


MAY_SPEAK = ('launch', 'cli', 'ranks')
PRINTS = 'core/host/base/terminal.cc'  # makes what is printed harmless to a terminal


def below_launch(tree):
    """No environment, exit or printing in libraries. A monitor's job is to print."""
    for source in tree.sources:
        in_core = source.path.startswith('core/') and room_of(source.path, tree.rooms) not in MAY_SPEAK
        in_plugin = source.path.startswith(('plugins/', 'models/'))
        checks = [(ENVIRONMENT, 'reads the environment', 'environment', 'let launch or cli read it and pass the value down'),
                  (THROWS_RAW, 'asks the file system without an error code', 'files',
                   'capstan/base/paths.h says what an errno means: is_there, is_file, is_folder, entries_of'),
                  (EXIT, 'ends the process', 'exit', 'throw capstan::Error; only the executable ends the process')]
        if in_core:
            checks.append((PRINT, 'prints', 'printing', 'use capstan::log, or return the text to cli'))
        elif source.path.startswith('core/') and source.path != PRINTS:
            checks = [(PRINT, 'prints by itself', 'printing', f'print with capstan/base/terminal.h: only {PRINTS} writes to the terminal')]
        elif not in_plugin:
            continue
        for pattern, what, rule, fix in checks:
            for line, _ in source.find(pattern):
                if not tree.allowed.covers(source.path, rule):
                    yield Finding(source.path, line, what, rule, fix)


FORMATS = ('peft', 'bitsandbytes', 'deepspeed')    # other programs', which plugins read and write
ORDINARY = ('recompute', 'zero')                   # strategies whose names core needs as words
LITERAL = re.compile(r'//.*|"((?:[^"\\\n]|\\.)*)"')       # or a comment
OPTION_OF_A_PLUGIN = re.compile(r'\bstrategy\.[a-z_]+\.')


def _names_of_plugins(tree):
    """Strategies, models and formats. The names of the other kinds are ordinary words: data, console, report."""
    folders = {match.group(1) for path in tree.files if (match := re.match(r'(?:plugins/strategies|models)/([^/]+)/[^/]+$', path))}
    return '|'.join([*sorted(folders - {*ORDINARY}), *FORMATS])


def _words_of(identifier):
    return re.sub(r'([a-z0-9])([A-Z])', r'\1_\2', identifier).lower()


def plugin_names(tree):
    """Core names no strategy, model or format plugin in a literal, an identifier or a file's name."""
    names = _names_of_plugins(tree)
    part, word = re.compile(rf'(?:^|_)({names})(?:_|$)'), re.compile(rf'(?<![a-z0-9])({names})(?![a-z0-9])')
    for source in tree.sources:
        if not re.match(r'core/(?:host|engine|include)/', source.path):
            continue
        found = [(0, 'its name', part.search(_words_of(source.path.split('/')[-1].split('.')[0])))]
        for number, (line, code) in enumerate(zip(source.text.split('\n'), source.code.split('\n')), 1):
            if not line.lstrip().startswith('#include'):
                found += [(number, literal, word.search(literal.lower()) or OPTION_OF_A_PLUGIN.search(literal))
                          for literal in LITERAL.findall(line)]
                found += [(number, identifier, part.search(_words_of(identifier))) for identifier in re.findall(r'[A-Za-z_]\w*', code)]
        for number, what, match in found:
            if match:
                yield Finding(source.path, number, f'names a plugin: {match.group(0).strip("_")} in {what}', 'plugin names',
                              'let the plugin say it: an option struct, a record, an adapter, a hint')


def statics(tree):
    """No thread_local, no mutable statics in core, but in the plugin registry and the logger."""
    fix = 'make it a member, or pass it in'
    for source in tree.sources:
        path = source.path
        if not path.startswith('core/') or path.startswith(('core/host/plugin/', 'core/include/capstan/plugin/')) or path == 'core/host/base/log.cc':
            continue
        found = [(line, 'has a thread_local') for line, _ in source.find(THREAD_LOCAL)]
        found += [(line, 'has a mutable static') for text, line, scope in Walk(source).statements
                  if 'thread_local' not in text and mutable_static(text, scope)]
        for line, what in found:
            if not tree.allowed.covers(path, 'static'):
                yield Finding(path, line, what, 'statics', fix)


def _limited(source):
    """Code that runs for users; a test's length is its cases'."""
    return source.path.startswith(('core/', 'plugins/', 'models/'))


def lengths(tree):
    scripts = [(path, tree.text(path).count('\n')) for path in tree.files if path.startswith('tools/') and '.' not in path.split('/')[-1]]
    scripts += [(path, tree.text(path).count('\n')) for path in tree.files if path.endswith('.py')]
    files = [(source.path, source.lines, FILE_LINES if _limited(source) else OTHER_FILE_LINES) for source in tree.sources]
    files += [(path, lines, OTHER_FILE_LINES) for path, lines in scripts]
    for path, lines, most in files:
        if lines > most and not tree.allowed.covers(path, 'file'):
            yield Finding(path, 0, f'has {lines} lines', 'length', f'split it: {most} at most{OR_A_REASON}')


def functions(tree):
    """How long, how branched and how wide."""
    for source in tree.sources:
        for name, first, last in Walk(source).functions:
            found = []
            if _limited(source):
                found = [('lines', last - first + 1, FUNCTION_LINES), ('branches', limits.complexity(source, first, last), BRANCHES),
                         ('parameters', limits.parameters(source, first), PARAMETERS)]
            elif last - first >= OTHER_FUNCTION_LINES:
                found = [('lines', last - first + 1, OTHER_FUNCTION_LINES)]
            for what, count, most in found:
                if what == 'lines' and name.endswith('::describe'):
                    continue                               # as long as its table of options
                if count > most and not tree.allowed.covers(source.path, name):
                    yield Finding(source.path, first, f'{name} has {count} {what}', 'length', f'split it: {most} at most{OR_A_REASON}')


def classes(tree):
    """How many data members; an options table is as long as its table."""
    for source in tree.sources:
        for name, line, count in limits.members(source) if _limited(source) else ():
            if count > MEMBERS and not name.endswith('Options') and not tree.allowed.covers(source.path, name):
                yield Finding(source.path, line, f'{name} has {count} data members', 'length', f'give parts of it a type: {MEMBERS} at most{OR_A_REASON}')


def rooms(tree):
    """A row has a folder, a folder is one idea, and a storey stays small."""
    for room in tree.rooms.allowed:
        own = [source for source in tree.sources if room_of(source.path, tree.rooms) == room]
        lines = sum(source.lines for source in own if not source.path.startswith('core/include/'))
        if not own:
            yield Finding(tree.rooms.table_of(room), 0, f'room {room} has no folder', 'room table', 'take its row out, or make it')
        most = LIBRARY_LINES.get(room, ROOM_LINES)
        if lines > most:
            yield Finding(own[0].path, 0, f'room {room} has {lines} lines', 'length', f'two ideas may live here: {most} at most')
    for storey, most in STOREY_LINES.items():
        inside = [room for room, its in tree.rooms.storey.items() if its == storey and room not in LIBRARY_LINES]
        lines = sum(source.lines for source in tree.sources if room_of(source.path, tree.rooms) in inside)
        if len(inside) > ROOMS:
            yield Finding(ROOM_TABLES[storey], 0, f'the {storey} has {len(inside)} rooms', 'room table', f'{ROOMS} at most')
        if lines > most:
            yield Finding(f'core/{storey}', 0, f'has {lines} lines with its SDK headers', 'length', f'{most} at most: what is new belongs in a plugin')


LINK = re.compile(r'\]\(([^)\s#]+)[^)\s]*\)')
PATH = re.compile(r'(?<![\w./-])((?:core|plugins|models|configs|slurm|tests|tools|docs|\.ci)/[\w./*-]*[\w*])')


def document_paths(tree):
    """Every path that README and docs name exists."""
    for document in tree.documents:
        folder = (tree.root / document).parent
        for number, line in enumerate(tree.text(document).splitlines(), 1):
            named = [(target, folder) for target in LINK.findall(line) if '://' not in target]
            named += [(path, tree.root) for path in PATH.findall(LINK.sub(' ', re.sub(r'\[[^]]*\](?=\()', ' ', line)))]
            for path, base in dict.fromkeys(named):
                if '*' in path and any(base.glob(path)):
                    continue
                if not (base / path).exists():
                    yield Finding(document, number, f'names {path}, which does not exist', 'document paths', 'correct the path, or the sentence')


# What a user, an operator of a cluster or an author of plugins may have to read: every document but those for people
# who work on Capstan itself, and but the lists that the program writes, in which one looks things up.
OF_DEVELOPERS = {f'docs/{page}.md' for page in ('architecture', 'host', 'engine', 'sharding-inside', 'walks', 'contributing')}
WRITTEN_BY_THE_PROGRAM = {'docs/configuration.md', 'docs/other-files.md'}
MOST_WORDS = 45_000


def document_words(tree):
    """The pages that a user may have to read stay readable: a limit on their words, all together."""
    pages = [page for page in tree.documents if page not in OF_DEVELOPERS | WRITTEN_BY_THE_PROGRAM]
    words = {page: len(tree.text(page).split()) for page in pages}
    if sum(words.values()) > MOST_WORDS:
        longest = max(words, key=words.get)
        yield Finding(longest, 0, f'README and the pages for users have {sum(words.values()):,} words, this one {words[longest]:,}',
                      'document words', f'at most {MOST_WORDS:,} in all: cut what a reader of the page does not need')


# A word that the glossary of docs/contributing.md replaces, and what it says instead.
WORDS = [(re.compile(pattern), fix) for pattern, fix in (
    (r'\b[Bb]ehind\b|\b[Ii]n front of\b', 'after or before: time is no place'),
    (r'\b(?:goes|go|went|gone|going) on\b', 'continues, resumes'),
    (r'\bseats?\b|\b\w*_seats?\b', 'override point'),
    (r'\bpulses?\b', 'heartbeat'),
    (r'\btransit\b', 'gradient offload'),
    (r'\bslabs?\b', 'staging buffer, shard buffer'),
    (r'\b[Rr]ehears\w*', 'dry run'),
    (r'\bLane\b', 'SideStream'),
    (r'\bnn::Kept\b', 'RecomputeContext'),
)]


def words(tree):
    """Code, comments, messages and documents use the glossary's words."""
    texts = [(source.path, source.text) for source in tree.sources]
    texts += [(path, tree.text(path)) for path in [*tree.documents, *(path for path in tree.files if path.startswith(('tools/', 'slurm/', 'configs/')))]
              if not path.startswith('tools/house') and not path.endswith(('.json', '.txt'))]
    for path, text in texts:
        for number, line in enumerate(text.split('\n'), 1):
            for pattern, fix in WORDS:
                found = pattern.search(line)
                if found and not tree.allowed.covers(path, found.group(0)):
                    yield Finding(path, number, f'says "{found.group(0)}"', 'words', f'the glossary of docs/contributing.md: {fix}')


OPTION_LIST = 'docs/configuration.md'   # written by the program
OPTION_ROW = re.compile(r'\| `(\w+)` \|')


def options(tree):
    """Each option that is listed, but for those that a config.json has, is used by a configuration, a document or a test."""
    users = {path for path in tree.files if path.startswith(('configs/', 'tests/', 'slurm/')) and path.endswith(('.cc', '.h', '.toml', '.py', '.sbatch'))}
    named = set()
    for path in sorted(users | set(tree.documents) - {OPTION_LIST}):
        named.update(re.findall(r'\w+', tree.text(path)))
    table = ''
    for number, line in enumerate(tree.text(OPTION_LIST).splitlines() if OPTION_LIST in tree.files else (), 1):
        table = line if line.startswith('#') else table
        row = OPTION_ROW.match(line)
        if row and row.group(1) not in named and not table.startswith('### [model]'):
            yield Finding(OPTION_LIST, number, f'lists {row.group(1)}, which nothing uses', 'options',
                          'let a configuration, a document or a test say what it is for, or remove it')


def allow_list(tree):
    """Last: a line of the allow-list that nothing needed is itself a fault."""
    yield from tree.allowed.faults
    yield from tree.allowed.stale()


ALL = (include_rules, unknown_rooms, rooms_in_order, namespaces, below_launch, plugin_names, statics, lengths, functions, classes, rooms, document_paths, document_words, words, plain_words, names, member_comments, options, walks, allow_list)
