"""A C++ file seen as text: comments blanked, includes, functions, statics.

No parser: braces are counted and the text before each one says what it opens. That is enough for code
that clang-format has shaped, and takes milliseconds a file.
"""
import re

TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'',
    re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.M)


def blank(text, keep_strings=False):
    """`text` with comments (and string contents) replaced by spaces; offsets and lines stay."""
    def erase(match):
        token = match.group(0)
        if token[0] != '/' and keep_strings:
            return token
        if token[0] == '/':
            return re.sub(r'[^\n]', ' ', token)
        return '"' + re.sub(r'[^\n]', ' ', token[1:-1]) + '"'
    return TOKENS.sub(erase, text)


class Source:
    """One C++ file of the tree. `code` has neither comments, strings nor preprocessor lines."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.count('\n') + (not text.endswith('\n') and bool(text))
        self.includes = [(self._line(text, m.start(2)), m.group(2), m.group(1) == '<')
                         for m in INCLUDE.finditer(blank(text, keep_strings=True))]
        self.code = DIRECTIVE.sub(lambda m: re.sub(r'[^\n]', ' ', m.group(0)), blank(text))

    @staticmethod
    def _line(text, offset):
        return text.count('\n', 0, offset) + 1

    def line(self, offset):
        return self._line(self.text, offset)

    def find(self, pattern):
        """(line, match) of each place in the code where `pattern` occurs."""
        return [(self.line(m.start()), m) for m in pattern.finditer(self.code)]


FUNCTION_NAME = re.compile(r'([~\w:]+|operator\s*\S+|operator\s*\(\))\s*\(')
NOISE = re.compile(r'\b__extension__\b|\[\[.*?\]\]|\bCAPSTAN_(?:BEGIN|END)_NAMESPACE\b|\b(?:public|private|protected)\s*:')

LEADING = re.compile(r'^\s*(?:(?:(?:public|private|protected)\s*:|CAPSTAN_(?:BEGIN|END)_NAMESPACE\b)\s*)*')


def bare(text):
    """`text` without attributes, access specifiers, the namespace macros and balanced <…>."""
    text = NOISE.sub(' ', text)
    before = None
    while before != text:
        before, text = text, re.sub(r'<[^<>;]*>', ' ', text)
    return text.strip()


def opens(text, scope):
    """What a brace after `text` opens inside `scope`: namespace, class, function, or block (a value, an enum)."""
    if scope == 'function':
        return 'function'
    if not text[-1:].isspace():                  # clang-format: a{1} is a value, a body has a space before it
        return 'block'
    head = bare(text)
    if re.search(r'\benum\b', head.split('(')[0]) or head.endswith('='):
        return 'block'
    if re.match(r'(template\s+)?(class|struct|union)\b', head):
        return 'class'
    return 'function' if '(' in head else 'namespace'


class Walk:
    """Functions as (name, first line, last line); statements as (text, line, namespace | class | function)."""

    def __init__(self, source):
        self.source = source
        self.functions = []
        self.statements = []
        self._stack = []                         # (kind, name, line, parentheses open outside)
        self._start = 0
        self._parens = 0
        for match in re.finditer(r'[{};()]', source.code):
            self._token(match.group(0), match.start())

    def _scope(self):
        kinds = [kind for kind, *_ in self._stack]
        if 'function' in kinds:
            return 'function'
        return next((kind for kind in reversed(kinds) if kind != 'block'), 'namespace')

    def _text(self, at):
        return self.source.code[self._start:at]

    def _line(self, text):
        """Where the statement itself begins: past blanks and access specifiers."""
        return self.source.line(self._start + len(text) - len(LEADING.sub('', text)))

    def _token(self, token, at):
        if token == '(':
            self._parens += 1
        elif token == ')':
            self._parens -= 1
        elif token == '{':
            self._open(at)
        elif token == '}':
            self._close(at)
        elif self._scope() == 'function' or not (self._parens or self._in_block()):
            self._statement(at)

    def _in_block(self):
        return bool(self._stack) and self._stack[-1][0] == 'block'

    def _statement(self, at):
        text = self._text(at)
        if text.strip():
            self.statements.append((text.strip(), self._line(text), self._scope()))
        self._start = at + 1

    def _open(self, at):
        text, scope = self._text(at), self._scope()
        line = self._line(text)
        kind = 'block' if scope != 'function' and (self._parens or self._in_block()) else opens(text, scope)
        name = _name(text) if kind == 'function' and scope != 'function' else ''
        if scope == 'function':
            self._statement(at)
        self._stack.append((kind, name, line, self._parens))
        self._parens = 0
        if kind != 'block':
            self._start = at + 1

    def _close(self, at):
        if not self._stack:
            return
        kind, name, line, self._parens = self._stack.pop()
        if name:
            self.functions.append((name, line, self.source.line(at)))
        if kind != 'block':
            self._start = at + 1


def _name(head):
    match = FUNCTION_NAME.search(bare(head))
    return re.sub(r'\s', '', match.group(1)) if match else 'function'


NOT_A_VARIABLE = re.compile(
    r'(using|typedef|class|struct|union|enum|extern|template|namespace|friend|static_assert|concept|CAPSTAN_\w+)\b')


def mutable_static(text, scope):
    """Whether a statement defines a variable of static storage that can change."""
    text = bare(text)
    is_static = re.match(r'(inline\s+)?static\b', text) is not None
    if not is_static and scope != 'namespace':
        return False
    if re.search(r'\bconstexpr\b', text) or re.match(r'((inline|static|constinit)\s+)*const\b', text):
        return False
    if scope == 'function':
        return True
    head = re.split(r'[={]', text, maxsplit=1)[0]
    if '(' in head or 'operator' in head or NOT_A_VARIABLE.match(text):
        return False
    return len(re.findall(r'[A-Za-z_]\w*', head)) >= 2
