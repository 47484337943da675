"""The eight kinds of plugins that capstan-new-plugin makes: made, built outside of the tree, tested, opened by the program."""
from bench import HERE, check_words

PLURAL = {'strategy': 'strategies', 'model': 'models', 'optimizer': 'optimizers', 'objective': 'objectives', 'data': 'data',
          'tokenizer': 'tokenizers', 'monitor': 'monitors', 'command': 'commands'}


def make_plugins(bench):
    made = []
    for kind in PLURAL:
        output = bench.run(bench.prefix / 'bin/capstan-new-plugin', kind, f'own_{kind}', '--out', bench.folder / 'out')
        call = f'{bench.program} own_command' if kind == 'command' else f'{bench.program} check own_{kind}.toml'
        check_words(output, f'made {bench.folder}/out/own_{kind}/own_{kind}.cc', call)
        made.append(bench.folder / 'out' / f'own_{kind}')
    return made


def build_outside(bench, made, name='build', *options):
    bench.configure(HERE / 'project', name, f'-DGENERATED={";".join(map(str, made))}', '-DCMAKE_EXPORT_COMPILE_COMMANDS=ON', *options)
    bench.ninja(name)


def test_outside(bench, made, name='build'):
    bench.run('ctest', '--test-dir', bench.folder / name, '--output-on-failure', '--no-tests=error')
    for folder in made:
        kind = folder.name.removeprefix('own_')
        text = bench.run(bench.program, 'plugins', folder.name, CAPSTAN_PLUGIN_PATH=str(bench.folder / name / 'plugins'))
        check_words(text, f'{folder.name} ({kind}, 0.1.0)', f'{name}/plugins/{kind}/{folder.name}.so')
