"""What the documentation shows works: examples, pictures, code blocks, links and tables."""

import re
import runpy
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from ejop import EGOP, EJOP

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("the documentation is not here", allow_module_level=True)
readme = pytest.importorskip("benchmarks.readme")
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


def load(name):
    """A script of docs/, not run."""
    spec = spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_example_runs(path, tmp_path, monkeypatch, pyplot, capsys):
    """In a folder of its own, since the demo writes a picture beside its folder."""
    text = path.read_text(encoding="utf-8")
    if path.stem == "digits":  # five splits of all rows for people, two of some for the test
        text, n = re.subn(r"^SEEDS = range\(5\)$", "SEEDS = range(2)", text, flags=re.M)
        assert n == 1
        X, y = load_digits(return_X_y=True)
        monkeypatch.setattr("sklearn.datasets.load_digits", lambda **how: (X[:500], y[:500]))
    if path.stem == "cluster":  # a million rows for people, a few for the test
        small = "cluster.py --rows 4000 --features 4 --parts 4 --queries 100 --reduction tiles"
        monkeypatch.setattr("sys.argv", small.split())
    if path.stem == "plot_many_rows":
        text, n = re.subn(r"^ROWS = 6_000\b", "ROWS = 3_000", text, flags=re.M)
        assert n == 1
    script = tmp_path / path.relative_to(ROOT)
    script.parent.mkdir(parents=True)
    script.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "examples" / "flats.csv", tmp_path / "examples")
    monkeypatch.chdir(script.parent)  # as the gallery runs them
    runpy.run_path(str(script), run_name="__main__")
    if path.stem.startswith("plot_"):
        assert pyplot.get_fignums()
        assert not list(tmp_path.rglob("*.png"))
    else:
        assert capsys.readouterr().out
    if path.stem == "digits":
        assert (tmp_path / "demo" / "digits.png").stat().st_size > 10_000


def test_there_are_enough_examples():
    assert sum(path.stem.startswith("plot_") for path in EXAMPLES) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_python_block_is_a_doctest(page):
    """A block of another kind says so: sh, text, or a directive of the site."""
    blocks = re.findall(r"^```([^\n`]*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    for language, code in blocks:
        kind = language.strip()
        assert kind in {"python", "sh", "text"} or kind.startswith("{"), f"{page.name}: {kind!r}"
        if kind == "python":
            assert code.startswith(">>>"), f"{page.name}: not a doctest: {code[:60]!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    """Links of the Markdown pages, for those who read them without the site."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if re.match(r"https?://", target):
            continue
        if target.startswith("../../actions/"):  # where the host of the repository keeps runs
            flows = ROOT / ".github" / "workflows"
            assert not flows.exists() or (flows / target.split("/")[4]).exists()
            continue
        if target.startswith("auto_examples/"):  # made from the examples by the site
            place = Path(target).relative_to("auto_examples")
            if place.name != "index.rst":
                stem = re.sub(r"^sphx_glr_|_\d+\.png$|\.rst$", "", place.name)
                folder = place.parent.parent if place.parent.name == "images" else place.parent
                script = ROOT / "examples" / folder / f"{stem}.py"
                assert script.exists(), f"{page.name}: {target}"
        else:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_public_name_is_in_the_reference():
    import ejop.dask
    import ejop.datasets
    import ejop.experiments
    import ejop.export
    import ejop.functions
    import ejop.learners
    import ejop.plots
    import ejop.reports
    import ejop.theory

    text = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    missing = []
    for module in (
        ejop,
        ejop.dask,
        ejop.datasets,
        ejop.experiments,
        ejop.export,
        ejop.functions,
        ejop.learners,
        ejop.plots,
        ejop.reports,
        ejop.theory,
    ):
        names = [name for name in module.__all__ if not name.startswith("_")]
        missing += [f"{module.__name__}.{n}" for n in names if not re.search(rf"\b{n}\b", text)]
    assert not missing


def test_picture_of_the_readme_is_made_by_its_script(tmp_path, pyplot):
    """Two files, small, without a background, and drawn alike: pixels may move with fonts."""
    image = pytest.importorskip("PIL.Image")
    load("make_picture").main(tmp_path)
    for name in ("diabetes-light.png", "diabetes-dark.png"):
        assert f"docs/images/{name}" in README
        sizes = []
        for path in (tmp_path / name, ROOT / "docs" / "images" / name):
            assert 5_000 < path.stat().st_size < 60_000
            with image.open(path) as picture:
                sizes.append(picture.size)
                clear = np.asarray(picture.convert("RGBA"))[..., 3] == 0
                assert 0.5 < clear.mean() < 0.99
        assert sizes[0] == sizes[1]


def test_picture_of_the_walk_is_made_by_its_script():
    walk = ROOT / "docs" / "images" / "walk.svg"
    assert load("make_walk").draw() == walk.read_text(encoding="utf-8")


def test_performance_page_has_every_row_of_the_committed_files():
    conf = load("conf")
    page = conf.performance(ROOT / "benchmarks" / "results")
    assert page.count("\n| `gemm` |") >= 1
    assert "missed" in page  # a missed goal is not hidden
    assert conf.performance(ROOT / "docs") == "No results are committed yet."


def test_results_page_with_and_without_tables(tmp_path):
    conf = load("conf")
    assert "benchmarks/README.md" in conf.results(tmp_path)
    (tmp_path / "tables.md").write_text("# Tables\n")
    assert "\nresults/tables\n" in conf.results(tmp_path)


@pytest.mark.parametrize("estimator", [EJOP, EGOP])
def test_html_repr_shows_the_plan(estimator):
    X, y = load_iris(return_X_y=True)
    est = estimator(bandwidth=0.5)
    assert "gaussian-product" not in est._repr_html_()
    est.fit(X, y)
    page = est._repr_html_()
    assert ">gaussian-product: 150 queries" in page
    assert "bandwidth: 0.5 (given)" in page
    est.plan_.notes.append("1 < 2")
    assert "1 &lt; 2" in est._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("name", ["predictor", "mixed"])
def test_pages_are_those_of_the_committed_lines(name):
    from benchmarks import mixed, mixed_page, predictor, predictor_page

    made, lines = {
        "predictor": (predictor_page.page, predictor.RESULTS),
        "mixed": (mixed_page.page, mixed.RESULTS),
    }[name]
    page = ROOT / "docs" / "results" / f"{name}.md"
    assert made(predictor.read(lines)) == page.read_text(encoding="utf-8")


def figures(text):
    """The words of a text with a sign for each number and for lines drawn, and the numbers."""
    text = re.sub(r"learned in .*? s;", "learned;", text)
    text = re.sub(r"[━─]+", "-", re.sub(r" +", " ", text))
    number = r"(?<![\w-])[+-]?\d+(?:\.\d+)?(?![\w-])"
    return re.sub(number, "#", text), [float(n) for n in re.findall(number, text)]


def test_the_readme_shows_what_the_commands_print():
    """The same words; numbers may move a little with versions of the libraries."""
    pytest.importorskip("typer")
    shown = figures(readme.part(README, "session"))
    found = figures(readme.session())
    assert found[0] == shown[0]
    assert len(shown[1]) > 30
    assert found[1] == pytest.approx(shown[1], rel=0.1, abs=2)


def test_the_readme_shows_the_committed_results():
    shown = readme.part(README, "table")
    assert shown == readme.table()
    assert shown.count("\n") > 12
    assert "checkerboard" in shown  # a table on which others are better


def test_the_tables_of_the_readme_are_made_by_their_script(tmp_path):
    load("make_flats").write(tmp_path)
    for name in ("flats.csv", "new_flats.csv"):
        assert (tmp_path / name).read_bytes() == (ROOT / "examples" / name).read_bytes()


def test_figures_beside_other_libraries_are_those_of_the_results():
    """Decimals in the prose of a section stand in a page of results that the section links to."""
    text = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    seen = 0
    for part in text.split("\n## ")[1:]:
        links = re.findall(r"\]\((results/\w+\.md)\)", part)
        pages = "".join((ROOT / "docs" / link).read_text(encoding="utf-8") for link in links)
        for figure, percent in re.findall(r"(\d+\.\d+)( %)?", part):
            shown = f"{float(figure) / 100:.3f}" if percent else figure
            assert re.search(rf"(?<!\d){shown}\b", pages), f"{figure} in {part.split()[0]}"
            seen += 1
    assert seen >= 7
