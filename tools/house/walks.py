"""How much a reader of a walk meets: the walks of docs/walks.md that have limits are counted, and complete.

What is counted is what the walk links and names. It is complete if it names every type that stands in the text of a
function which it names, from the function's head to its end; what a member or `auto` is of is not looked up.
"""
import re

from .cxx import Walk
from .tree import Finding

PAGE = 'docs/walks.md'
# By the beginning of the walk's heading: how many files it may link, and how many types a reader may meet in it. A
# header and its source are one file. A type is a class or a struct of Capstan, nested ones too. These numbers only fall.
LIMITS = {'One step on one GPU': (12, 25), 'A gradient': (10, 18)}

CODE_LINK = re.compile(r'\]\(\.\./((?:core|plugins|models)/[^)\s#]+)\.(?:cc|h|cu|cuh)\)')
SPAN = re.compile(r'`([^`\n]+)`|\[(\w+)\]\(')
FUNCTION = re.compile(r'([A-Z]\w*)::(~?\w+)')
TYPE = re.compile(r'[A-Z]\w*')
DECLARED = re.compile(r'(?<!enum )\b(?:class|struct)\s+(?:CAPSTAN_\w+\s+)?(?:\w+::)*([A-Z]\w*)(?:\s+final)?\s*(?::[^;{}()]*)?\{')
ALIAS = re.compile(r'\busing (\w+) =')
FOREIGN = re.compile(r'\b(?:std|at|c10|torch)(?:::\w+)+')
# What all code uses, such as Error: no reader looks it up on the way.
EVERYWHERE = ('core/include/capstan/base/', 'core/host/base/')
SDK = 'core/include/'


def sections(text):
    """(heading, its line, its text) of each part of a page."""
    parts = re.split(r'(?m)^## (.*)$', text)
    line = 1 + parts[0].count('\n')
    for heading, body in zip(parts[1::2], parts[2::2]):
        yield heading, line, body
        line += body.count('\n')


def _module(path):
    return path.rsplit('.', 1)[0]


class Types:
    """Where Capstan's own types are declared."""

    def __init__(self, sources):
        self.places = {}
        self.aliases = {name for source in sources if source.path.startswith(SDK) for name in ALIAS.findall(source.code)}
        for source in sources:
            if source.path.startswith(('core/', 'plugins/', 'models/')) and not source.path.startswith(EVERYWHERE):
                for name in DECLARED.findall(source.code):
                    self.places.setdefault(name, set()).add(source.path)

    def within(self, text, modules):
        """The types that a text of these files names: of headers, or of the files themselves."""
        return {name for name in TYPE.findall(FOREIGN.sub(' ', text))
                if any(path.endswith(('.h', '.cuh')) or _module(path) in modules for path in self.places.get(name, ()))}

    def stands_in(self, name, modules):
        """Does a reader of these files, or of the SDK's headers, find it?"""
        return any(_module(path) in modules or path.startswith(SDK) for path in self.places[name])


def _bodies(sources, owner, name):
    """The text of each definition of owner::name, from its head on."""
    for source in sources:
        lines = source.code.split('\n')
        for found, first, last in Walk(source).functions:
            if found == f'{owner}::{name}':
                yield '\n'.join(lines[first - 1:last])


def walks(tree):
    """The counted walks keep their limits, and name every type that the functions which they name use."""
    counted = [(heading, line, body) for heading, line, body in sections(tree.text(PAGE) if PAGE in tree.files else '')
               if any(heading.startswith(each) for each in LIMITS)]
    types = Types(tree.sources) if counted else None
    for heading, line, body in counted:
        for what, fix in _faults(tree, types, body, next(most for each, most in LIMITS.items() if heading.startswith(each))):
            yield Finding(PAGE, line, f'the walk "{heading}" {what}', 'walks', fix)


def _faults(tree, types, body, most):
    modules = set(CODE_LINK.findall(body))
    sources = [source for source in tree.sources if _module(source.path) in modules]
    spans = [code or linked for code, linked in SPAN.findall(body)]
    functions = {match.groups() for span in spans if (match := FUNCTION.match(span))}
    named = {name for span in spans for name in types.within(span, modules)}
    if len(modules) > most[0]:
        yield f'leads through {len(modules)} files', f'{most[0]} at most: put together what is read together'
    if len(named) > most[1]:
        yield f'has {len(named)} types ({", ".join(sorted(named))})', f'{most[1]} at most: let types go that say nothing of their own'
    for name in sorted(named):
        if not types.stands_in(name, modules):
            yield f'names {name}, which no file declares that it links', 'link the file, or leave the type out'
    aliases = types.aliases.union(*(ALIAS.findall(source.code) for source in sources))
    used = {}
    for owner, name in sorted(functions):
        bodies = list(_bodies(sources, owner, name))
        if not bodies:
            yield f'names {owner}::{name}, which no file defines that it links', 'correct the name, or link the file'
        for text in bodies:
            used |= {found: f'{owner}::{name}' for found in types.within(text, modules) - aliases}
    for name in sorted(used.keys() - named):
        yield f'does not name {name}, which {used[name]} uses', 'name it: a reader meets it there'
