"""tools/check-house --figures: how large the storeys and libraries of the core are.

Lines can be joined, so statements and declarations are counted too: each semicolon outside of a for's head, and each
if, for, while, switch and case.
"""
import re

from .rules import LIBRARY_LINES
from .tree import room_of

FOR_HEAD = re.compile(r'\bfor\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)')
CONTROL = re.compile(r'\b(?:if|for|while|switch|case)\b')
TYPE = re.compile(r'\b(?:class|struct|enum(?:\s+class)?)\s+(?:\[\[[^\]]*\]\]\s*)?\w+[^;(){}=]*\{')


def statements(code):
    return FOR_HEAD.sub('', code).count(';') + len(CONTROL.findall(code))


def _place(path, rooms):
    room = room_of(path, rooms)
    if room is None:
        match = re.match(r'(plugins/libraries/\w+|models/libraries/\w+)/', path)
        return match.group(1) if match else None
    return f'library {room}' if room in LIBRARY_LINES else rooms.storey.get(room)


def table(tree):
    rows = {}
    for source in tree.sources:
        place = _place(source.path, tree.rooms)
        if place is None:
            continue
        row = rows.setdefault(place, [0, 0, 0, 0])
        for i, number in enumerate((1, source.lines, statements(source.code), len(TYPE.findall(source.code)))):
            row[i] += number
    yield f'{"":32}{"files":>8}{"lines":>8}{"statements":>12}{"types":>8}'
    for place, (files, lines, count, types) in sorted(rows.items()):
        yield f'{place:32}{files:8}{lines:8}{count:12}{types:8}'
