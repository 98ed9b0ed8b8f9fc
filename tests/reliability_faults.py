"""Faults: processes killed at random moments, full disks, a home that cannot be written, rivals.

Each fault is tried on the commands themselves; what it came to is counted.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ejop
from ejop.cli.models import load_model
from ejop.experiments import Results

KILLS = 20
COMMAND = [sys.executable, "-c", "from ejop.cli import main; main()"]
FIT = ["fit", "rows.csv", "-t", "label", "-o", "m.skops"]
#: small enough for seconds, long enough to be killed in the middle
REPRODUCE = ["reproduce", "table1", "--datasets", "digits", "--methods", "euclid", "--runs", "4"]


@dataclass(frozen=True)
class Fault:
    """What a fault came to."""

    name: str
    tried: int
    words: str
    fine: bool


@contextmanager
def place() -> Iterator[Path]:
    """A folder with rows to learn from."""
    with tempfile.TemporaryDirectory(prefix="ejop-faults-") as name:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
        frame["label"] = np.where(frame["a"] > 0, "yes", "no")
        frame.to_csv(Path(name, "rows.csv"), index=False)
        yield Path(name)


def start(args: list[str], where: Path, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(ejop.__file__).resolve().parents[1])  # the same library
    environment.update(options.pop("env", {}))
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *args], cwd=where, env=environment, **pipes, **options)


def finish(args: list[str], where: Path, **options: Any) -> tuple[int, str]:
    process = start(args, where, **options)
    _, err = process.communicate(timeout=300)
    return process.returncode, err


def left(where: Path) -> list[str]:
    return [name for name in os.listdir(where) if name.endswith(".part")]


def kill_within(process: subprocess.Popen[str], seconds: float) -> bool:
    """Kill after a while; False where it had ended by itself."""
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True
    return False


def killed_fits() -> Fault:
    """A model that is fitted again and again over itself, killed at random moments of it."""
    moments = random.Random(17)
    with place() as where:
        begun = time.perf_counter()
        code, err = finish(FIT, where)
        assert code == 0, err
        took = time.perf_counter() - begun
        whole = killed = parts = tried = 0
        while killed < KILLS and tried < 3 * KILLS:
            tried += 1
            process = start([*FIT, "--seed", str(tried)], where)
            if tried % 2:  # anywhere in it
                killed += kill_within(process, moments.uniform(0, took))
            else:  # while it saves
                while process.poll() is None and not left(where):
                    time.sleep(0.0005)
                killed += kill_within(process, moments.uniform(0, 0.01))
            parts += bool(left(where))
            whole += _loads(where / "m.skops")
        code, err = finish(FIT, where)
        clean = code == 0 and not left(where)
    fine = killed == KILLS and whole == tried and clean
    words = f"{killed} killed, half of them while they saved; the old or the new model was whole "
    words += f"{whole} of {tried} times"
    words += f"; an unfinished file was left after {parts} of them, none after an undisturbed save"
    return Fault("SIGKILL of `ejop fit` over an older model", killed, words, fine)


def _loads(path: Path) -> bool:
    try:
        load_model(path)
    except ValueError:
        return False
    return True


def killed_reproductions() -> Fault:
    """A reproduction that is killed and goes on, until all runs are there."""
    moments = random.Random(17)
    with place() as where:
        begun = time.perf_counter()
        code, err = finish([*REPRODUCE, "--results", "undisturbed.sqlite"], where)
        assert code == 0, err
        took = time.perf_counter() - begun
        expected = _errors(where / "undisturbed.sqlite")
        path, killed, lost, tried = where / "r.sqlite", 0, 0, 0
        before: dict[Any, float] = {}
        while killed < KILLS and tried < 3 * KILLS:
            tried += 1
            if len(before) == len(expected):
                path.unlink()
                before = {}
            args = [*REPRODUCE, "--results", "r.sqlite", "--jobs", str(1 + tried % 2)]
            killed += kill_within(start(args, where), moments.uniform(0.3 * took, took))
            now = _errors(path) if path.exists() else {}
            lost += len(before.items() - now.items())
            before = now
        code, err = finish([*REPRODUCE, "--results", "r.sqlite"], where)
        same = code == 0 and _errors(path) == expected
    words = f"{killed} killed; {lost} finished runs lost; the tables at the end are "
    words += "those of an undisturbed run" if same else "others"
    return Fault(
        "SIGKILL of `ejop reproduce`", killed, words, killed == KILLS and not lost and same
    )


def _errors(path: Path) -> dict[Any, float]:
    return {run.key: run.error for run in Results(path).runs()}


# disks ------------------------------------------------------------------------------------------


@contextmanager
def full_disk(where: Path, size: int) -> Iterator[dict[str, Any]]:
    """A folder ``disk`` that holds so many bytes; options for a process that feels it.

    Where nothing may be mounted, the process is limited to files of that size instead.
    """
    disk = where / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    try:
        yield {} if mounted else {"preexec_fn": limit}
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)


def full_disks() -> Fault:
    """Every command that writes, on disks that are too small by more or less."""
    tried = told = clean = 0
    with place() as where:
        assert finish(FIT, where)[0] == 0
        many = np.random.default_rng(1).normal(size=(8000, 3))
        pd.DataFrame(many, columns=list("abc")).to_csv(where / "many.csv", index=False)
        commands = [
            [*FIT[:-2], "-o", "disk/m.skops"],
            ["predict", "m.skops", "many.csv", "--proba", "-o", "disk/p.csv"],
            ["transform", "m.skops", "many.csv", "-o", "disk/p.npz"],
            ["transform", "m.skops", "many.csv", "-o", "disk/p.parquet"],
            ["report", "m.skops", "rows.csv", "-o", "disk/r.html"],
            [*REPRODUCE, "--results", "disk/r.sqlite"],
        ]
        for args in commands:
            for size in (4096, 16_384):
                with full_disk(where, size) as options:
                    tried += 1
                    code, err = finish(args, where, **options)
                    last = err.strip().splitlines()[-1]
                    told += code == 1 and "Traceback" not in err and last.startswith("ejop: error")
                    kept = [
                        found for found in os.listdir(where / "disk") if found[:8] != "r.sqlite"
                    ]
                    clean += not kept
    words = f"{told} told in one line, {clean} without a half-written file left"
    return Fault("disk full, six commands", tried, words, told == clean == tried)


def read_only_homes() -> Fault:
    """No home, no cache, no place for settings that could be written."""
    nowhere = "/proc/1/nowhere"
    names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "SCIKIT_LEARN_DATA", "MPLCONFIGDIR")
    environment = dict.fromkeys(names, nowhere)
    answered = told = 0
    with place() as where:
        answers = [FIT, ["predict", "m.skops", "rows.csv"], ["inspect", "m.skops"]]
        answers += [["explain", "m.skops", "rows.csv", "--row", "1"], ["data", "list"]]
        answers += [["report", "m.skops", "rows.csv", "-o", "r.html"]]
        answers += [["compare", "rows.csv", "-t", "label", "--runs", "1", "--methods", "euclid"]]
        for args in answers:
            code, err = finish(args, where, env=environment)
            answered += code == 0 and "Traceback" not in err
        code, err = finish(["data", "get", "vowel"], where, env={**environment, "EJOP_DATA": ""})
        told += code == 1 and "Traceback" not in err
    words = f"{answered} answered, {told} (which needs the home) told in one line"
    tried = len(answers) + 1
    return Fault("home that cannot be written", tried, words, answered + told == tried)


def two_writers() -> Fault:
    """Two processes that write one file at once."""
    tried = whole = 0
    with place() as where:
        for seed in range(4):
            pair = [start([*FIT, "--seed", str(seed + more)], where) for more in (0, 10)]
            done = [process.communicate(timeout=300)[1] for process in pair]
            assert [process.returncode for process in pair] == [0, 0], done
            tried += 1
            whole += _loads(where / "m.skops") and not left(where)
        assert finish([*REPRODUCE, "--results", "undisturbed.sqlite"], where)[0] == 0
        expected = _errors(where / "undisturbed.sqlite")
        for number in range(3):
            args = [*REPRODUCE, "--results", f"{number}.sqlite"]
            pair = [start(args, where), start([*args, "--jobs", "2"], where)]
            for process in pair:
                process.communicate(timeout=300)
            tried += 1
            fine = [process.returncode for process in pair] == [0, 0]
            whole += fine and _errors(where / f"{number}.sqlite") == expected
    words = f"{whole} files whole: models are one of the two, results hold every run once"
    return Fault("two writers of one file", tried, words, whole == tried)


FAULTS: tuple[Callable[[], Fault], ...] = (
    killed_fits,
    killed_reproductions,
    full_disks,
    read_only_homes,
    two_writers,
)
