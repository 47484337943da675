"""Writes conversations by a model's own chat template: python3 -c THESE FOUR FILES JOINED.

The first line of standard input is the request, the first of standard output says which template is used or {"fault"}, with
exit status 3. Each further line is a conversation, and one line answers it, in the same order. renderer.h has the fields.

This file finds the template and the special tokens among a model's files. jinja2 is the only package that is needed.
"""
import sys
sys.path = [path for path in sys.path if path]   # nothing of the current folder is meant by an import
import datetime
import hashlib
import json
import os
import re
import resource

NO_TEMPLATE = 'set data.chat_template_file to one, or data.turn'


class Said(Exception):
    """What is wrong, in words."""

    def __init__(self, what, fix, file=None, line=None):
        super().__init__(what)
        self.said = {'what': what, 'fix': fix, 'file': file, 'line': line}


class Fault(Said):
    pass


class TooMuch(Said):
    """It costs too much to render this: no other way of saying the same is tried."""


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


try:
    import jinja2
    import jinja2.compiler
    import jinja2.ext
    import jinja2.meta
    import jinja2.sandbox
    if tuple(int(part) for part in jinja2.__version__.split('.')[:2]) < (3, 1):
        raise ImportError(f'it has jinja2 {jinja2.__version__}, and 3.1 is the oldest that has what templates use')
except ImportError as broken:
    print(json.dumps({'fault': Fault(
        f'{sys.executable} has no jinja2 that chat templates can be rendered with: {first_line(broken)}',
        f'{sys.executable} -m pip install --upgrade jinja2, or name a Python that has it (torch and transformers need it)').said}))
    sys.exit(3)


def read_text(file):
    try:
        with open(file, encoding='utf-8') as opened:
            return opened.read()
    except UnicodeDecodeError as error:
        raise Fault(f'{file} is no UTF-8 text: {first_line(error)}', 'fetch it again', file) from None
    except OSError as error:
        raise Fault(f'{file} cannot be read: {error.strerror}', 'name a file that is there and can be read', file) from None


def read_object(file):
    """A JSON file's object; {} where there is no such file."""
    if not os.path.exists(file):
        return {}
    try:
        value = json.loads(read_text(file))
    except ValueError as error:
        raise Fault(f'{file} is damaged: {first_line(error)}', 'fetch it again', file, getattr(error, 'lineno', None)) from None
    if not isinstance(value, dict):
        raise Fault(f'{file} is no JSON object', 'fetch it again', file)
    return value


def special_tokens(folder):
    """The names that transformers gives to templates, with the tokens' texts."""
    tokens = {}
    for name in ('special_tokens_map.json', 'tokenizer_config.json'):
        for key, value in read_object(os.path.join(folder, name)).items():
            text = value.get('content') if isinstance(value, dict) else value
            if key.endswith('_token') and isinstance(text, str):
                tokens[key] = text
    return tokens


def templates_of(value, file):
    """A template as text, or several by name, as files have them: a list of {"name", "template"} or an object."""
    if isinstance(value, str):
        return {'default': (value, file)}
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        value = {one.get('name'): one.get('template') for one in value}
    if not isinstance(value, dict) or not all(isinstance(text, str) for item in value.items() for text in item):
        raise Fault(f'chat_template of {file} is neither a text nor a list of named ones', 'fetch the file again', file)
    return {name: (text, file) for name, text in value.items()}


def find_templates(folder, file):
    """{name: (text, file)} from the first place that has any, in transformers' order."""
    if file:
        return {'default': (read_text(file), file)}
    found = {}
    path = os.path.join(folder, 'chat_template.jinja')
    if os.path.exists(path):
        found['default'] = (read_text(path), path)
    more = os.path.join(folder, 'additional_chat_templates')
    for name in sorted(os.listdir(more)) if os.path.isdir(more) else ():
        if name.endswith('.jinja'):
            found[name[:-len('.jinja')]] = (read_text(os.path.join(more, name)), os.path.join(more, name))
    for name in ('chat_template.json', 'tokenizer_config.json'):
        path = os.path.join(folder, name)
        value = None if found else read_object(path).get('chat_template')
        if value:
            found = templates_of(value, path)
    if not found:
        raise Fault(f'{folder or "the request"} has no chat template (chat_template.jinja, chat_template.json, or chat_template in '
                    'tokenizer_config.json)', NO_TEMPLATE, folder or None)
    return found


def chosen_templates(found, name):
    """(for rows without tools, for rows with tools), each (text, file). A row with tools takes 'tool_use' where it is there."""
    names = ', '.join(sorted(found))
    if name and name not in found:
        raise Fault(f"there is no chat template '{name}': there are {names}", 'set data.template_name to one of these')
    if not name and 'default' not in found:
        raise Fault(f"there are several chat templates and none is named 'default': {names}", 'set data.template_name to one of these')
    plain = found[name or 'default']
    return plain, plain if name else found.get('tool_use', plain)
