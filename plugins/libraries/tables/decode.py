"""Writes the rows of tables as JSON lines: python3 -c THIS, with a request as JSON on standard input.

{"files": […], "output": FILE, "leave_out": [COLUMN…]} writes all rows of these files, one after the other, a JSON object
a line, and last a line {"rows": […]} with the number of each file's rows. What is wrong is printed as {"file", "row",
"what", "fix"} with exit status 3. A dot on standard error is a sign of life.
"""
import sys
sys.path = [path for path in sys.path if path]   # nothing of the current folder is meant by an import
import json
import math
import os

ROWS = 1024   # that are in memory at once
FETCH = 'fetch it again, or write it again'
COMPRESSIONS = {'.gz': 'gzip', '.bz2': 'bz2', '.xz': 'xz', '.zst': 'zstd'}
TEXTS = ('.jsonl', '.json', '.csv', '.tsv')
TABLES = ('.parquet', '.arrow')


class Fault(Exception):
    """What is wrong with a file, in words."""

    def __init__(self, what, fix, file=None, row=None):
        super().__init__(what)
        self.said = {'what': what, 'fix': fix, 'file': file, 'row': row}


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def alive():
    sys.stderr.write('.')
    sys.stderr.flush()


def arrow():
    try:
        import pyarrow
        import pyarrow.parquet   # noqa: F401
    except ImportError as error:
        raise Fault(f'{sys.executable} has no pyarrow that can be used: {first_line(error)}',
                    f'{sys.executable} -m pip install pyarrow, or set data.python to a Python that has it') from None
    version = int(pyarrow.__version__.split('.')[0])
    if version < 14:
        raise Fault(f'{sys.executable} has pyarrow {pyarrow.__version__}, and 14 is the oldest that is read with',
                    f'{sys.executable} -m pip install --upgrade pyarrow')
    return pyarrow


# Values. A converter makes of what pyarrow gives what JSON has; None: that is the same.

def of_list(inner):
    return inner and (lambda values: [None if value is None else inner(value) for value in values])


def of_struct(inner):
    """Null keys are left out: Arrow gives every struct all keys."""
    def convert(values):
        return {key: inner[key](value) if inner.get(key) else value for key, value in values.items() if value is not None}
    return convert


def of_map(key, inner):
    return lambda pairs: {str(key(k) if key else k): inner(v) if inner and v is not None else v for k, v in pairs}


def number(value):
    """pandas writes what is missing as NaN."""
    value = float(value)
    if math.isinf(value):
        raise ValueError(f'{value} is no number in JSON')
    return None if math.isnan(value) else value


def extension_of(field):
    name = getattr(field.type, 'extension_name', None) or (field.metadata or {}).get(b'ARROW:extension:name', b'').decode()
    return name if name.startswith('arrow.') else name and 'other'


def converter(pa, field, name):
    types = pa.types
    kind = field.type
    if extension_of(field) == 'arrow.json':
        return json.loads
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return converter(pa, pa.field(field.name, kind.value_type), name)
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind) or is_text(types, kind):
        return None
    if types.is_floating(kind):
        return number
    if types.is_decimal(kind):
        return lambda value: format(value, 'f')
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return lambda value: value.isoformat()
    if types.is_struct(kind):
        return of_struct({inner.name: converter(pa, inner, f'{name}.{inner.name}') for inner in kind})
    if types.is_map(kind):
        return of_map(converter(pa, kind.key_field, f'{name}{{}}'), converter(pa, kind.item_field, f'{name}{{}}'))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or 'list_view' in str(kind):
        return of_list(converter(pa, kind.value_field, f'{name}[]'))
    raise Fault(f"the column '{name}' is of type {kind}, which is no text, number, list or object",
                f'set data.leave_out = ["{name.split(".")[0].split("[")[0]}"], or write the column as text')


def is_text(types, kind):
    return types.is_string(kind) or types.is_large_string(kind) or str(kind) == 'string_view'


# Rows: iterators of JSON texts.

def rows_of_batch(pa, batch, leave_out, first):
    fields = [(i, field) for i, field in enumerate(batch.schema) if field.name not in leave_out]
    columns = []
    for i, field in fields:
        convert = converter(pa, field, field.name)
        try:
            values = batch.column(i).to_pylist()
            columns.append([None if value is None else convert(value) for value in values] if convert else values)
        except (ValueError, OverflowError) as error:
            raise broken_value(batch.column(i), field, convert, first, error) from None
    names = [json.dumps(field.name, ensure_ascii=False) + ':' for _, field in fields]
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(',', ':')).encode
    for row in range(batch.num_rows):
        yield '{' + ','.join(name + encode(values[row]) for name, values in zip(names, columns) if values[row] is not None) + '}'


def broken_value(column, field, convert, first, error):
    for row in range(len(column)):
        try:
            value = column[row].as_py()
            if value is not None and convert:
                convert(value)
        except (ValueError, OverflowError) as reason:
            return Fault(f"the column '{field.name}' has a value that is no {field.type} of JSON: {first_line(reason)}",
                         'write the value again, or take the row out', row=first + row + 1)
    return Fault(f"the column '{field.name}' cannot be read: {first_line(error)}", FETCH)


def batches_of_parquet(pa, path):
    from pyarrow import parquet
    try:
        opened_file = parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True)
    except TypeError:   # pyarrow 14 does not know checksums
        opened_file = parquet.ParquetFile(path, memory_map=True)
    with opened_file as file:
        yield from file.iter_batches(batch_size=ROWS)


def batches_of_arrow(pa, path):
    """A file, or the stream that datasets writes into its cache."""
    with pa.memory_map(path) as source:
        if source.size() >= 6 and source.read(6) == b'ARROW1':
            file = pa.ipc.open_file(source)
            batches = (file.get_batch(i) for i in range(file.num_record_batches))
        else:
            source.seek(0)
            batches = pa.ipc.open_stream(source)
        for batch in batches:
            for begin in range(0, batch.num_rows, ROWS):
                yield batch.slice(begin, ROWS)


def rows_of_table(path, leave_out):
    pa = arrow()
    kind = 'Parquet' if kind_of(path)[0] == '.parquet' else 'Arrow'
    row = 0
    try:
        for batch in (batches_of_parquet if kind == 'Parquet' else batches_of_arrow)(pa, path):
            yield from rows_of_batch(pa, batch, leave_out, row)
            row += batch.num_rows
            alive()
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise Fault(f'it cannot be read: {os.strerror(error.errno)}', 'make it readable') from None
        raise Fault(f'it is no {kind} file that can be read: {first_line(error)}', FETCH, row=row + 1 if row else None) from None


def opened(path, compression):
    if compression == 'gzip':
        import gzip
        return gzip.open(path, 'rb')
    if compression == 'bz2':
        import bz2
        return bz2.open(path, 'rb')
    if compression == 'xz':
        import lzma
        return lzma.open(path, 'rb')
    if compression == 'zstd':
        pa = arrow()
        return pa.CompressedInputStream(pa.OSFile(path), 'zstd')
    return open(path, 'rb')


def lines_of(source):
    """A text's lines, without a byte-order mark. Not every stream knows readline."""
    rest = b''
    while True:
        part = source.read(1 << 20)
        alive()
        lines = (rest + part).split(b'\n')
        if not part:
            yield from lines
            return
        rest = lines.pop()
        yield from lines


def rows_of_json(source):
    first = True
    for line in lines_of(source):
        line = line.removeprefix(b'\xef\xbb\xbf') if first else line
        if line.strip() and first and line.lstrip().startswith(b'['):
            yield from rows_of_json_list(line + b'\n' + b'\n'.join(lines_of(source)))
            return
        first = first and not line.strip()
        if line.strip():
            yield line.decode('utf-8').strip()


def rows_of_json_list(text):
    for row in json.loads(text):
        yield json.dumps(row, ensure_ascii=False, separators=(',', ':'))


def rows_of_csv(source, delimiter):
    import csv
    csv.field_size_limit(sys.maxsize)
    lines = (line.decode('utf-8') + '\n' for line in lines_of(source))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    names = [name.removeprefix('\ufeff') for name in next(reader, [])]
    if len(set(names)) != len(names) or not all(names):
        raise Fault('its first line does not name each column once', 'begin it with a line of column names')
    for number_of_row, values in enumerate(reader, 1):
        if not values:
            continue
        if len(values) != len(names):
            raise Fault(f'it has {len(values)} values, and there are {len(names)} columns', 'write the row again', row=number_of_row)
        yield json.dumps(dict(zip(names, values)), ensure_ascii=False, separators=(',', ':'))


def rows_of_text(path, leave_out):
    kind, compression = kind_of(path)
    row = 0
    try:
        with opened(path, compression) as source:
            rows = rows_of_csv(source, '\t' if kind == '.tsv' else ',') if kind in ('.csv', '.tsv') else rows_of_json(source)
            for text in rows:
                if leave_out:
                    text = json.dumps({key: value for key, value in json.loads(text).items() if key not in leave_out}, ensure_ascii=False)
                row += 1
                yield text
    except Fault:
        raise
    except Exception as error:   # each library has its own for a damaged file
        what = f'it is no {compression or kind[1:]} file that can be read: {first_line(error)}'
        raise Fault(what, FETCH, row=row + 1) from None


def kind_of(path):
    """('.csv', 'gzip') of a.csv.gz; a file without a name of its own in the hub's cache is known by its first bytes."""
    base, extension = os.path.splitext(path.lower())
    compression = COMPRESSIONS.get(extension)
    kind = os.path.splitext(base)[1] if compression else extension
    if kind in TEXTS + TABLES:
        return kind, compression
    with open(path, 'rb') as file:
        begin = file.read(6)
    known = '.parquet' if begin[:4] == b'PAR1' else '.arrow' if begin == b'ARROW1' else None
    if known is None:
        raise Fault('it is none of the files that are known: Parquet, Arrow, JSON lines, JSON, CSV, maybe with .gz, .bz2, .xz or .zst',
                    'give it the ending of what it is')
    return known, None


def decode(request):
    leave_out = set(request['leave_out'])
    counts = []
    with open(request['output'], 'w', encoding='utf-8', newline='\n') as out:
        for path in request['files']:
            rows = 0
            try:
                source = rows_of_table if kind_of(path)[0] in TABLES else rows_of_text
                for text in source(path, leave_out):
                    write(out, text + '\n', request['output'])
                    rows += 1
            except Fault as fault:
                fault.said['file'] = fault.said['file'] or path
                raise
            except OSError as error:
                raise Fault(f'it cannot be read: {os.strerror(error.errno or 5)}', 'make it readable', path) from None
            counts.append(rows)
        write(out, json.dumps({'rows': counts}) + '\n', request['output'])
        write(out, None, request['output'])


def write(out, text, path):
    try:
        out.flush() if text is None else out.write(text)
    except UnicodeEncodeError as error:
        raise Fault(f'a text has half of a surrogate pair: {first_line(error)}', 'write the row again') from None
    except OSError as error:
        raise Fault(f'its decoded rows cannot be written to {os.path.dirname(path)}: {os.strerror(error.errno or 5)}',
                    'free some space, or set data.derived to another folder') from None


def main():
    try:
        decode(json.load(sys.stdin))
    except Fault as fault:
        print(json.dumps(fault.said))
        sys.exit(3)
    print('{}')


main()
