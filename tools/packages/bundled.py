"""The libraries that come along, from which Debian packages they are, their licences, and all of it as an SPDX list."""
import json
import pathlib
import re
import shutil
import subprocess

from .steps import elf_files, run

HEADERS = ('nlohmann-json3-dev', 'libcli11-dev', 'libprotozero-dev', 'libboost1.74-dev', 'libxxhash-dev')   # compiled into the files themselves
SYSTEM = {'libc6', 'libstdc++6', 'libgcc-s1', 'zlib1g'}   # what auditwheel's policies take for granted
UNNAMED = 'NOASSERTION'   # SPDX's word for what this list does not say


def owner(library):
    """The Debian package of a library, by its path, which packages may have with or without /usr; None where it is of none."""
    below = str(library.resolve()).removeprefix('/usr')
    said = subprocess.run(['dpkg-query', '-S', below, f'/usr{below}'], text=True, capture_output=True, check=False).stdout
    return said.split(':', maxsplit=1)[0] or None


def libraries(package):
    """What the loader finds in the system for the files of an installation."""
    found = set()
    for file in elf_files(package):
        said = subprocess.run(['ldd', file], text=True, capture_output=True, check=False).stdout
        found |= set(re.findall(r'=> (/(?:usr/)?lib/\S+)', said))
    return {pathlib.Path(file) for file in found}


def built(folder):
    """Package -> version, of what tools/packages/manylinux_2_28/libraries has built or copied there."""
    return dict(line.split() for line in (folder / 'share/versions.txt').read_text(encoding='utf-8').splitlines())


def packages(installed):
    """Debian package -> version, of the libraries that come along and of those that are only headers."""
    names = {owner(library) for library in libraries(installed)} - SYSTEM - {None}
    found = {}
    for name in sorted(names | set(HEADERS)):
        said = subprocess.run(['dpkg-query', '-W', '-f', '${Version}', name], text=True, capture_output=True, check=False)
        if said.returncode == 0 and said.stdout:
            found[name] = said.stdout
    return found


def licences(found, folder, built_in=None):
    """Each package's copyright file, which its licence asks to be passed on; built_in is the folder of libraries that `built` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in found:
        text = built_in / f'share/licences/{name}.txt' if built_in else pathlib.Path('/usr/share/doc') / name / 'copyright'
        if text.exists():
            shutil.copyfile(text, folder / f'{name}.txt')


def part(name, version, purl=None):
    out = {'SPDXID': 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]', '-', name), 'name': name, 'versionInfo': version, 'downloadLocation': UNNAMED,
           'filesAnalyzed': False, 'licenseConcluded': UNNAMED, 'licenseDeclared': UNNAMED, 'copyrightText': UNNAMED}
    if purl:
        out['externalRefs'] = [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl', 'referenceLocator': purl}]
    return out


def spdx(found, kind, words, file, date):
    """SPDX 2.3 (spdx.github.io/spdx-spec/v2.3): Capstan, what it contains (packages of a kind, such as deb/debian), and torch, which it needs."""
    own = part('capstan', words['VERSION'])
    torch = part('torch', words['TORCH'], f'pkg:pypi/torch@{words["TORCH"]}')
    parts = [part(name, version, f'pkg:{kind}/{name}@{version}') for name, version in found.items()]
    relations = [('SPDXRef-DOCUMENT', 'DESCRIBES', own), (own['SPDXID'], 'DEPENDS_ON', torch), *((own['SPDXID'], 'CONTAINS', each) for each in parts)]
    commit = run('git', 'rev-parse', 'HEAD').strip()
    document = {
        'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': f'capstan-{words["VERSION"]}',
        'documentNamespace': f'urn:capstan:{words["VERSION"]}:{commit}', 'creationInfo': {'created': date, 'creators': ['Tool: capstan-tools-release']},
        'packages': [own, torch, *parts],
        'relationships': [{'spdxElementId': left, 'relationshipType': kind, 'relatedSpdxElement': right['SPDXID']} for left, kind, right in relations]}
    file.write_text(json.dumps(document, indent=1) + '\n', encoding='utf-8')
