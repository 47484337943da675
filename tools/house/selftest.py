"""Every rule is shown one violation, and a clean tree shows none."""
import pathlib
import tempfile

HOST = '''# The host
## The rooms
| room | holds | may include |
|---|---|---|
| base | errors | |
| config | options | |
| plugin | host | config |
| arguments | a library | |
| cli | commands | config plugin |
'''
ENGINE = '''# The engine
## The rooms
| room | holds | may include |
|---|---|---|
| *no LibTorch header above this line* | | |
| comm (link) | groups | config |
| strategy | strategies | comm |
| shard | engine | comm strategy |
'''
CLEAN = {
    'README.md': 'See [the rooms](docs/host.md) and `core/host/base/*.cc`; run `build/cpu/bin/capstan`.\n',
    'core/host/base/clean.cc': '''#include <capstan/base/clean.h>
// getenv("A"), exit(1) and printf("x") in a comment, or in "a string with std::cout", are no fault.
namespace {
constexpr int kSize = 3;
__extension__ using Wide = unsigned __int128;
const char* const kName = "getenv(exit(1))";
enum class Colour { red, green };
struct Pair {
  int first = 0;
  std::vector<int> second{};
};
int helper(const std::vector<int>& values = {});
}  // namespace
Thing::Thing(int a) : a_{a}, b_(a) {
  static const int table[] = {1, 2};
  static constexpr int other = 4;
  group->exit(a);
}
''',
    'core/host/base/log.cc': 'static int level = 0;\n',
    'core/host/cli/main.cc': 'int main() { getenv("HOME"); exit(0); }\n',
    'core/include/capstan/base/clean.h': '#pragma once\n#include <map>\n#include <string>\n',
    'core/include/capstan/comm/clean.h': '#include <ATen/core/Tensor.h>\n#include <c10/util/Half.h>\n',
    'core/include/capstan/comm/clean.cuh': '#include <capstan/comm/clean.h>\n#include <cuda_bf16.h>\n',
    **{f'core/{room}/idea.cc': 'int idea();\n' for room in ('host/config', 'host/plugin', 'engine/strategy', 'engine/shard')},
    'core/include/capstan/link/clean.h': '#include <capstan/comm/clean.h>\n',
    'core/arguments/arguments.cc': '#include <CLI/CLI.hpp>\n',
    'models/gpt/gpt.cc': '#include <capstan/data.h>\nint gpt() { return "gpt"; }\n',
    'tests/unit/base/plain.cc': '// So many words that they overflow are recommended; amend `nobody`, one of which is 0.\nint f();\n',
    'core/engine/comm/ring_cuda.cc': '#include <nccl.h>\n#include <capstan/config/options.h>\n',
    'core/engine/shard/mover.h': 'struct Load {\n  int weight = 0;\n};\nclass Mover {\n public:\n  void move(const Load& what);\n};\n',
    'core/engine/shard/mover.cc': '#include "shard/mover.h"\nvoid Mover::move(const Load& what) { send(what); }\n',
    'docs/walks.md': '# Walks\n## A gradient: of a test\n`Mover::move` moves a `Load` ([mover.cc](../core/engine/shard/mover.cc)).\n## Another\n`Mover::gone`\n',
    'plugins/data/mine/mine.cc': '#include <capstan/data.h>\n#include "mine.h"\n#include <spdlog/spdlog.h>\n',
}
LONG = 'void long_one() {\n' + '  step();\n' * 60 + '}\n'

# name of the case: (file, text, part of the finding)
BROKEN = {
    'private include': ('core/host/config/a.cc', '#include "comm/group.h"\n', 'core/host/config/a.cc:1: includes comm/group.h: room config may not include room comm'),
    'public include': ('core/engine/comm/a.cc', '\n#include <capstan/shard/engine.h>\n', 'core/engine/comm/a.cc:2: includes capstan/shard/engine.h'),
    'room that leads back': ('docs/engine.md', ENGINE.replace('| groups | config |', '| groups | config shard |'), 'docs/engine.md: room comm includes room shard, which stands below it'),
    'room of a folder': ('core/host/cli/a.cc', '#include <capstan/link/clean.h>\n', 'room cli may not include room comm'),
    'other storey': ('core/engine/cli/a.cc', 'int f();\n', 'stands in the table of the host'),
    'umbrella below': ('core/engine/comm/a.cc', '#include <capstan/model.h>\n', 'umbrella'),
    'room without a folder': ('docs/engine.md', ENGINE + '| attic | old things | |\n', 'room attic has no folder'),
    'room of the host without a folder': ('docs/host.md', HOST + '| attic | old things | |\n', 'docs/host.md: room attic has no folder'),
    'many branches': ('core/engine/comm/a.cc', 'void f(int a) {\n' + '  if (a) g();\n' * 12 + '}\n', 'f has 13 branches'),
    'many parameters': ('core/engine/comm/a.cc', 'void f(int a, int b, int c, int d, int e, int g, int h) { k(); }\n', 'f has 7 parameters'),
    'many members': ('core/engine/comm/a.cc', 'struct S {\n' + ''.join(f'  int m{i} = 0;\n' for i in range(16)) + '};\n', 'S has 16 data members'),
    'option of a plugin': ('core/engine/comm/a.cc', 'void f() { throw "set strategy.mine.rank"; }\n', 'names a plugin: strategy.mine.'),
    'plugin in a literal': ('core/host/cli/a.cc', 'int f() { return "as gpt does"; }  // gpt\n', 'names a plugin: gpt in as gpt does'),
    'plugin in a name': ('core/engine/comm/a.cc', 'int of(GptModel a);\n', 'names a plugin: gpt in GptModel'),
    'plugin in a file': ('core/engine/comm/peft_files.cc', 'int f();\n', 'names a plugin: peft in its name'),
    'unused option': ('docs/configuration.md', '## [run]\n| `idle` | boolean |\n', 'docs/configuration.md:2: lists idle, which nothing uses'),
    'unknown room': ('core/engine/attic/a.cc', 'int f();\n', 'room attic is not in the table'),
    'LibTorch above the line': ('core/include/capstan/config/a.h', '#include <ATen/core/Tensor.h>\n', 'the line'),
    'third party in public header': ('core/include/capstan/comm/a.h', '#include <spdlog/spdlog.h>\n', 'public headers'),
    'third party in public header of kernels': ('core/include/capstan/comm/a.cuh', '#include <spdlog/spdlog.h>\n', 'public headers'),
    'system header in public header': ('core/include/capstan/comm/a.h', '#include <unistd.h>\n', 'public headers'),
    'arguments by another door': ('plugins/data/mine/a.cc', '#include <CLI/CLI.hpp>\n', 'only core/arguments/arguments.cc includes CLI/'),
    'JSON by another door': ('plugins/data/mine/a.cc', '#include <nlohmann/json.hpp>\n', 'only core/json/parse.cc includes nlohmann/'),
    'CUDA outside': ('core/engine/comm/a.cc', '#include <cuda_runtime.h>\n', 'gpu fence'),
    'NCCL outside': ('tests/unit/comm/a.cc', '#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>\n', 'gpu fence'),
    'torch.h in a header': ('plugins/data/mine/a.h', '#include <torch/torch.h>\n', 'torch/torch.h'),
    'plugin reads core': ('models/gpt/a.cc', '#include "comm/group.h"\n', 'plugin fence'),
    'plugin reads another': ('plugins/data/mine/a.cc', '#include "../other/a.h"\n', 'plugin fence'),
    'environment': ('core/engine/comm/a.cc', 'void f() {\n  std::getenv("A");\n}\n', 'core/engine/comm/a.cc:2: reads the environment'),
    'environment in a plugin': ('models/gpt/a.cc', 'auto a = getenv("A");\n', 'reads the environment'),
    'files': ('core/engine/comm/a.cc', 'bool f() { return fs::exists(folder / name()); }\n', 'asks the file system without an error code'),
    'exit': ('core/engine/comm/a.cc', 'void f() { ::_exit(1); }\n', 'ends the process'),
    'exit of std': ('core/engine/comm/a.cc', 'void f() { std::exit(1); }\n', 'ends the process'),
    'stream': ('core/engine/comm/a.cc', 'void f() { std::cout << 1; }\n', 'prints'),
    'printf of a command': ('core/host/cli/a.cc', 'void f() { std::printf("a"); }\n', 'prints by itself'),
    'printf': ('core/engine/comm/a.cc', 'void f() { printf("a"); }\n', 'prints'),
    'fprintf': ('core/engine/comm/a.cc', 'void f() { std::fprintf(stderr, "a"); }\n', 'prints'),
    'thread_local': ('core/engine/comm/a.cc', 'namespace {\nthread_local int depth = 0;\n}\n', 'core/engine/comm/a.cc:2: has a thread_local'),
    'static in a function': ('core/engine/comm/a.cc', 'int f() {\n  if (a) {\n    static int n{0};\n  }\n  return 1;\n}\n', 'core/engine/comm/a.cc:3: has a mutable static'),
    'static in a class': ('core/include/capstan/comm/a.h', 'class A {\n public:\n  static std::map<int, int> all;\n};\n', 'a.h:3: has a mutable static'),
    'global': ('core/engine/comm/a.cc', 'namespace capstan::comm {\nstd::atomic<bool> stop{false};\n}\n', 'core/engine/comm/a.cc:2: has a mutable static'),
    'global function object': ('core/engine/comm/a.cc', 'std::function<void(int)> hook;\n', 'has a mutable static'),
    'long file': ('core/engine/comm/a.cc', 'int f();\n' * 401, 'has 401 lines'),
    'long function': ('core/engine/comm/a.cc', 'int a();\n' + LONG, 'core/engine/comm/a.cc:2: long_one has 62 lines'),
    'long method': ('core/include/capstan/comm/a.h', 'class A : B<C(int)> {\n public:\n' + LONG + '};\n', 'long_one has 62 lines'),
    'long test': ('tests/unit/comm/a.cc', LONG.replace('void long_one()', 'TEST_CASE("a {")'), 'TEST_CASE has 62 lines'),
    'dead link': ('README.md', 'see [it](docs/gone.md)\n', 'README.md:1: names docs/gone.md'),
    'dead relative link': ('docs/more.md', '\nsee [it](../core/gone/a.cc)\n', 'docs/more.md:2: names ../core/gone/a.cc'),
    'dead path': ('docs/more.md', 'run `tools/gone now`\n', 'names tools/gone'),
    'dead pattern': ('docs/more.md', 'all of configs/gone-*.toml\n', 'names configs/gone-*.toml'),
    'a word of place for time': ('core/engine/comm/a.cc', '// Behind the warm-up.\nint f();\n', 'core/engine/comm/a.cc:1: says "Behind"'),
    'a word in a message': ('plugins/data/mine/a.cc', 'void f() { throw "the run goes on"; }\n', 'continues, resumes'),
    'a word in a document': ('docs/more.md', '\nwho takes the seat\n', 'docs/more.md:2: says "seat"'),
    'a type of old': ('core/engine/comm/a.cc', 'void f(Lane& side) { g(side); }\n', 'SideStream'),
    'an ellipsis': ('tests/unit/comm/a.cc', 'int a();\nint f();  // Of the ranks none.\n', 'tests/unit/comm/a.cc:2: says "Of the"'),
    'a refused word in a message': ('plugins/data/mine/a.cc', 'void f() {\n  throw "there are so "\n        "many of them";\n}\n', 'plugins/data/mine/a.cc:2: says "so many"'),
    'a refused word in a header': ('core/include/capstan/comm/a.h', '#pragma once\n/// Nobody\n/// calls it.\nint f();\n', 'core/include/capstan/comm/a.h:2: says "Nobody"'),
    'a word on two lines': ('tests/unit/comm/a.cc', 'int a();\n// Three ranks, of\n// which two fail.\n', 'tests/unit/comm/a.cc:2: says "of which"'),
    'a refused word in Python': ('tests/more.py', 'NAME = "nobody"\n# Begins anew.\n', 'tests/more.py:2: says "anew"'),
    'a refused word in CMake': ('tests/CMakeLists.txt', 'set(a 1)   # nobody reads it\n', 'no rank, no caller'),
    'a refused word in a script': ('tools/more', '#!/bin/sh\ntrue\n# so many times\n', 'tools/more:3: says "so many"'),
    'a refused word in a page': ('README.md', 'It\nis mended.\n\n    mend code\n', 'README.md:2: says "mended"'),
    'a walk without a type': ('docs/walks.md', '# Walks\n## A gradient: x\n`Mover::move` ([it](../core/engine/shard/mover.cc))\n',
                              'docs/walks.md:2: the walk "A gradient: x" does not name Load, which Mover::move uses'),
    'a walk without a file': ('docs/walks.md', '## A gradient: x\n`Load` ([it](../core/engine/shard/idea.cc))\n', 'names Load, which no file declares that it links'),
    'a walk with an old function': ('docs/walks.md', '## A gradient: x\n`Mover::gone`, `Load` ([it](../core/engine/shard/mover.h))\n',
                                    'names Mover::gone, which no file defines that it links'),
    'stale exception': ('tools/house-allow.txt', 'core/host/base/clean.cc file it was long once\n', 'not needed any more'),
    'exception without reason': ('tools/house-allow.txt', 'core/host/base/clean.cc file\n', 'gives no reason'),
}
MORE_ROOMS = [f'{letter}room' for letter in 'abcdefghij']
# The same with several files each.
LARGE = {
    'many words': ({'docs/more.md': 'word ' * 44_000, 'docs/engine.md': ENGINE + 'word ' * 44_000, 'README.md': 'word ' * 1_001},
                   'docs/more.md: README and the pages for users have 45,001 words'),
    'many rooms': ({'docs/engine.md': ENGINE + ''.join(f'| {room} | one more | |\n' for room in MORE_ROOMS),
                    **{f'core/engine/{room}/a.cc': 'int f();\n' for room in MORE_ROOMS}}, 'the engine has 13 rooms'),
    'a walk of many files': ({'docs/walks.md': '## A gradient: x\n' + ''.join(f'[it](../core/engine/shard/a{i}.cc)\n' for i in range(11)),
                              **{f'core/engine/shard/a{i}.{end}': 'int f();\n' for i in range(11) for end in ('cc', 'h')}},
                             'the walk "A gradient: x" leads through 11 files'),
    'a walk of many types': ({'docs/walks.md': '## A gradient: x\n[it](../core/engine/shard/a.h)\n' + ''.join(f'`T{i}`\n' for i in range(19)),
                              'core/engine/shard/a.h': ''.join(f'struct T{i} {{\n  int a;\n}};\n' for i in range(19))},
                             'the walk "A gradient: x" has 19 types (T0, T1'),
    'large room': ({f'core/engine/comm/a{i}.cc': 'int f();\n' * 340 for i in range(15)}, 'room comm has 5102 lines'),
    'large host': ({f'core/host/{room}/a{i}.cc': 'int f();\n' * 340 for i in range(14) for room in ('base', 'config', 'plugin')},
                   'core/host: has 14'),
}
EXCUSED = {
    'core/engine/comm/a.cc': LONG + 'void f() { printf("a"); }\n',
    'tools/house-allow.txt': '# path what reason\ncore/engine/comm/a.cc long_one one table\ncore/engine/comm/a.cc printing the one place\n',
}


def _findings(files, findings):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {'docs/host.md': HOST, 'docs/engine.md': ENGINE, **CLEAN, **files}.items():
            file = pathlib.Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding='utf-8')
        return [str(finding) for finding in findings(folder)]


def run(findings):
    faults = []
    for name, files in {'clean tree': {}, 'excused': EXCUSED}.items():
        faults += [f'{name}: {found}' for found in _findings(files, findings)]
    for name, (files, expected) in {**{name: ({path: text}, expected) for name, (path, text, expected) in BROKEN.items()}, **LARGE}.items():
        found = _findings(files, findings)
        if len(found) != 1 or expected not in found[0]:
            faults.append(f'{name}: expected one finding with "{expected}", got {found}')
    print('\n'.join(faults) if faults else f'check-house: {len(BROKEN) + len(LARGE) + 2} cases, every rule finds its violation')
    return 1 if faults else 0
