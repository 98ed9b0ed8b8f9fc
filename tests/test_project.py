"""What stands around the code: the workflow, the citation, what is released."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.archives import FILES, files_of, wrong_with_sdist, wrong_with_wheel

import ejop

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def stated_versions():
    found = (VERSION.fullmatch(each) for each in PROJECT["classifiers"])
    return [match[1] for match in found if match]


@pytest.fixture(scope="module")
def jobs():
    return yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]


def commands(job):
    return "\n".join(step.get("run", "") for step in job["steps"])


def python_of(job):
    return next(s["with"]["python-version"] for s in job["steps"] if "setup-python" in str(s))


def test_the_workflow_tests_what_is_stated(jobs):
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert matrix["python"] == stated_versions()
    assert all(isinstance(version, str) for version in matrix["python"])  # 3.10 is no 3.1
    systems = [name.partition("-")[0] for name in matrix["os"]]
    assert systems == ["ubuntu", "macos", "windows"]
    assert "-c constraints.txt" in commands(jobs["tests"])
    assert f">={stated_versions()[0]}" == PROJECT["requires-python"]


def test_the_workflow_takes_lowest_and_newest_dependencies(jobs):
    assert python_of(jobs["lowest"]) == stated_versions()[0]
    assert "make test-lowest" in commands(jobs["lowest"])
    assert python_of(jobs["newest"]) == stated_versions()[-1]
    assert "constraints" not in commands(jobs["newest"])
    assert "--upgrade-strategy eager" in commands(jobs["newest"])


def test_every_make_target_of_the_workflow_is_there(jobs):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    asked = {t for job in jobs.values() for t in re.findall(r"make ([a-z-]+)", commands(job))}
    assert {"lint", "docs", "dist", "test-lowest"} == asked <= targets


def test_the_workflow_may_read_and_nothing_else(jobs):
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert "pull_request_target" not in text


def test_the_citation_names_the_last_release():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "license", "version", "references"} <= set(cited)
    assert cited["license"] == PROJECT["license"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\d+\.\d+\.\d+)(.*)$", text, re.MULTILINE)
    released = [version for version, rest in headings if "not released" not in rest]
    assert cited["version"] == released[0]
    assert ejop.__version__.removesuffix(".dev0") == headings[0][0]
    paper = cited["references"][0]
    assert all({"family-names", "given-names"} == set(each) for each in paper["authors"])


def test_every_part_of_the_package_is_released():
    sdist = [f"ejop-1/{name}" for name in files_of("src") | files_of("tests") | FILES]
    wheel = [name.removeprefix("src/") for name in files_of("src")]
    info = "ejop-1.dist-info/licenses/LICENSE"
    assert wrong_with_sdist(sdist) == wrong_with_wheel([*wheel, info]) == []
    needed = {"reports/report.html.j2", "reports/style.css", "reports/script.js", "py.typed"}
    assert {f"ejop/{name}" for name in needed} <= set(wheel)
    assert wrong_with_sdist([*sdist, "ejop-1/docs/README.md"]) == [
        "docs/README.md should not be there"
    ]
    without = [name for name in wheel if not name.endswith(".j2")]
    assert wrong_with_wheel(without) == [
        "ejop/reports/report.html.j2 is missing",
        "no LICENSE",
    ]


@pytest.mark.parametrize(
    "name",
    ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", ".github/ISSUE_TEMPLATE/bug.md"],
)
def test_links_of_the_project_pages_lead_somewhere(name):
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    assert len(text) > 300
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / target).exists(), target
