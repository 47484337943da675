"""The eight kinds of plugins that capstan-new-plugin makes: made, built outside of the tree, tested, opened by the program.

Those of the two kinds that are built, tested, checked and trained by their own files elsewhere in this suite are only made
here, but with --whole and by the matrix: docs/plugins.md begins with a strategy, and the wheel's environment has a monitor.
"""
from bench import HERE, check_words

PLURAL = {'strategy': 'strategies', 'model': 'models', 'optimizer': 'optimizers', 'objective': 'objectives', 'data': 'data',
          'tokenizer': 'tokenizers', 'monitor': 'monitors', 'command': 'commands'}
BUILT_ELSEWHERE = ('strategy', 'monitor')
NAMES = {'data': 'torch'}   # a namespace of LibTorch's, which a plugin may be called as all the same


def make_plugins(bench):
    """kind -> folder."""
    made = {}
    for kind in PLURAL:
        name = NAMES.get(kind, f'own_{kind}')
        output = bench.run(bench.prefix / 'bin/capstan-new-plugin', kind, name, '--out', bench.folder / 'out')
        call = f'{bench.program} own_command' if kind == 'command' else f'{bench.program} check {name}.toml'
        check_words(output, f'made {bench.folder}/out/{name}/{name}.cc', call)
        made[kind] = bench.folder / 'out' / name
    return made


def not_elsewhere(bench, made):
    return {kind: folder for kind, folder in made.items() if bench.whole or kind not in BUILT_ELSEWHERE}


def build_outside(bench, made, name='build', *options):
    bench.configure(HERE / 'project', name, f'-DGENERATED={";".join(map(str, made.values()))}', '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON', *options)
    bench.ninja(name)


def test_outside(bench, made, name='build'):
    bench.run('ctest', '--test-dir', bench.folder / name, '--output-on-failure', '--no-tests=error')
    for kind, folder in made.items():
        text = bench.run(bench.program, 'plugins', folder.name, CAPSTAN_PLUGIN_PATH=str(bench.folder / name / 'plugins'))
        check_words(text, f'{folder.name} ({kind}, 0.1.0)', f'{name}/plugins/{kind}/{folder.name}.so')
