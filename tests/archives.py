"""``python -m tests.archives dist``: an sdist and a wheel hold what they should, and no more."""

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: beside the code and its tests
FILES = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}


def files_of(folder):
    """Files of a folder that are part of the project, by their path from the root."""
    kept = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix()
        for path in kept
        if not {"__pycache__", ".DS_Store"} & set(path.parts) and path.suffix != ".pyc"
    }


def wrong_with_sdist(names):
    """What is missing from an sdist, and what is too much."""
    found = {name.partition("/")[2] for name in names} - {".gitignore"}
    return differences(files_of("src") | files_of("tests") | FILES, found)


def wrong_with_wheel(names):
    """The same of a wheel: the package, and what pip writes of it."""
    expected = {name.removeprefix("src/") for name in files_of("src")}
    found = {name for name in names if ".dist-info/" not in name}
    missing = [] if any(name.endswith("licenses/LICENSE") for name in names) else ["no LICENSE"]
    return differences(expected, found) + missing


def differences(expected, found):
    """Both ways, in words."""
    missing = [f"{name} is missing" for name in sorted(expected - found)]
    return missing + [f"{name} should not be there" for name in sorted(found - expected)]


def main(folder):
    """Print what is wrong; the number of faults."""
    sdists, wheels = sorted(folder.glob("*.tar.gz")), sorted(folder.glob("*.whl"))
    wrong = [] if (len(sdists), len(wheels)) == (1, 1) else ["one sdist and one wheel are needed"]
    for path in sdists:
        with tarfile.open(path) as archive:
            names = [member.name for member in archive if member.isfile()]
        wrong += [f"{path.name}: {each}" for each in wrong_with_sdist(names)]
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            wrong += [f"{path.name}: {each}" for each in wrong_with_wheel(archive.namelist())]
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
