#!/usr/bin/env python3
"""wandb_online.py OUT CAPSTAN ARGUMENTS… [-- ARGUMENTS…]: starts the program with each list of arguments, one after the
other, while a small server on this host stands for W&B's, and writes to OUT, as JSON, what wandb's own client has sent.

The server answers what the client asks before and while it sends a run's rows; it is not W&B's, and judges nothing.
runs: by id the rows of its history and its exit code; starts: by start the program's output and exit code."""
import gzip
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

KEY = '0123456789abcdef0123456789abcdef01234567'


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that goes away is none."""

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.runs = {}
        self.address = f'http://127.0.0.1:{self.server_address[1]}'
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer({})

    def do_PUT(self):
        self.body()
        self.answer({})

    def do_POST(self):
        body = self.body()
        if self.path.endswith('/graphql'):
            request = json.loads(body)
            self.answer({'data': self.asked(request['query'], request.get('variables') or {})})
        elif self.path.endswith('/file_stream'):
            self.take(self.server.runs[self.path.split('/')[-2]], json.loads(body))
            self.answer({})
        else:
            self.answer({})

    def body(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        return gzip.decompress(body) if self.headers.get('Content-Encoding') == 'gzip' else body

    def answer(self, what):
        text = json.dumps(what).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def asked(self, query, variables):
        found = re.search(r'(?:query|mutation)\s+(\w+)', query)
        operation = found.group(1) if found else ''
        name = variables.get('name')
        if operation == 'UpsertBucket':
            run = self.server.runs.setdefault(name, {'rows': [], 'exit': None, 'starts': 0})
            if variables.get('displayName'):
                run.update(name=variables['displayName'], project=variables['project'], config=json.loads(variables['config']))
                run['starts'] += 1
            project = {'id': 'p', 'name': variables.get('project'), 'entity': {'id': 'e', 'name': 'someone'}}
            return {'upsertBucket': {'inserted': True, 'bucket': {
                'id': name, 'name': name, 'displayName': run['name'], 'description': '', 'config': '{}', 'sweepName': None,
                'historyLineCount': len(run['rows']), 'project': project}}}
        if operation == 'RunResumeStatus':
            return {'model': {'id': 'p', 'name': variables.get('project'), 'entity': {'id': 'e', 'name': 'someone'},
                              'bucket': self.bucket(name)}}
        if operation == 'Viewer':
            return {'viewer': {'id': 'v', 'username': 'someone', 'entity': 'someone', 'flags': '{}', 'email': '', 'teams': {'edges': []}},
                    'serverInfo': {'cliVersionInfo': None, 'latestLocalVersionInfo': None}}
        if operation.startswith('Server'):
            return {'serverInfo': {'features': [], 'cliVersionInfo': {'max_cli_version': '99'}}}
        if operation == 'CreateRunFiles':
            return {'createRunFiles': {'runID': variables.get('run'), 'uploadHeaders': [], 'files': [
                {'name': file, 'uploadUrl': f'{self.server.address}/files/{file}'} for file in variables['files']]}}
        return {}

    def bucket(self, name):
        if name not in self.server.runs:
            return None
        rows = self.server.runs[name]['rows']
        return {'name': name, 'displayName': name, 'summaryMetrics': rows[-1], 'historyLineCount': len(rows),
                'historyTail': json.dumps(rows[-1:]), 'eventsLineCount': 0, 'eventsTail': '[]', 'logLineCount': 0,
                'config': '{}', 'tags': [], 'wandbConfig': '{"t": 1}'}

    @staticmethod
    def take(run, sent):
        history = sent.get('files', {}).get('wandb-history.jsonl')
        if history:
            run['rows'][history['offset']:] = history['content']
        if sent.get('complete'):
            run['exit'] = sent['exitcode']


def lists(arguments):
    found = [[]]
    for argument in arguments:
        found.append([]) if argument == '--' else found[-1].append(argument)
    return found


def main():
    out, program = sys.argv[1:3]
    server = Server()
    environment = {**os.environ, 'WANDB_BASE_URL': server.address, 'WANDB_API_KEY': KEY, 'NO_PROXY': '127.0.0.1'}
    starts = []
    for arguments in lists(sys.argv[3:]):
        ended = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=600)
        starts.append({'output': ended.stdout + ended.stderr, 'status': ended.returncode})
    for run in server.runs.values():
        run['rows'] = [json.loads(row) for row in run['rows']]
    pathlib.Path(out).write_text(json.dumps({'runs': server.runs, 'starts': starts, 'key': KEY}), encoding='utf-8')


if __name__ == '__main__':
    main()
