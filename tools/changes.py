"""What changed in the tree since a commit, for checks that look only at that."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*arguments):
    run = subprocess.run(['git', *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else ''


def base():
    """Where this branch began; on the main branch itself the commit before. Nothing where there is no history."""
    fork = git('merge-base', 'HEAD', 'origin/HEAD') or git('merge-base', 'HEAD', 'origin/main')
    return fork if fork and fork != git('rev-parse', 'HEAD') else git('rev-parse', 'HEAD~1')


def changed(since):
    """Files that differ from that commit, what is not committed yet included; all of them without a commit."""
    names = git('diff', '--name-only', '--diff-filter=ACMR', since).splitlines() if since else git('ls-files').splitlines()
    return names + git('ls-files', '--others', '--exclude-standard').splitlines()
