"""Compiled loops work wherever the library is installed: read-only, without a home, on a full
disk."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import ejop

FIT = """
    import warnings
    import numpy as np
    from ejop import EJOP
    {before}
    X = np.random.default_rng(0).normal(size=(40, 3))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        print(EJOP("ridge").fit(X, np.arange(40) % 2).outer_product_.shape)  # two loops
    words = [str(one.message) for one in told if "NUMBA_CACHE_DIR" in str(one.message)]
    print(len(words), *words)
"""


def run(code, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA")}
    kept |= {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=kept
    )


def assert_fits(found, told=1):
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == "(3, 3)"
    assert lines[1].startswith(str(told))


@pytest.fixture
def read_only_copy(tmp_path):
    """The library where no directory of it can hold a cache; root may write anywhere else."""
    copy = tmp_path / "site" / "ejop"
    shutil.copytree(Path(ejop.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(p for p in copy.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("a file in the way")
    return copy.parent


def test_a_read_only_installation_without_a_home_fits_and_says_so_once(read_only_copy):
    nowhere = "/dev/null/nowhere"
    found = run(
        FIT.format(before=""), PYTHONPATH=str(read_only_copy), HOME=nowhere, XDG_CACHE_HOME=nowhere
    )
    assert_fits(found)
    assert "set the environment variable NUMBA_CACHE_DIR" in found.stdout


def test_a_full_disk_costs_the_cache_and_not_the_fit(tmp_path):
    before = """
    import errno
    from numba.core.caching import IndexDataCacheFile
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")
    IndexDataCacheFile._save_index = IndexDataCacheFile._save_data = full
    """
    code = textwrap.dedent(FIT).format(before=textwrap.dedent(before))
    found = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert_fits(found)
    assert "No space left on device" in found.stdout
    assert not list(tmp_path.rglob("*.nbc"))


def test_a_damaged_cache_is_compiled_again(tmp_path):
    assert_fits(run(FIT.format(before=""), NUMBA_CACHE_DIR=str(tmp_path)), told=0)
    files = list(tmp_path.rglob("*.nbc"))
    assert len(files) >= 2
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    assert_fits(run(FIT.format(before=""), NUMBA_CACHE_DIR=str(tmp_path)))
    assert_fits(run(FIT.format(before=""), NUMBA_CACHE_DIR=str(tmp_path)), told=0)
