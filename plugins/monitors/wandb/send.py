# Sends an offline run by wandb's own client while it is written, and before it what earlier starts of the run have not
# sent: send.py LOG SCRATCH PROCESS INTERVAL
# LOG is the run's transaction log, SCRATCH a folder for the client's own files, PROCESS and INTERVAL what system
# metrics are sampled of, and how often in seconds. Says on standard output, a JSON object a line: {"url": …} where the
# run is; {"trouble": …} what keeps it from there, for which it tries again; {"lost": …} what W&B
# will not have, once; at the end {"sent": [logs]}, when W&B
# has all, or {"failed": …}. The client's own words go to standard error.
import glob
import json
import os
import re
import signal
import sys
import time

LOG, SCRATCH, PROCESS, INTERVAL = sys.argv[1:5]
for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
    signal.signal(asked, signal.SIG_IGN)  # the run is asked to stop, and has an end to be sent
for name in ('WANDB_DATA_DIR', 'WANDB_CACHE_DIR', 'WANDB_ARTIFACT_DIR'):
    os.environ[name] = SCRATCH
os.environ.pop('WANDB_DIR', None)

import wandb  # noqa: E402
from wandb.proto import wandb_internal_pb2  # noqa: E402

BLOCK, HEAD = 32768, 7  # the framing of LevelDB's log
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
NOT_IN_JSON = {'NaN': float('nan'), 'Infinity': float('inf'), '-Infinity': float('-inf')}

out = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)


def say(**what):
    print(json.dumps(what), file=out, flush=True)


def without_secrets(text):
    key = os.environ.get('WANDB_API_KEY')
    return re.sub('://[^/@ ]*@', '://', text.replace(key, '…') if key else text)


def described(error):
    return without_secrets(f'{type(error).__name__}: {error}')


class Log:
    """The records that are in the log so far, in their order."""

    def __init__(self, file):
        self.file = open(file, 'rb', buffering=0)
        self.at = HEAD  # after the file's own header

    def next(self):
        """None where the rest of the record is not written yet."""
        at, record = self.at, b''
        while True:
            room = BLOCK - at % BLOCK
            if room < HEAD:
                at += room
            self.file.seek(at)
            head = self.file.read(HEAD)
            if len(head) < HEAD or head[6] not in (FULL, FIRST, MIDDLE, LAST):
                return None
            size = head[4] + 256 * head[5]
            piece = self.file.read(size)
            if len(piece) < size:
                return None
            record += piece
            at += HEAD + size
            if head[6] in (FULL, LAST):
                self.at = at
                return record

    def follow(self, is_written):
        """All records to the end of the run, which is waited for where it is still written."""
        while True:
            data = self.next()
            if data is None and not is_written:
                return
            if data is None:
                time.sleep(0.5)
                continue
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            yield record.WhichOneof('record_type'), record


def values(items):
    found = {item.key: json.loads(item.value_json) for item in items}
    return {key: NOT_IN_JSON.get(value, value) if isinstance(value, str) else value for key, value in found.items()}


def settings(facts):
    """What the client would find out by itself is of this process, and not of the run."""
    wanted = {'console': 'off', 'disable_git': True, 'disable_code': True, 'save_code': False, 'host': facts.host,
              'program': 'capstan', 'x_disable_meta': True, 'x_save_requirements': False,
              'x_skip_transaction_log': True, 'x_stats_pid': int(PROCESS),
              'x_stats_sampling_interval': max(float(INTERVAL), 1)}
    return wandb.Settings(**{key: value for key, value in wanted.items() if key in wandb.Settings.model_fields})


def begin(facts):
    """Tries until the server answers: the log waits."""
    pause = 5
    while True:
        try:
            run = wandb.init(mode='online', id=facts.run_id, resume='allow', project=facts.project,
                             entity=facts.entity or None, group=facts.run_group or None, name=facts.display_name,
                             config=values(facts.config.update), dir=SCRATCH, settings=settings(facts))
            say(url=run.url)
            return run
        except Exception as error:
            say(trouble=described(error))
            try:
                wandb.teardown()  # what is left of the attempt holds the run's id
            except Exception as left:
                print(described(left), file=sys.stderr)
            time.sleep(pause)
            pause = min(2 * pause, 60)


def send(run, kind, record):
    if kind == 'metric':
        metric = record.metric
        run.define_metric(metric.name or metric.glob_name, step_metric=metric.step_metric or None)
    elif kind == 'history':
        row = values(record.history.item)
        for of_the_client in ('_runtime', '_step'):
            row.pop(of_the_client, None)
        run.log(row, step=record.history.step.num, commit=True)
    elif kind == 'summary':
        run.summary.update(values(record.summary.update))


def earlier_logs():
    """What other starts of this run have left unsent: the client knows the last row that the server has."""
    folder = os.path.dirname(LOG)
    pattern = os.path.join(glob.escape(os.path.dirname(folder)), 'offline-run-*', os.path.basename(LOG))
    return [log for log in sorted(glob.glob(pattern))
            if os.path.dirname(log) < folder and not os.path.exists(log + '.synced')]


def main():
    run, is_first_row = None, True
    earlier = earlier_logs()
    for kind, record in Log(LOG).follow(True):
        if kind == 'run':
            run = begin(record.run)
            for log in earlier:
                for earlier_kind, earlier_record in Log(log).follow(False):
                    send(run, earlier_kind, earlier_record)
        elif kind == 'exit':
            run.finish(exit_code=record.exit.exit_code)
            say(sent=[*earlier, LOG])
            return
        elif run is not None:
            if kind == 'history' and is_first_row:
                is_first_row = False
                if record.history.step.num < run.step:  # the client drops such rows
                    say(lost='it has later steps of a start before, and takes none below them')
            send(run, kind, record)


try:
    main()
except Exception as error:
    say(failed=described(error))
    sys.exit(1)
