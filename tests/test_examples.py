"""What the documentation shows works: examples, pictures, code blocks, links and tables."""

import csv
import re
import runpy
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from sklearn.datasets import load_digits, load_iris

from ejop import EGOP, EJOP

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("the documentation is not here", allow_module_level=True)
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
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
    script = tmp_path / "examples" / path.name
    script.parent.mkdir()
    script.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
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
        if target.startswith("auto_examples/"):  # made from the examples by the site
            name = Path(target).name
            if name != "index.rst":
                stem = re.sub(r"^sphx_glr_|_\d+\.png$|\.rst$", "", name)
                assert (ROOT / "examples" / f"{stem}.py").exists(), f"{page.name}: {target}"
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
    pytest.importorskip("PIL")
    load("make_picture").draw(tmp_path / "digits.png")
    assert 5_000 < (tmp_path / "digits.png").stat().st_size < 60_000
    assert (ROOT / "docs" / "images" / "digits.png").stat().st_size < 60_000


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
    (tmp_path / "suite.md").write_text("# Suite\n")
    assert "{include} results/tables.md" in conf.results(tmp_path)
    assert "suite.md" not in conf.results(tmp_path)  # it is included where its picture is found
    assert "{include} results/suite.md" in (ROOT / "docs" / "results.md").read_text()


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


def test_the_readme_shows_the_computed_table():
    with (ROOT / "docs" / "results" / "tables.csv").open(encoding="utf-8") as file:
        found = {(line["dataset"], line["method"]): line for line in csv.DictReader(file)}
    columns = ["euclid", "ejop-knn", "paper", "lmnn", "itml", "mlr"]
    rows = re.findall(r"^\| ([a-z][a-z0-9-]*) \|((?: [*\d.]+ \|){6})$", README, flags=re.M)
    assert len(rows) >= 7
    for dataset, cells in rows:
        shown = dict(zip(columns, cells.strip(" |").split(" | "), strict=True))
        ours = {name: float(found[dataset, name]["error"]) for name in columns if name != "paper"}
        lowest = min(ours, key=ours.__getitem__)
        assert shown.pop("paper") == f"{float(found[dataset, 'ejop-knn']['paper']):.1f}"
        for name, error in ours.items():
            assert shown[name] == (f"**{error:.1f}**" if name == lowest else f"{error:.1f}")


def test_the_readme_shows_the_comparison_with_peers():
    """Its table is that of the page, method by method."""
    page = (ROOT / "docs" / "results" / "predictor.md").read_text(encoding="utf-8")
    in_short = page[page.index("## In short") : page.index("## Not there yet")]
    nine, suite = (
        dict(re.findall(r"^\| (\w+) \| \d+ of \d+ \| ([\d.]+) \|", part, flags=re.M))
        for part in in_short.split("The 22 of the suite:")
    )
    head = re.search(r"^\| \| (\*\*ours\*\* .*) \|$", README, flags=re.M).group(1)
    methods = head.replace("*", "").split(" | ")
    assert methods == list(nine) == list(suite)
    for title, found in (("nine tables", nine), ("22 tables", suite)):
        shown = re.search(rf"^\| {title} \| (.*) \|$", README, flags=re.M).group(1).split(" | ")
        lowest = min(found, key=lambda m: float(found[m]))
        assert shown == [f"**{v}**" if m == lowest else v for m, v in found.items()]
    ran = re.search(r"^\| xRFM \| (\d+) of 22 \|", in_short, flags=re.M).group(1)
    assert f"xRFM ran {ran} of the 22" in README


@pytest.mark.parametrize("name", ["predictor", "mixed"])
def test_pages_are_those_of_the_committed_lines(name):
    from benchmarks import mixed, mixed_page, predictor, predictor_page

    made, lines = {
        "predictor": (predictor_page.page, predictor.RESULTS),
        "mixed": (mixed_page.page, mixed.RESULTS),
    }[name]
    page = ROOT / "docs" / "results" / f"{name}.md"
    assert made(predictor.read(lines)) == page.read_text(encoding="utf-8")
