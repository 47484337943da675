"""Every public header by itself, with nothing but the exported targets' flags: it compiles, has its guard, and drags in
nothing that authors did not ask for. In CI only headers are looked at that changed since the branch began, or that include
such a one.

Most of the time would go to reading ATen/core/Tensor.h again for each of them. Those that include it anyway, which their
text says, find it precompiled: they see the same files as without, and what they did not ask for themselves is still missing."""
import concurrent.futures
import json
import pathlib
import re
import sys

from bench import ROOT, build_jobs, check, plain

sys.path.insert(0, str(ROOT / 'tools'))

from changes import base, changed  # noqa: E402

# Headers for whoever has no LibTorch: rooms, and what authors of these kinds start from.
OF_HOST = re.compile(r'capstan/(base|command|config|plugin|monitor|tokenizer|data)/|capstan/(command|data|tokenizer|monitor)\.h$')
FOREIGN = re.compile(r'/(spdlog|fmt|toml\+\+|nlohmann|boost|CLI)/|/(gelf|libelf|oniguruma|utf8proc|torch/torch|torch/all)\.h')
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
SOURCES = re.compile(r'(?:core|(?:plugins|models)/libraries/\w+)/include/(.*)')   # where the tree has them
DEAR = 'ATen/core/Tensor.h'   # no header of the SDK includes it but for what is in it
DECIDES_ALL = ('CMakeLists.txt', 'core/CMakeLists.txt', 'tools/cmake/', 'tools/pins.txt', 'tests/system/sdk/headers.py', 'tests/system/sdk/project/')


def closures(include):
    """header -> itself and all headers that it includes, by their names in #include; those of the SDK are the keys."""
    direct = {path.relative_to(include).as_posix(): set(INCLUDE.findall(path.read_text(encoding='utf-8')))
              for path in sorted(include.rglob('*')) if path.suffix == '.h'}   # .cuh: nvcc's
    found = {}
    for header in direct:
        seen, todo = set(), [header]
        while todo:
            if (name := todo.pop()) not in seen:
                seen.add(name)
                todo += direct.get(name, ())
        found[header] = seen
    return found


def touched(bench, known):
    """Names in #include whose files changed since the branch began; all of them where that is not to be known."""
    since = base()
    names = changed(since)
    if bench.whole or not since or any(name.startswith(DECIDES_ALL) for name in names):
        return set(known)
    return {match[1] for name in names if (match := SOURCES.fullmatch(name))}


def selected(bench, known):
    changes = touched(bench, known)
    return sorted(header for header, closure in known.items() if closure & changes)


def flags_of(bench, needs):
    """How the project compiles a file that is linked with capstan::host or capstan::engine; without a compiler cache."""
    entries = json.loads((bench.folder / 'build/compile_commands.json').read_text(encoding='utf-8'))
    return next(plain(entry['command']) for entry in entries if pathlib.Path(entry['file']).name == f'needs_{needs}.cc')


def precompiled(bench, flags, folder):
    """Words for the compiler by which a file finds DEAR precompiled, before all else."""
    header = folder / 'dear.h'
    header.write_text(f'#include <{DEAR}>\n', encoding='utf-8')
    bench.run(*flags, '-x', 'c++-header', header, '-o', f'{header}.gch')
    return ['-include', str(header), '-Winvalid-pch']


def compiled(bench, flags, folder, header):
    """What the compiler says against the header, or the foreign header that it reaches; nothing where all is well."""
    source = folder / (re.sub(r'\W', '_', header) + '.cc')
    source.write_text(f'#include <{header}>\n#include <{header}>\n', encoding='utf-8')   # twice: without its guard it does not compile
    status, said = bench.ended(*flags, '-fsyntax-only', '-MD', '-MF', f'{source}.d', source, cwd=folder)
    if status != 0:
        return f'{header} does not compile by itself:\n{said}'
    foreign = FOREIGN.search(pathlib.Path(str(source) + '.d').read_text(encoding='utf-8'))
    return f'{header} reaches {foreign.group(0)}: not after a header of the SDK' if foreign else ''


PLANTED = (('#pragma once\nstruct One {};\n', ''), ('struct One {};\n', 'redefinition'), ('#pragma once\n#include <libelf.h>\n', 'reaches'),
           (f'#pragma once\n#include <{DEAR}>\nusing One = std::regex;\n', 'does not compile by itself'))


def check_itself(bench, flags, dear, folder):
    """What is planted is found, also after what is precompiled."""
    for text, where in PLANTED:
        folder.joinpath('planted.h').write_text(text, encoding='utf-8')
        fault = compiled(bench, [*flags, f'-I{folder}', *(dear if DEAR in text else ())], folder, 'planted.h')
        check(where in fault and bool(fault) == bool(where), f'a planted header: {fault}')


def by_themselves(bench):
    include = bench.prefix / 'include'
    known = closures(include)
    check('capstan/strategy.h' in known and len(known) > 100, f'there is no capstan/strategy.h in {include}, or too little besides')
    wanted, folder = selected(bench, known), bench.folder / 'headers'
    folder.mkdir()
    flags = {needs: flags_of(bench, needs) for needs in ('host', 'engine')}
    dear = precompiled(bench, flags['engine'], folder) if sum(DEAR in known[header] for header in wanted) > 2 else []

    def fault(header):
        of_host = OF_HOST.match(header)
        check(not (of_host and DEAR in known[header]), f'{header} includes {DEAR}, and is for whoever has no LibTorch')
        return compiled(bench, flags['host'] if of_host else [*flags['engine'], *(dear if DEAR in known[header] else ())], folder, header)

    with concurrent.futures.ThreadPoolExecutor(build_jobs()) as pool:
        faults = list(filter(None, pool.map(fault, wanted)))
    check(not faults, '\n'.join(faults))
    check_itself(bench, flags['engine'], dear, folder)
    return f'{len(wanted)} of {len(known)} headers'
