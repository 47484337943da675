"""Says which files of a dataset's folder are a split's: python3 -c THIS, with a request as JSON on standard input.

{"folder": …, "config": …, "split": …} prints {"files": […]}. The YAML that README.md begins with says it, else the files'
own names. What is wrong is printed as {"file", "what", "fix"} with exit status 3.
"""
import sys
sys.path = [path for path in sys.path if path]   # nothing of the current folder is meant by an import
import fnmatch
import json
import os
import re

COMPRESSIONS = ('.gz', '.bz2', '.xz', '.zst')
KINDS = ('.parquet', '.arrow', '.jsonl', '.json', '.csv', '.tsv')
SPLITS = {'train': ('train', 'training'), 'validation': ('validation', 'valid', 'val', 'dev'),
          'test': ('test', 'testing', 'eval', 'evaluation')}
BY_NAME = 'name the files with data.train and data.eval'


class Fault(Exception):
    """What is wrong, in words."""

    def __init__(self, what, fix):
        super().__init__(what)
        self.said = {'what': what, 'fix': fix}


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def named_splits(folder, config):
    """What README.md says: a list of (split, patterns); None where it says nothing."""
    try:
        with open(os.path.join(folder, 'README.md'), encoding='utf-8') as file:
            text = file.read()
    except OSError:
        return None
    head = re.match(r'---\n(.*?)\n---', text, re.S)
    if not head or not re.search(r'^configs:', head.group(1), re.M):
        return None
    try:
        import yaml
    except ImportError:
        raise Fault("README.md says in YAML which files are which split's, and " + sys.executable + ' has no PyYAML',
                    sys.executable + ' -m pip install pyyaml, or name the files with data.train and data.eval') from None
    try:
        configs = yaml.safe_load(head.group(1))['configs']
        return split_list(chosen_config(configs, config))
    except (yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise Fault(f'the YAML of README.md cannot be read: {first_line(error)}', BY_NAME) from None


def chosen_config(configs, name):
    by_name = {config['config_name']: config for config in configs if 'data_files' in config}
    if name and name not in by_name:
        raise Fault(f"there is no configuration '{name}': there are {', '.join(by_name)}", 'set data.config to one of these')
    if name or len(by_name) == 1:
        return by_name[name] if name else next(iter(by_name.values()))
    defaults = [one for one in by_name.values() if one.get('default') or one['config_name'] == 'default']
    if len(defaults) != 1:
        raise Fault(f"the dataset has the configurations {', '.join(by_name)}", 'set data.config to one of these')
    return defaults[0]


def split_list(config):
    files = config['data_files']
    if isinstance(files, (str, list)) and not (isinstance(files, list) and files and isinstance(files[0], dict)):
        files = [{'split': 'train', 'path': files}]
    folder = config.get('data_dir', '')
    listed = []
    for one in files:
        paths = one['path'] if isinstance(one['path'], list) else [one['path']]
        listed.append((one['split'], [os.path.join(folder, path) for path in paths]))
    return listed


def data_files(folder):
    """All of them, relative to the folder; those of the root's own kinds only."""
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith('.')]
        found += [os.path.relpath(os.path.join(at, name), folder) for name in names if is_data(name)]
    return sorted(found)


def is_data(name):
    base, extension = os.path.splitext(name.lower())
    kind = os.path.splitext(base)[1] if extension in COMPRESSIONS else extension
    return kind in KINDS and name not in ('dataset_info.json', 'dataset_infos.json', 'state.json', 'dataset_dict.json')


def matches(path, pattern):
    parts, wanted = path.split('/'), pattern.split('/')
    if '**' in wanted:
        return fnmatch.fnmatch(path, pattern.replace('**/', '*').replace('**', '*'))
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatch, parts, wanted))


def split_of(path):
    """The split that a file's own path names, as the hub's programs take it."""
    for split, words in SPLITS.items():
        if any(re.search(rf'(^|[^a-z0-9]){word}([^a-z0-9]|$)', path.lower()) for word in words):
            return split
    return None


def splits(request):
    folder, wanted = request['folder'], request['split']
    files = data_files(folder)
    listed = named_splits(folder, request['config'])
    by_split = {}
    if listed is not None:
        for split, patterns in listed:
            by_split.setdefault(split, []).extend(path for path in files if any(matches(path, pattern) for pattern in patterns))
    else:
        if request['config']:
            files = [path for path in files if path.split('/')[0] == request['config']]
        for path in files:
            by_split.setdefault(split_of(path) or 'train', []).append(path)
    if not by_split.get(wanted):
        known = ', '.join(split for split, paths in by_split.items() if paths) or 'none'
        raise Fault(f"there are no files of the split '{wanted}'; splits with files here: {known}",
                    'name another split, or download the files')
    return {'files': [os.path.join(folder, path) for path in by_split[wanted]]}


def main():
    try:
        print(json.dumps(splits(json.load(sys.stdin))))
    except Fault as fault:
        print(json.dumps(fault.said))
        sys.exit(3)


main()
