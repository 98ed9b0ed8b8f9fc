"""Files are whole or not there, whatever happens to the process that writes them."""

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from ejop.writing import ABANDONED_SECONDS, check_writable, replacing


def test_an_old_file_survives_a_failure(tmp_path):
    kept = tmp_path / "kept.csv"
    kept.write_text("old")
    for error in (ValueError, KeyboardInterrupt, OSError):
        with pytest.raises(error), replacing(kept) as part:  # noqa: PT012 the failure is inside
            part.write_text("half")
            raise error("broken off")
    assert kept.read_text() == "old"
    link = tmp_path / "link.csv"
    link.symlink_to(kept)
    with replacing(link) as part:
        part.write_text("new")
    assert (kept.read_text(), link.is_symlink()) == ("new", True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.csv", "link.csv"]


def unfinished(folder):
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


def test_the_mode_of_a_file_is_kept(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")
    for mode in (0o600, 0o640, 0o666, 0o755):
        path.chmod(mode)
        with replacing(path) as part:
            assert stat.S_IMODE(part.stat().st_mode) == 0o600  # nobody reads what is half written
            part.write_text(f"{mode}")
        assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (mode, f"{mode}")
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "new") as part:
            part.write_text("")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_read_only_file_is_respected(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")
    path.chmod(0o444)
    for attempt in (lambda: check_writable(path), lambda: replacing(path).__enter__()):
        with pytest.raises(OSError, match="it is read-only and was left as it is"):
            attempt()
    path.chmod(0o644)
    with pytest.raises(OSError, match="read-only"), replacing(path) as part:  # noqa: PT012
        part.write_text("new")
        path.chmod(0o444)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept"]


def test_long_names(tmp_path):
    path = tmp_path / ("é" * 127)  # 254 bytes
    with replacing(path) as part:
        part.write_text("x")
    assert path.read_text() == "x"


def test_threads_that_write_one_file(tmp_path):
    path = tmp_path / "shared"
    texts = [str(n) * 100_000 for n in range(8)]

    def write(text):
        with replacing(path) as part:
            part.write_text(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert os.listdir(tmp_path) == ["shared"]


WRITER = """
import sys, time
from ejop.writing import replacing
while True:
    with replacing(sys.argv[1]) as part, open(part, "w") as file:
        for _ in range(50):
            file.write(sys.argv[2] * 2000)
            file.flush()
            time.sleep(0.001)
"""


def test_killed_saves_leave_the_old_file_and_are_cleaned_up(tmp_path):
    path, moments = tmp_path / "kept", random.Random(0)
    path.write_text("old")
    left = 0
    for letter in "abcdefgh":
        known = unfinished(tmp_path)
        process = subprocess.Popen([sys.executable, "-c", WRITER, path, letter])
        while unfinished(tmp_path) == known and not path.read_text().startswith(letter):
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        text = path.read_text()
        assert text == "old" or (len(text) == 100_000 and len(set(text)) == 1)
        left += len(unfinished(tmp_path))
    assert left > 0
    with replacing(path) as part:
        part.write_text("new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["kept"])


def test_what_others_are_writing_is_left_alone(tmp_path):
    host = socket.gethostname()
    kept = [f".x.ejop-{host}-{os.getppid()}-00000000.part", ".x.ejop-elsewhere-1-00000000.part"]
    kept += [".somebody-elses.part", ".x.ejop-notes.part"]
    for name in kept:
        (tmp_path / name).write_text("")
    old = tmp_path / ".x.ejop-elsewhere-2-00000000.part"
    old.write_text("")
    long_ago = time.time() - 2 * ABANDONED_SECONDS
    os.utime(old, (long_ago, long_ago))
    with replacing(tmp_path / "x") as part, replacing(tmp_path / "y") as other:
        assert part.exists()
        other.write_text("")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "x", "y"])
