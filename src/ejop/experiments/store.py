"""Finished runs in an SQLite file: one transaction a run, safe to kill and to share."""

from __future__ import annotations

import json
import os
import re
import socket
import sqlite3
import stat
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ejop.writing import is_running

#: a claim whose runner has not shown itself for so long may be taken over
STALE_SECONDS = 60.0
#: how long a runner waits for others that begin the file
BEGINNING_SECONDS = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    dataset TEXT NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL,
    error REAL NOT NULL, fit_seconds REAL NOT NULL, predict_seconds REAL NOT NULL,
    iterations INTEGER, settings TEXT NOT NULL, objective TEXT NOT NULL, versions TEXT NOT NULL,
    finished TEXT NOT NULL,
    PRIMARY KEY (dataset, method, seed)
);
CREATE TABLE IF NOT EXISTS claims (
    dataset TEXT NOT NULL, method TEXT NOT NULL, seed INTEGER NOT NULL,
    runner TEXT NOT NULL, seen REAL NOT NULL,
    PRIMARY KEY (dataset, method, seed)
);
"""
_COLUMNS = {
    table: re.findall(r"(\w+) (?:TEXT|INTEGER|REAL)", text)
    for table, text in re.findall(r"EXISTS (\w+) \((.*?)\n\)", _SCHEMA, re.DOTALL)
}
_MAGIC = b"SQLite format 3\0"
#: what helps, by what SQLite says
_REMEDIES = {
    "full": "; make room on the disk and start again",
    "disk I/O error": "; make room on the disk, or look after it, and start again",
    "locked": "; another program keeps it locked, close that or name another file",
    "readonly": "; it is read-only",
    "malformed": "; it is damaged, name another file",
    "not a database": "; it is damaged, name another file",
}
Key = tuple[str, str, int]


class ResultsUnusable(OSError):
    """A results file is damaged, foreign, locked or on a full disk."""


@dataclass
class Run:
    """One finished run.

    Attributes
    ----------
    dataset, method : str
    seed : int
    error : float
        In per cent.
    fit_seconds, predict_seconds : float
    iterations : int or None
        Until the objective stays within 1 % of its last value.
    settings, versions : dict
    objective : list of float
    finished : str
        Date and time, UTC.
    """

    dataset: str
    method: str
    seed: int
    error: float
    fit_seconds: float
    predict_seconds: float
    iterations: int | None
    settings: dict[str, Any] = field(default_factory=dict)
    objective: list[float] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    finished: str = ""

    @property
    def key(self) -> Key:
        """What identifies the run."""
        return self.dataset, self.method, self.seed


class Results:
    """The results file.

    Several runners may use one file: each run is claimed before it is computed, and a claim whose
    process is gone is free again.

    Parameters
    ----------
    path : str or Path
        Created if it is not there; its folder must be.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ejop.experiments.store import Results, Run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Results(pathlib.Path(folder) / "results.sqlite")
    ...     results.claim(("digits", "euclid", 0))
    ...     results.add(Run("digits", "euclid", 0, 2.5, 0.1, 0.1, None))
    ...     [run.error for run in results.runs()]
    True
    [2.5]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.runner = f"{socket.gethostname()}:{os.getpid()}"
        why = _foreign(self.path)
        if why:
            raise ResultsUnusable(
                f"{self.path} cannot be used as a results file: {why}. It was left as it is; name "
                "a new file, or one that `ejop reproduce` wrote."
            )
        with self._open() as db:  # both tables at once: another runner may look between them
            _write_ahead(db)
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection; a busy file is waited for, trouble with it is told as such."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as db:
                yield db
        except sqlite3.Error as error:
            remedy = next((text for word, text in _REMEDIES.items() if word in str(error)), "")
            raise ResultsUnusable(
                f"{self.path} cannot be used as a results file ({error}){remedy}. Runs that were "
                "finished before are kept."
            ) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # SQLite itself takes some failures back
                    db.execute("ROLLBACK")
                raise

    def claim(self, key: Key) -> bool:
        """Take a run; False where it is done or another living runner has it."""
        with self._transaction() as db:
            if db.execute(f"SELECT 1 FROM runs WHERE {_SAME}", key).fetchone():
                return False
            held = db.execute(f"SELECT runner, seen FROM claims WHERE {_SAME}", key).fetchone()
            if held and held[0] != self.runner and _alive(*held):
                return False
            db.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                (*key, self.runner, time.time()),
            )
            return True

    def release(self) -> None:
        """Give back what this runner has claimed and not finished."""
        with self._transaction() as db:
            db.execute("DELETE FROM claims WHERE runner = ?", (self.runner,))

    def touch(self) -> None:
        """Show that this runner is alive."""
        with self._transaction() as db:
            db.execute("UPDATE claims SET seen = ? WHERE runner = ?", (time.time(), self.runner))

    def add(self, run: Run) -> None:
        """Record a finished run and give its claim back, in one transaction."""
        values = (
            *run.key,
            run.error,
            run.fit_seconds,
            run.predict_seconds,
            run.iterations,
            json.dumps(run.settings, default=str),
            json.dumps(run.objective),
            json.dumps(run.versions),
            run.finished,
        )
        with self._transaction() as db:
            db.execute(f"INSERT OR IGNORE INTO runs VALUES ({', '.join('?' * 11)})", values)
            db.execute(f"DELETE FROM claims WHERE {_SAME}", run.key)

    def done(self) -> set[Key]:
        """Keys of the finished runs."""
        with self._open() as db:
            return {tuple(row) for row in db.execute("SELECT dataset, method, seed FROM runs")}

    def get(self, key: Key) -> Run | None:
        """One finished run, or None."""
        with self._open() as db:
            row = db.execute(f"SELECT * FROM runs WHERE {_SAME}", key).fetchone()
        return self._run(row) if row else None

    def runs(self, datasets: Iterable[str] | None = None) -> list[Run]:
        """Finished runs, by data set, method and seed."""
        with self._open() as db:
            rows = db.execute("SELECT * FROM runs ORDER BY dataset, method, seed").fetchall()
        wanted = None if datasets is None else set(datasets)
        return [self._run(row) for row in rows if wanted is None or row[0] in wanted]

    def _run(self, row: tuple) -> Run:
        try:
            settings, objective, versions = (json.loads(text) for text in row[7:10])
            return Run(*(*row[:7], settings, objective, versions, row[10]))
        except (TypeError, ValueError) as error:
            raise ResultsUnusable(
                f"{self.path} is damaged: its run {row[:3]} cannot be read ({error})."
            ) from error


_SAME = "dataset = ? AND method = ? AND seed = ?"


def _foreign(path: Path) -> str:
    """Why a file is none of ours, or damaged; found without changing it. Empty where it is fine."""
    try:
        mode, size = path.stat().st_mode, path.stat().st_size
    except FileNotFoundError:
        return "" if path.parent.is_dir() else f"there is no folder {path.parent}"
    if not stat.S_ISREG(mode):
        return "it is not a plain file"
    if not mode & 0o222 or not os.access(path, os.W_OK):
        return "it is read-only"
    if size == 0:
        return ""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return "it is no SQLite file"
    # Without a log beside it nothing but the file need be read, and nothing is written at all.
    alone = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro{alone}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=60)) as db:
            kept = (
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
            names = {name for (name,) in db.execute(kept)}
            if names and not {"runs", "claims"} <= names:
                return f"it holds other tables ({', '.join(sorted(names)[:3])})"
            for table in names & set(_COLUMNS):
                columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                if columns != _COLUMNS[table]:
                    return f"its table {table} has other columns"
            (sound,) = db.execute("PRAGMA quick_check(1)").fetchone()
            return "" if sound == "ok" else f"it is damaged ({sound.splitlines()[-1]})"
    except sqlite3.Error as error:
        return f"it is damaged ({error})"


def _write_ahead(db: sqlite3.Connection) -> None:
    """Let runners read while one writes; where two begin a file at once SQLite does not wait."""
    until = time.monotonic() + BEGINNING_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _alive(runner: str, seen: float) -> bool:
    """Whether a claim still has somebody behind it."""
    if time.time() - seen > STALE_SECONDS:
        return False
    host, pid = runner.rsplit(":", 1)
    if host != socket.gethostname():
        return True  # another machine: only its silence can tell
    return is_running(int(pid)) is not False
