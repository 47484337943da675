"""Manual pages and completion of shells, from what each command prints of itself: --help is written from its own table."""
import argparse
import pathlib
import re
import subprocess
import sys

import shtab
from argparse_manpage.manpage import Manpage

COMMAND = re.compile(r'^  ([a-z][\w-]*)  +(.*)$')
CHOICES = re.compile(r'\{(.*)\}')
BESIDE_OTHERS = re.compile(r'(Excludes|Needs): .*')   # which options go with it
SEE_ALSO = '''.B capstan reference WORD
prints the options of a configuration that have this word; README.md and all documents are in
.I share/doc/capstan
of the installation.'''
COMPLETIONS = {'bash': 'bash-completion/completions/capstan', 'zsh': 'zsh/site-functions/_capstan', 'fish': 'fish/vendor_completions.d/capstan.fish'}


def sections(text):
    """The lines of --help by heading; the first is what the command does."""
    found, heading = {'': []}, ''
    for line in text.splitlines():
        if re.match(r'^[A-Z][\w ]+:$', line):
            heading = line[:-1]
            found[heading] = []
        elif line.startswith('      ') and heading and found[heading]:   # what the line before was too long for
            found[heading][-1] += '  ' + line.strip()
        elif line.strip() and not line.startswith(('Usage:', 'Every option of')):
            found[heading].append(line)
    return found


def add_option(parser, line):
    """"-n,--ranks INT:INT in [1 - 9]  how many": its names, what its value is, and what it means."""
    head, _, words = line.strip().partition('  ')
    names, _, value = BESIDE_OTHERS.sub('', head).strip().partition(' ')
    if '--help' in names:
        return
    words = words.strip().replace('%', '%%')
    if not value:
        parser.add_argument(*names.split(','), action='store_true', help=words)
        return
    choices = CHOICES.search(value)
    added = parser.add_argument(*names.split(','), metavar=re.split('[: ]', value)[0], help=words, choices=choices.group(1).split(',') if choices else None)
    if value.startswith('TEXT') and not choices and re.search(r'\b(file|folder)', words):
        added.complete = shtab.FILE


def add_positional(parser, line):
    head, _, words = line.strip().partition('  ')
    name, *rest = head.split(' ')
    needed, several = 'REQUIRED' in rest, '...' in rest
    added = parser.add_argument(name, nargs='+' if needed and several else '*' if several else None if needed else '?', help=words.strip().replace('%', '%%'))
    added.complete = shtab.FILE


def fill(parser, program, commands):
    """Adds what `program commands… --help` says, and so on for the commands below it."""
    text = subprocess.run([program, *commands, '--help'], check=True, capture_output=True, text=True).stdout
    said = sections(text)
    for line in (line for lines in said.values() for line in lines if line.startswith('  -')):   # some stand under a heading of their own
        add_option(parser, line)
    for line in said.get('Positionals', []):
        add_positional(parser, line)
    found = [match.groups() for match in map(COMMAND.match, said.get('Subcommands', [])) if match]
    if not found and '--help' not in text:
        sys.exit(f'release: {" ".join([str(program), *commands])} --help says nothing that can be read')
    below = parser.add_subparsers(title='commands', metavar='COMMAND') if found else None
    for name, words in found:
        parser_of_command = below.add_parser(name, help=words.replace('%', '%%'), description=words.replace('%', '%%'))
        fill(parser_of_command, program, [*commands, name])


def write(program, version, share):
    """share/man/man1 and what each shell looks for, below the folder `share`."""
    parser = argparse.ArgumentParser('capstan', description='A trainer for large language models: models, strategies, optimizers, data and '
                                     'monitors are plugins that a TOML file names.')
    fill(parser, program, [])
    parser.man_short_description = 'trainer for large language models'   # whatis and apropos go by it
    for shell, name in COMPLETIONS.items():
        file = share / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(shtab.complete(parser, shell=shell), encoding='utf-8')
    page = Manpage(parser)   # of the date in SOURCE_DATE_EPOCH
    page.source, page.manual = f'Capstan {version}', 'Capstan'
    page.add_section('see also', '>', SEE_ALSO)
    file = share / 'man/man1/capstan.1'
    file.parent.mkdir(parents=True)
    file.write_text(str(page).replace(r'\-', '-', 2), encoding='utf-8')   # the date in its first line


