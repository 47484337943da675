"""How long and how branched things are: what the limits of tools/check-house count."""
import re

from .cxx import bare

BRANCH = re.compile(r'\b(?:if|for|while|switch|catch)\b|&&|\|\||\?')
LAMBDA = re.compile(r'\[[^\[\]]*\]\s*(?:\([^()]*\)\s*)?(?:mutable\s*)?(?:->\s*[\w:<>,&*\s]+?)?\s*\{')


def without_lambdas(body):
    """A lambda inside a function is a function of its own."""
    while True:
        match = LAMBDA.search(body)
        if not match:
            return body
        depth, at = 1, match.end()
        while depth and at < len(body):
            depth += {'{': 1, '}': -1}.get(body[at], 0)
            at += 1
        body = body[:match.start()] + ' ' * (at - match.start()) + body[at:]


def complexity(source, first, last):
    """1 and a branch each (McCabe, a switch being one), without what lambdas branch."""
    body = '\n'.join(source.code.split('\n')[first - 1:last])
    return 1 + len(BRANCH.findall(without_lambdas(body)))


def parameters(source, first):
    """How many parameters the function has whose head begins on line `first`."""
    text = '\n'.join(source.code.split('\n')[first - 1:first + 20])
    head = bare(text.split('{')[0])
    match = re.search(r'[~\w]\s*\(', head)
    if not match:
        return 0
    depth, count, some = 1, 1, False
    for char in head[match.end():]:
        depth += {'(': 1, ')': -1}.get(char, 0)
        if not depth:
            break
        some = some or not char.isspace()
        count += char == ',' and depth == 1
    return count if some else 0


def members(source):
    """(class, line, how many data members) of each class and struct."""
    found = []
    for match in re.finditer(r'(?<!enum )\b(?:class|struct)\s+(?:CAPSTAN_\w+\s+)?(\w+)[^;{}()]*\{', source.code):
        depth, at, start, own = 1, match.end(), match.end(), ''
        while depth and at < len(source.code):
            char = source.code[at]
            depth += {'{': 1, '}': -1}.get(char, 0)
            if depth == 1 and char != '}':
                own += char
            elif depth == 1:
                own += '};'
            at += 1
        count = 0
        for statement in own.split(';'):
            head = bare(re.sub(r'\b(?:public|private|protected)\s*:', ' ', statement)).replace('}', ' ').strip()
            if not head or re.match(r'(using|friend|static|enum|struct|class|template|typedef|union)\b', head):
                continue
            if '(' in head.split('=')[0]:
                continue
            count += 1 + head.split('=')[0].count(',')
        found.append((match.group(1), source.line(match.start()), count))
    return found
