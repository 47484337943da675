"""Reads YAML from standard input; writes {"value": the document, "lines": {path: line}, "templates": the folder of
axolotl's chat templates or null} as JSON, or {"what", "line"} with exit status 3."""
import sys

sys.path = [folder for folder in sys.path if folder]  # nothing of the folder that the command was called in

import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402

MOST_VALUES = 100000


def fail(what, line=0):
    json.dump({'what': what, 'line': line}, sys.stdout)
    sys.stdout.flush()
    sys.exit(3)


def plain(value):
    """JSON's own kinds: dates and the like as text, keys as text."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


class Lines:
    """The line of each key and item. An alias counts each time, so a text of few lines may have many."""

    def __init__(self, yaml):
        self.yaml, self.of, self.left = yaml, {}, MOST_VALUES

    def walk(self, node, path):
        self.left -= 1
        if self.left < 0:
            fail('it has more than %d values, each alias counted' % MOST_VALUES)
        if isinstance(node, self.yaml.MappingNode):
            self.mapping(node, path)
        elif isinstance(node, self.yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.of['%s[%d]' % (path, index)] = item.start_mark.line + 1
                self.walk(item, '%s[%d]' % (path, index))

    def mapping(self, node, path):
        seen = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name == '<<':
                self.walk(value, path)
                continue
            if name in seen:
                fail('the key %s stands twice in one table, in line %d too' % (name, seen[name]), line)
            seen[name] = line
            inner = '%s.%s' % (path, name) if path else name
            self.of[inner] = line
            self.walk(value, inner)


def templates():
    """Where axolotl is installed; it is not imported."""
    try:
        found = importlib.util.find_spec('axolotl')
    except (ImportError, ValueError):
        return None
    for folder in (found.submodule_search_locations or []) if found else []:
        inner = os.path.join(folder, 'utils', 'chat_templates', 'templates')
        if os.path.isdir(inner):
            return inner
    return None


def read(yaml, text):
    loader = yaml.SafeLoader(text)
    node = loader.get_single_node()
    lines = Lines(yaml)
    if node is not None:
        lines.walk(node, '')
    value = None if node is None else plain(loader.construct_document(node))
    return {'value': value, 'lines': lines.of, 'templates': templates()}


def main():
    try:
        import yaml
    except ImportError:
        fail('this Python has no PyYAML: %s' % sys.executable)
    try:
        print(json.dumps(read(yaml, sys.stdin.buffer.read()), allow_nan=False))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        fail('it is not YAML: %s' % ' '.join(str(error.problem or error.context).split()), mark.line + 1 if mark else 0)
    except yaml.YAMLError as error:
        fail('it is not YAML: %s' % ' '.join(str(error).split()))
    except RecursionError:
        fail('a table or a list is inside of too many others')
    except (ValueError, TypeError) as error:
        fail('it has a value that is none of a configuration: %s' % error)


if __name__ == '__main__':
    main()
