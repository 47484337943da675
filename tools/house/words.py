"""Words that are never right in a comment, a message or a document, and comments that begin with an ellipsis."""
import bisect
import io
import re
import tokenize

from .cxx import TOKENS
from .tree import CXX, Finding

MESSAGES = ('core/', 'plugins/', 'models/')       # where string literals are read too
OURS = 'tools/house'                              # names the words that it refuses
ELLIPSIS = re.compile(r'Of (?!course\b)[a-z]\w*')
REFUSED = [(re.compile(pattern, re.I), fix) for pattern, fix in (
    (r'\bso\s+many\b(?![^.;:!?]{0,120}\bthat\b)', 'write the name of the number, "N" or "this number of"'),
    (r'\banew\b', 'write "again"'),
    (r'\bwish(?:es|ed|ing)?\b', 'write "asks for" or "wants"'),
    (r'\breckon(?:s|ed|ing)?\b', 'write "estimate", "count" or "compute"'),
    (r'\bleav(?:e|es|ing)\s+(?:it|them)\s+away\b', 'write "remove it" or "leave it out"'),
    (r',\s+of\s+which\b', 'write a sentence of its own, or "one of which"'),
    (r'\bof\s+whom\b', 'write a sentence of its own'),
    (r'\bnobody\b', 'name who does not: no rank, no caller, nothing'),
    (r'\bmend(?:s|ed|ing)?\b', 'write "fix", "repair" or "correct"'),
)]
MARK = re.compile(r'///?<?|#+!?')
CODE_SPAN = re.compile(r'`[^`\n]*`')


class Passage:
    """What is read as one text: a comment's lines, a message's literals, a paragraph."""

    def __init__(self, line, text, is_comment=False):
        self.text, self.is_comment, self._starts, self._lines = '', is_comment, [], []
        self.add(line, text)

    def add(self, line, text, between=' '):
        self.text += between if self.text else ''
        for offset, part in enumerate(text.split('\n')):
            self.text += '\n' if offset else ''
            self._starts.append(len(self.text))
            self._lines.append(line + offset)
            self.text += CODE_SPAN.sub(lambda match: ' ' * len(match.group(0)), part)

    def line(self, offset):
        return self._lines[bisect.bisect_right(self._starts, offset) - 1]


def _joined(comments):
    """Comments as (line, stands by itself, text): those of lines that follow one another are one passage."""
    passage, last = None, None
    for line, by_itself, text in comments:
        text = MARK.sub('', text, count=1).strip()
        if passage and by_itself and line == last + 1:
            passage.add(line, text)
        else:
            if passage:
                yield passage
            passage = Passage(line, text, is_comment=True)
        last = line if by_itself else None
        if last is None:
            yield passage
            passage = None
    if passage:
        yield passage


def _of_cxx(path, text):
    ends = [match.start() for match in re.finditer('\n', text)]
    comments, message, end = [], None, 0
    for match in TOKENS.finditer(text):
        line, token = bisect.bisect_left(ends, match.start()) + 1, match.group(0)
        if token[0] == '/':
            before = text[text.rfind('\n', 0, match.start()) + 1:match.start()]
            comments.append((line, not before.strip(), token))
        elif token[0] != "'" and path.startswith(MESSAGES):
            if message and not text[end:match.start()].strip():
                message.add(line, token[1:-1], between='')
            else:
                if message:
                    yield message
                message = Passage(line, token[1:-1])
            end = match.end()
    if message:
        yield message
    yield from _joined(comments)


def _of_python(text):
    comments, before = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], not token.line[:token.start[1]].strip(), token.string))
        elif token.type == tokenize.STRING and before in (None, tokenize.NEWLINE, tokenize.INDENT):
            yield Passage(token.start[0], token.string.strip('"\''), is_comment=True)
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING):
            before = token.type
    yield from _joined(comments)


def _of_script(text):
    """CMake and shell: a # at the beginning of a line or after a space begins a comment."""
    found = [(number, re.search(r'(?:^|(?<=\s))#.*', line), line) for number, line in enumerate(text.split('\n'), 1)]
    return _joined([(number, not line[:match.start()].strip(), match.group(0)) for number, match, line in found if match])


def _of_document(text):
    """Paragraphs, without blocks of code."""
    passage, fenced = None, False
    for number, line in enumerate(text.split('\n'), 1):
        fenced ^= line.lstrip().startswith('```')
        if fenced or not line.strip() or line.startswith(('    ', '```')):
            if passage:
                yield passage
            passage = None
        elif passage:
            passage.add(number, line)
        else:
            passage = Passage(number, line)
    if passage:
        yield passage


def _passages(tree, path):
    if path.endswith(CXX):
        return _of_cxx(path, tree.text(path))
    if path in tree.documents:
        return _of_document(tree.text(path))
    if path.endswith(('.cmake', 'CMakeLists.txt', '.sh', '.sbatch')):
        return _of_script(tree.text(path))
    if path.endswith('.py'):
        return _of_python(tree.text(path))
    if '.' not in path.split('/')[-1] and not (tree.root / path).is_symlink():
        first = (tree.root / path).read_bytes()[:64].split(b'\n')[0]
        if first.startswith(b'#!'):
            return _of_python(tree.text(path)) if b'python' in first else _of_script(tree.text(path))
    return ()


IN_NAMES = [*REFUSED, (re.compile(r'\b(?:behind|seats?|pulses?|transit|slabs?)\b'), 'use the glossary of docs/contributing.md')]


def names(tree):
    """Identifiers are made of plain words too."""
    for source in tree.sources:
        seen = set()
        for line, match in source.find(re.compile(r'[A-Za-z_]\w*')):
            name = match.group(0)
            if name in seen:
                continue
            seen.add(name)
            text = re.sub(r'([a-z0-9])([A-Z])', r'\1_\2', name).lower().replace('_', ' ')
            for pattern, fix in IN_NAMES:
                if pattern.search(text) and not tree.allowed.covers(source.path, name):
                    yield Finding(source.path, line, f'has the name {name}', 'plain words', fix)


MEMBER = re.compile(r'(?:///<|[;,{]\s+//)\s*((?:of|that|which|those|whose)\b)')


def member_comments(tree):
    """A comment on a member of the core begins with its subject."""
    for source in tree.sources:
        if not source.path.startswith('core/'):
            continue
        for number, line in enumerate(source.text.split('\n'), 1):
            found = MEMBER.search(line)
            if found:
                yield Finding(source.path, number, f'begins a comment with "{found.group(1)}"', 'plain words', 'begin it with a subject')


def plain_words(tree):
    """Comments, messages and documents are whole sentences in plain words."""
    for path in tree.files:
        if path.startswith(OURS):
            continue
        for passage in _passages(tree, path):
            found = [(match, fix) for pattern, fix in REFUSED for match in pattern.finditer(passage.text)]
            begins = ELLIPSIS.match(passage.text) if passage.is_comment else None
            if begins:
                found.append((begins, 'write a sentence with its subject and its verb'))
            for match, fix in sorted(found, key=lambda each: each[0].start()):
                word = ' '.join(match.group(0).split()).lstrip(', ')
                if not tree.allowed.covers(path, word.replace(' ', '-')):
                    yield Finding(path, passage.line(match.start()), f'says "{word}"', 'plain words', fix)
