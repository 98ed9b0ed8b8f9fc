"""Runners that are killed again and again: scripts take main, tests take started."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from ejop.experiments import Results


def killed(path, go):
    """A child works until it has finished a run or two more, and is killed."""
    before, moments = len(Results(path).done()), random.Random(str(path))
    child = os.fork()
    if child == 0:
        go(path, 1)
        os._exit(0)
    while len(Results(path).done()) == before:
        time.sleep(0.005)
    time.sleep(moments.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(go):
    """The rest of the work by ``go(path, jobs)``, after so many kills as the last argument says."""
    path, jobs, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    assert all(killed(path, go) for _ in range(kills))
    go(path, jobs)


def command(script, results, jobs=1, kills=0):
    return [sys.executable, script, *map(str, (results, jobs, kills))]


def environment():
    """So that scripts find this module."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def undisturbed(script, results):
    """The whole work at once."""
    subprocess.run(command(script, results), check=True, env=environment())


def started(script):
    """For a fixture: yields what starts a runner, and ends those of a test that failed."""
    running = []

    def start(results, jobs=1, kills=0):
        running.append(subprocess.Popen(command(script, results, jobs, kills), env=environment()))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
