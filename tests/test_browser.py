"""The pages in a real browser: drawn, hovered and legible, with the network off.

Needs Debian's chromium and the Python package playwright: ``make test-browser``. With
EJOP_SCREENSHOTS=folder each page is also photographed, for people to look at.
"""

import os
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from ejop import EGOPRegressor, EJOPClassifier
from ejop.experiments.methods import METHODS
from ejop.experiments.paper_tables import TABLES
from ejop.experiments.render import summarize, to_html
from ejop.experiments.store import Run
from ejop.reports import Report, make_report, report
from ejop.reports._words import number

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install 'ejop[test]'"
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: make test-browser")

QUICK = {"rule": "knn", "function": "kernel", "random_state": 0, "validation": 0.5}
PHONE, DESK = 390, 1400
OTHER = {"light": "dark", "dark": "light"}

#: what each plot holds against what it should, by its data
DRAWN = """() => [...document.querySelectorAll(".js-plotly-plot")].map(plot => {
  const count = what => [...plot.querySelectorAll(what)].filter(mark => {
    const box = mark.getBoundingClientRect();
    return box.width > 0 || box.height > 0;
  }).length;
  const mode = (trace, word) => trace.type === "scatter" && trace.mode.includes(word);
  const sum = (keep, size) => plot._fullData.filter(keep).reduce((n, t) => n + size(t), 0);
  return {
    size: plot.querySelector("svg.main-svg").getBoundingClientRect().toJSON(),
    marks: [
      [count(".scatterlayer .point"), sum(t => mode(t, "markers"), t => t.x.length)],
      [count(".barlayer .point path"), sum(t => t.type === "bar", t => t.x.length)],
      [count(".heatmaplayer image"), sum(t => t.type === "heatmap", t => 1)],
      [Math.min(count(".scatterlayer .js-line"), sum(t => mode(t, "lines"), t => 1)),
        sum(t => mode(t, "lines"), t => 1)],
    ],
  };
})"""

#: points and bars of a report's pictures, and how many lie outside
PICTURED = """() => Object.fromEntries(
  [...document.querySelectorAll(".plot"), document.querySelector(".shares")].map(plot => {
    const frame = (plot.querySelector(".frame") || plot).getBoundingClientRect();
    const marks = [...plot.querySelectorAll("use, .track > i")].map(m => m.getBoundingClientRect());
    const out = b => b.left < frame.left - 6 || b.right > frame.right + 6
      || b.top < frame.top - 6 || b.bottom > frame.bottom + 6;
    return [plot.id || "shares",
      { marks: marks.length, outside: marks.filter(out).length, width: frame.width }];
  }))"""

#: words of the page: size, contrast with what is behind them, whether plots cut them off
WORDS = """() => {
  const parse = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const own = element => [...element.childNodes]
    .some(node => node.nodeType === 3 && node.textContent.trim());
  return [...document.querySelectorAll("body *")]
    .filter(e => own(e) && !e.closest("script, style, noscript, .matrix td, [aria-hidden]"))
    .filter(e => e.checkVisibility())
    .map(e => {
      const style = getComputedStyle(e), box = e.getBoundingClientRect();
      const plot = e.closest(".js-plotly-plot, .plot, .bars");
      const frame = plot && plot.getBoundingClientRect();
      const ink = light(parse(e.closest("svg") ? style.fill : style.color));
      const page = light(behind(e));
      return {
        text: e.textContent.trim().slice(0, 40),
        plot: Boolean(plot),
        pixels: parseFloat(style.fontSize),
        contrast: (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05),
        cut: Boolean(plot) && (box.left < frame.left - 2 || box.right > frame.right + 2),
      };
    });
}"""

#: the loneliest point of a plot, so that nothing else is nearer to the pointer
LONELIEST = """plot => {
  plot.scrollIntoView({ block: "center" });
  const held = plot._fullData.filter(trace => trace.mode.includes("markers"))
    .flatMap(trace => trace.x.map((x, i) => (trace.customdata || trace.y)[i]));
  const points = [...plot.querySelectorAll(".scatterlayer .point")].map((point, i) => {
    const box = point.getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2, holds: held[i] };
  });
  const gap = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);
  const room = points.map(a => Math.min(...points.filter(b => b !== a).map(b => gap(a, b))));
  return points[room.indexOf(Math.max(...room))];
}"""

#: the lines of a plot's label
LABEL = """plot => [...plot.querySelectorAll(".hoverlayer .hovertext")]
  .flatMap(label => [...label.querySelectorAll("text")])
  .flatMap(text => text.children.length ? [...text.children] : [text])
  .map(line => line.textContent)"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def classifier(folder):
    """File of a report, truth and predictions by row, and numbers of bars and points."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    y = np.array(["Barolo", "Grignolino", "Barbera"])[y]
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=1)
    test = test.reset_index(drop=True)
    model = EJOPClassifier(**QUICK).fit(train, y_train)
    methods = [{"name": "Euclid", "error": 0.05, "seconds": 0.01}, {"name": "EJOP", "error": 0.02}]
    html = make_report(
        model, test, y_test, training=(train, y_train), comparison=methods, title="Wine"
    )
    drawn = {"after": 89, "before": 89, "calibration": None, "shares": 13}
    return written(folder, "classifier", html), y_test, model.predict(test), drawn


@pytest.fixture(scope="module")
def regressor(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = 1e5 * np.sin(2 * X[:, 0]) + 1e4 * rng.normal(size=240)
    model = EGOPRegressor(random_state=0).fit(X[:160], y[:160])
    html = make_report(model, X[160:], y[160:])
    drawn = {"after": 80, "before": 80, "fit": 80, "contributions": 320, "shares": 4}
    return written(folder, "regressor", html), y[160:], model.predict(X[160:]), drawn


@pytest.fixture(scope="module")
def machines(folder):
    """A table with text, gaps, rare classes and long names, in one line."""
    rng = np.random.default_rng(0)
    table = {
        "sex": rng.choice(["female", "male"], 300),
        "age": np.where(rng.random(300) < 0.1, np.nan, rng.normal(40, 10, 300)),
        "a name of a column that is rather long": rng.choice(["a level, long as well", "b"], 300),
        "class": rng.integers(1, 4, 300),
        "remark": [f"free text {x}" for x in rng.random(300)],
    }
    X = pd.DataFrame(table)
    score = (X["sex"] == "male") * 2 - X["class"] + rng.normal(size=300)
    X["answer"] = np.where(score > 0.7, "a class that is rare", "no")
    made = report(X, "answer")
    rows = X.loc[made.held_out.astype(int)]
    truth, answers = rows["answer"], pd.Series(made.model.predict(rows), rows.index)
    drawn = {"after": 60, "before": 60, "contributions": 240, "calibration": None, "shares": 4}
    return written(folder, "machines", made.html), truth, answers, drawn


@pytest.fixture(scope="module")
def experiments(folder):
    runs = []
    for dataset in ("usps", "letter", "amazon-zscored"):
        for place, method in enumerate(("euclid", "ejop-knn", "lmnn", "lmnn-ejop", "mlr")):
            objective = [9 * 0.7**i + 1 + place for i in range(20)] if place > 1 else []
            runs += [
                Run(dataset, method, seed, 6.0 + place + seed, 1.0, 0.1, None, {}, objective)
                for seed in (0, 1)
            ]
    labels = {name: method.label for name, method in METHODS.items()}
    tables = [TABLES[name] for name in ("table2", "table4")]
    parts = [(table, summarize(table, runs, labels)) for table in tables]
    html = to_html(parts, runs, "The paper's tables", "A few made-up runs.")
    return written(folder, "experiments", html), None, None, 2 + 2 * 3  # a panel a set and learner


def written(folder, name, html):
    path = folder / f"{name}.html"
    path.write_text(html, encoding="utf-8")
    return path


class Watched:
    """A page opened from disk with the network off, and all that went wrong on it."""

    def __init__(self, browser, path, width, scheme):
        phone = {"is_mobile": True, "has_touch": True} if width == PHONE else {}
        self.width, self.path, self.complaints, self.requests = width, path, [], []
        self.context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, **phone
        )
        self.context.set_offline(True)
        self.context.route("**/*", self._only_files)
        self.page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def _only_files(self, route):
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()

    def _heard(self, message):
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    def turn(self, scheme):
        """Change between light and dark while the page is open."""
        self.page.emulate_media(color_scheme=scheme)
        # the page hears of it with the next frame
        self.page.evaluate(
            "new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))"
        )

    def legible(self, scheme):
        """Fits the width, letters large enough and set off from the page, in plots too."""
        page = self.page
        # a phone's browser would zoom out, hence not innerWidth alone
        fits = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert max(fits) <= self.width + 1
        assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 14
        shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert shade == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 27)"}[scheme]
        words = page.evaluate(WORDS)
        assert Counter(word["plot"] for word in words)[True] > 20
        assert [w for w in words if w["pixels"] < (9 if w["plot"] else 11)] == []
        assert [w for w in words if w["contrast"] < 4.5] == []
        assert [w for w in words if w["cut"]] == []

    def drawn(self, n_plots):
        """Every plot has a size and as many marks as its data."""
        self.page.wait_for_function(
            f"document.querySelectorAll('.js-plotly-plot .main-svg').length >= {n_plots}"
        )
        plots = self.page.evaluate(DRAWN)
        assert len(plots) == n_plots
        for plot in plots:
            assert plot["size"]["width"] > 250
            assert plot["size"]["height"] > 100
            for found, expected in plot["marks"]:
                assert found == expected
            assert sum(found for found, _ in plot["marks"]) > 0

    def pictured(self, expected):
        """The pictures of a report have their points and bars, within their frames."""
        found = self.page.evaluate(PICTURED)
        assert set(expected) == set(found)
        for name, n in expected.items():
            assert found[name]["marks"] == (n or found[name]["marks"]) > 0
            assert found[name]["outside"] == 0
            assert found[name]["width"] > 200

    def hover(self, selector, expected):
        """Put the pointer on a point and wait for the label that is expected of what it holds."""
        plot = self.page.locator(selector)
        point = plot.evaluate(LONELIEST)
        if self.width == PHONE:
            self.page.touchscreen.tap(point["x"], point["y"])
        else:
            self.page.mouse.move(point["x"] - 60, point["y"] - 5)
            self.page.mouse.move(point["x"], point["y"], steps=4)
        wanted, found = expected(point["holds"]), ""
        deadline = time.monotonic() + 10
        while wanted not in found and time.monotonic() < deadline:
            self.page.wait_for_timeout(50)  # labels of points on the way come and go
            found = "\n".join(plot.evaluate(LABEL))
        assert wanted in found
        box = plot.locator(".hoverlayer .hovertext").first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= self.width

    def point_at(self, selector):
        """Put the pointer on a point of a report, or tap it, and read what is told of it."""
        mark = self.page.locator(selector)
        mark.scroll_into_view_if_needed()
        self.page.wait_for_timeout(200)  # what is told goes away as the page moves
        mark.dispatch_event("click" if self.width == PHONE else "pointerover")
        tip = self.page.locator("#tip")
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= self.width
        return tip.text_content()

    def photograph(self, scheme):
        if folder := os.environ.get("EJOP_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            name = f"{self.path.stem}-{self.width}-{scheme}.png"
            self.page.screenshot(path=Path(folder) / name, full_page=True)


SCREENS = pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESK, "dark")])


def looked_at(watched, scheme):
    """Legible in both themes, and photographed."""
    for now in (scheme, OTHER[scheme]):
        watched.turn(now)
        watched.legible(now)
        watched.photograph(now)


@SCREENS
def test_pages_of_tables_open_from_disk(browser, experiments, width, scheme):
    path, *_, n_plots = experiments
    with Watched(browser, path, width, scheme) as watched:
        watched.drawn(n_plots)
        looked_at(watched, scheme)
        watched.hover(".js-plotly-plot >> nth=0", str)
        assert watched.complaints == []
        assert watched.requests == []


@SCREENS
@pytest.mark.parametrize("name", ["classifier", "regressor", "machines"])
def test_a_report_opens_from_disk(browser, request, name, width, scheme):
    path, truth, answers, drawn = request.getfixturevalue(name)
    with Watched(browser, path, width, scheme) as watched:
        watched.pictured(drawn)
        watched.page.locator("summary").last.click()  # folded away until then
        assert watched.page.get_by_text("random_state").is_visible()
        looked_at(watched, scheme)
        told = watched.point_at("#after use >> nth=3")
        row = int(re.match(r"row (\d+):", told)[1])
        show = number if name == "regressor" else str
        assert told == f"row {row}: true {show(truth[row])}, predicted {show(answers[row])}"
        assert watched.complaints == []
        assert watched.requests == []


def test_a_report_shows_itself_in_a_frame(browser, folder, machines):
    """As a notebook does."""
    made = Report(machines[0].read_text(encoding="utf-8"), None, np.array([]))
    page = f"<!doctype html><body>{made._repr_html_()}"
    with Watched(browser, written(folder, "frame", page), DESK, "light") as watched:
        frame = watched.page.frame_locator("iframe")
        assert frame.get_by_text("The model is right on").is_visible()
        assert frame.locator("#after use").count() == 60
        assert watched.complaints == []


def test_the_watch_is_awake(browser, folder):
    """The checks above would see a page that fetches, complains, overflows or whispers."""
    html = (
        "<!doctype html><body style='font-size: 8px; background: #fff; color: #ccc'>"
        "<div class='plot' id='bad'><svg width='300' height='9'><rect class='frame' width='300' "
        "height='9'/><use href='#s' x='400'/></svg></div><svg><circle id='s' r='3'/></svg>"
        "<div class='shares'></div>"
        "<p style='width: 2000px'>small</p><img src='http://127.0.0.1:9/x.png'>"
        "<script>console.error('told'); throw new Error('thrown')</script>"
    )
    with Watched(browser, written(folder, "bad", html), DESK, "light") as watched:
        assert watched.requests == ["http://127.0.0.1:9/x.png"]
        assert {"told", "thrown"} <= set(watched.complaints)
        with pytest.raises(AssertionError):
            watched.legible("light")
        with pytest.raises(AssertionError):
            watched.pictured({"bad": 1, "shares": None})
        word = watched.page.evaluate(WORDS)[0]
        assert word["pixels"] == 8
        assert word["contrast"] < 2
        with pytest.raises(playwright.TimeoutError):
            watched.page.wait_for_selector(".hovertext", timeout=100)


# the site of the documentation -----------------------------------------------------------------

SITE = Path(__file__).resolve().parents[1] / "docs" / "_build" / "html"
SITE_PAGES = (
    "index",
    "start",
    "choosing",
    "peers",
    "auto_examples/index",
    "auto_examples/tables/plot_first_table",
    "api/ejop.EJOPClassifier",
)

#: what sticks out of the screen without a bar of its own to scroll it by, or is cut off
STICKS_OUT = """() => [...document.querySelectorAll("pre, table, img, div.math")]
  .filter(e => e.checkVisibility())
  .filter(e => {
    const scrolls = at => ["auto", "scroll"].includes(getComputedStyle(at).overflowX);
    if (e.tagName === "PRE" && e.scrollWidth > e.clientWidth + 1 && !scrolls(e)) return true;
    if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let at = e; at !== document.body; at = at.parentElement) if (scrolls(at)) return false;
    return true;
  })
  .map(e => e.outerHTML.slice(0, 80))"""

#: what nobody sees has no contrast
FORGET_HIDDEN = """() => [...document.querySelectorAll("body *")]
  .filter(e => e.isConnected && !e.checkVisibility({ opacityProperty: true }))
  .forEach(e => e.remove())"""

SIZES = """() => ["h1", "h2", "h3", "p"].map(kind => document.querySelector(`article ${kind}`))
  .filter(e => e).map(e => parseFloat(getComputedStyle(e).fontSize))"""


@pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: make docs")
@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESK, "dark")])
@pytest.mark.parametrize("name", SITE_PAGES)
def test_a_page_of_the_documentation(browser, name, width, scheme):
    """Nothing wider than the screen, code that scrolls, contrast, and titles above headings."""
    with Watched(browser, SITE / f"{name}.html", width, scheme) as watched:
        page = watched.page
        for now in (scheme, OTHER[scheme]):
            watched.turn(now)
            assert page.evaluate("document.documentElement.dataset.theme") == now
            watched.photograph(now)
        assert max(page.evaluate("[document.documentElement.scrollWidth, innerWidth]")) <= width + 1
        assert page.evaluate(STICKS_OUT) == []
        sizes = page.evaluate(SIZES)
        assert sizes == sorted(set(sizes), reverse=True)
        page.evaluate(FORGET_HIDDEN)
        for now in (OTHER[scheme], scheme):
            watched.turn(now)
            page.wait_for_timeout(400)  # colours of buttons and links change slowly
            words = page.evaluate(WORDS)
            assert len(words) > 40
            assert [w for w in words if w["contrast"] < 4.5] == []
        assert watched.complaints == []
        assert watched.requests == []
