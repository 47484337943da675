"""Runs scripts for the tests, each in a process that begins with what is imported already: torch and transformers take seconds.

    serve.py    the standard input is a socket. A line that comes is JSON: {"script", "arguments", "output"}, perhaps "input",
                and the answer a line with the exit status of the script (less than 0: the signal that ended it), which has
                read the file "input" and printed to the file "output". Ends with the socket.

A script runs in a fork of this process, so that nothing it does is there for another. What it imports at its top is imported
here before, but for what changes other packages.
"""
import ast
import gc
import json
import os
import pathlib
import socket
import subprocess
import sys
import traceback
import types

APART = {"trl", "datasets"}


def packages(node):
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.split(".")[0] for name in names}


def prepared(script):
    """The script's code. What fails here fails when it runs too, which is where it is told."""
    try:
        text = pathlib.Path(script).read_text()
        for node in ast.parse(text).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and not packages(node) & APART:
                exec(compile(ast.Module([node], []), script, "exec"), {})
        code = compile(text, script, "exec")
    except Exception:
        code = None
    gc.collect()
    gc.freeze()   # a fork that looks for garbage would copy all pages of what is there
    return code


def run(code, script, arguments, output, input=os.devnull):
    """As `python3 script arguments… <input >output 2>&1` would; returns the exit status."""
    os.dup2(os.open(input, os.O_RDONLY), 0)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.dup2(1, 2)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(pathlib.Path(script).resolve().parent))
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = script
    try:
        exec(code or compile(pathlib.Path(script).read_text(), script, "exec"), module.__dict__)
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
    except BaseException:   # as the interpreter says what a script has not caught
        traceback.print_exc()
    return 1


def in_fork(code, job):
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    status = 1
    try:
        status = run(code, **job)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status & 0xFF)   # without the seconds in which torch is taken down


def in_own(job):
    """What imports nothing that takes long has an interpreter of its own, whose threads no fork has lost."""
    with open(job["output"], "wb") as out:
        return subprocess.call([sys.executable, job["script"], *job["arguments"]], stdin=subprocess.DEVNULL, stdout=out, stderr=out)


def takes_long(script):
    return pathlib.Path(script).stem not in ("tokenizer_speed", "trackers", "wandb_online")


def main():
    jobs = socket.socket(fileno=os.dup(0))
    codes = {}
    for line in jobs.makefile("r", encoding="utf-8"):
        job = json.loads(line)
        script = job["script"]
        if takes_long(script) and script not in codes:
            codes[script] = prepared(script)
        status = in_fork(codes[script], job) if script in codes else in_own(job)
        jobs.sendall(f"{status}\n".encode())


if __name__ == "__main__":
    main()
