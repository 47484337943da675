#!/usr/bin/env python3
"""trackers.py KIND FOLDER OUT: writes to OUT, as JSON, what a tracker's own reader finds in what a run has left.

tensorboard FOLDER   of event files: scalars by tag as [[step, value], …], texts
wandb FOLDER         offline-run-…: records by kind, the run, its config, history and summary
mlflow FOLDER        mlruns: experiments with their runs
csv FILE             rows; an empty cell is none
wandb-sync FOLDER    the runs that `wandb sync` would send
"""
import csv
import json
import os
import pathlib
import sys


def read_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder), size_guidance={'scalars': 0, 'tensors': 0})
    events.Reload()
    tags = events.Tags()
    texts = {}
    for tag in tags['tensors']:
        texts[tag] = events.Tensors(tag)[0].tensor_proto.string_val[0].decode()
    return {'scalars': {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags['scalars']}, 'texts': texts}


def items(records):
    return {item.key: json.loads(item.value_json) for item in records}


def read_wandb(folder):
    import wandb
    wandb._assert_is_internal_process = True
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore
    found = {'records': [], 'history': [], 'stats': [], 'summary': {}, 'exit': None, 'metrics': []}
    store = DataStore()
    store.open_for_scan(str(next(pathlib.Path(folder).glob('run-*.wandb'))))
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof('record_type')
        found['records'].append([record.num, kind])
        if kind == 'run':
            run = record.run
            found['run'] = {'id': run.run_id, 'name': run.display_name, 'project': run.project, 'entity': run.entity,
                            'group': run.run_group, 'host': run.host, 'resumed': run.resumed}
            found['config'] = items(run.config.update)
        elif kind == 'history':
            found['history'].append({**items(record.history.item), 'num': record.history.step.num})
        elif kind == 'stats':
            found['stats'].append(items(record.stats.item))
        elif kind == 'summary':
            found['summary'] = items(record.summary.update)
        elif kind == 'metric':
            found['metrics'].append([record.metric.name or record.metric.glob_name, record.metric.step_metric])
        elif kind == 'exit':
            found['exit'] = record.exit.exit_code
    return found


def sync_finds(folder):
    """Does `wandb sync` take the folder for an offline run?"""
    from wandb.sync import get_runs
    os.chdir(pathlib.Path(folder).parent.parent)
    return [str(run.path) for run in get_runs(include_offline=True, include_online=False, include_synced=False,
                                              include_unsynced=True)]


def read_mlflow(folder):
    os.environ['MLFLOW_ALLOW_FILE_STORE'] = 'true'
    from mlflow.tracking import MlflowClient
    client = MlflowClient(tracking_uri=pathlib.Path(folder).resolve().as_uri())
    found = {}
    for experiment in client.search_experiments():
        runs = []
        for run in client.search_runs([experiment.experiment_id]):
            history = {key: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, key)] for key in run.data.metrics}
            runs.append({'name': run.info.run_name, 'status': run.info.status, 'params': run.data.params, 'tags': run.data.tags,
                         'metrics': history})
        found[experiment.name] = runs
    return found


def read_csv(file):
    with open(file, newline='', encoding='utf-8') as text:
        return [{name: float(cell) for name, cell in row.items() if cell != ''} for row in csv.DictReader(text)]


def main():
    kind, folder, out = sys.argv[1:]
    read = {'tensorboard': read_tensorboard, 'wandb': read_wandb, 'mlflow': read_mlflow, 'csv': read_csv, 'wandb-sync': sync_finds}
    found = read[kind](folder)
    pathlib.Path(out).write_text(json.dumps(found), encoding='utf-8')


if __name__ == '__main__':
    main()
