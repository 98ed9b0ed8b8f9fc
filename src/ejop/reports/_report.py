"""Fill the template and write the file."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ejop.plots.fitted import fitted
from ejop.progress import tell_step
from ejop.reports import _groups, _pictures, _trust, _verdict
from ejop.reports._cases import cases_of
from ejop.reports._directions import axes_of, directions, turned
from ejop.reports._evidence import Evidence, Given, gather
from ejop.reports._rivals import scores
from ejop.writing import replacing

TEMPLATE = "report.html.j2"
#: of the intervals of importances, at which they were checked
IMPORTANCE_COVERAGE = 0.9


def make_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    training: tuple[Any, ArrayLike] | None = None,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    comparison: Sequence[Mapping[str, Any]] | None = None,
    max_points: int = 1000,
    verbose: int = 0,
) -> str:
    """A report on a fitted model, as the text of one HTML page that needs no network.

    Parameters
    ----------
    model : fitted EJOPClassifier, EGOPRegressor, EJOP or EGOP, or pipeline that ends in one
        An EJOP or EGOP alone is judged by its five nearest rows.
    X : array-like of shape (n_samples, n_features)
        Rows to show, as the model (or its pipeline) takes them; rows it has not seen are best. Of
        more than 10,000 as many are drawn at random. Rows of pandas tables are called by their
        index, others by their number.
    y : array-like of shape (n_samples,)
        Their classes or targets. Of several outputs the first is shown, and of several labels a
        row the first as a number.
    training : tuple of rows and targets, optional
        What the model has learned from. With it near rows are shown with their values. The
        forest and the simple rules that the model is compared with learn from it; by default from
        those rows that the model keeps.
    feature_names : sequence of str, optional
        One per feature that reaches the model; those it has seen by default.
    title : str, optional
    comparison : list of dict, optional
        Methods side by side: ``name``, ``error`` (share of wrong rows, or 1 - R^2), ``seconds``.
    max_points : int, default=1000
        Points of a picture, drawn at random from more.
    verbose : int, default=0
        1 tells on the terminal what is being done.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.reports import make_report
    >>> X, y = load_iris(return_X_y=True)
    >>> html = make_report(EJOP().fit(X[::2], y[::2]), X[1::2], y[1::2], title="Irises")
    >>> html.startswith("<!DOCTYPE html>"), "Irises" in html
    (True, True)
    """
    return page_of(
        model,
        Given.of(X, y),
        None if training is None else Given.of(*training),
        feature_names=feature_names,
        title=title,
        comparison=comparison,
        max_points=max_points,
        verbose=verbose,
    )


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    y: ArrayLike,
    **options: Any,
) -> Path:
    """Write a report to a file, whole or not at all.

    Parameters
    ----------
    path : str or path
        Replaced where it exists.
    model, X, y, **options
        See :func:`make_report`.

    Returns
    -------
    path : pathlib.Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.reports import write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(Path(folder) / "irises.html", EJOP().fit(X[::2], y[::2]), X, y)
    ...     path.name
    'irises.html'
    """
    return save_page(path, make_report(model, X, y, **options))


def save_page(path: str | os.PathLike[str], html: str) -> Path:
    """Write a page, whole or not at all."""
    with replacing(path) as part:
        part.write_text(html, encoding="utf-8")
    return Path(path)


def page_of(
    model: Any,
    given: Given,
    training: Given | None,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    comparison: Sequence[Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    max_points: int = 1000,
    verbose: int = 0,
) -> str:
    """The page on rows that have names, see :func:`make_report`.

    ``notes`` are told with how the columns were prepared.
    """
    template = load_template()
    tell_step("report", f"judging {len(given.y):,} rows", verbose)
    e = gather(fitted(model, feature_names), given, training)
    tell_step("report", "comparing with a forest and simple rules", verbose)
    found = scores(e)
    tell_step("report", "explaining rows", verbose)
    cases = cases_of(e)
    table = _verdict.method_table(e, comparison)
    axes = turned(e, axes_of(e))
    after, before = _pictures.projections(e, axes.vectors, max_points)
    html: str = template.render(
        title=title or f"Report on {type(e.source.model).__name__}",
        evidence=e,
        headline=_verdict.headline(e, found),
        poor=_verdict.is_poor(found),
        sentences=_verdict.sentences(e, found),
        scores=_verdict.score_table(e, found),
        footing=_verdict.how_it_answers(e, found),
        methods=table,
        prepared=[*notes, *_prepared(e)],
        cases=cases,
        directions=directions(e, axes),
        after=after,
        before=before,
        legend=_pictures.legend(e),
        n_drawn=min(len(e.y), max_points),
        settings=_settings(e),
        plan=str(getattr(e.source.model, "plan_", "")),
        versions=_versions(),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **_columns(e),
        **_groups_and_trust(e, max_points),
    )
    return html


def _columns(e: Evidence) -> dict[str, Any]:
    """Which columns matter: bars, those of classes, and what the error bars are."""
    names = e.shares.names
    used = np.arange(len(names))
    if e.preparer is not None and names == e.source.columns:
        used = np.unique(e.preparer.groups_)
    refits = e.shares.refits
    errors = None if refits is None else refits.interval(IMPORTANCE_COVERAGE)
    return {
        "columns": _pictures.importance_bars(e.shares, errors, used),
        "n_columns": len(used),
        "heat": _pictures.class_heat(e.shares),
        "bars_have_errors": errors is not None,
    }


def _groups_and_trust(e: Evidence, max_points: int) -> dict[str, Any]:
    """How groups of rows fare, and whether what is promised is kept."""
    what, bins = _trust.calibration(e)
    found: dict[str, Any] = {
        "odd": _groups.odd_rows(e),
        "coverage": _trust.coverage_words(e),
        "calibrated": _trust.calibration_words(what, bins) if bins else "",
        "calibration": _pictures.calibration_plot(what, bins) if bins else None,
        "lines": [],
        "rare": [],
        "matrix_of": None,
        "fit": None,
        "parts": [],
    }
    if e.regression:
        found |= {"fit": _pictures.fit_plot(e, max_points), "parts": _groups.target_parts(e)}
        return found
    lines = _groups.class_lines(e)
    rare = _groups.rare_words(e, lines)
    return found | {"lines": lines, "rare": rare, "matrix_of": _groups.confusion(e)}


def _prepared(e: Evidence) -> list[str]:
    """What was left out, filled and encoded before anything was learned; empty for nothing."""
    preparer = getattr(e.source.model, "preparer_", None)
    if preparer is None and e.source.before is not None:
        preparer = e.source.before[0]
    return [] if preparer is None or not hasattr(preparer, "in_words") else preparer.in_words()


def _settings(e: Evidence) -> list[tuple[str, str]]:
    """Parameters that were given and chosen."""
    model = e.source.model
    given = [(name, str(value)) for name, value in model.get_params(deep=False).items()]
    best = getattr(model, "best_params_", {})
    chosen = [
        (f"{name} (chosen)", "; ".join(value) if isinstance(value, list) else str(value))
        for name, value in best.items()
    ]
    score = getattr(model, "best_score_", None)
    if score is not None and np.isfinite(score):
        chosen.append(("score on training rows it had not seen", f"{score:.4f}"))
    return [("model", type(model).__name__), *chosen, *given]


def _versions() -> list[tuple[str, str]]:
    """Versions of what made the report."""
    found = [("Python", platform.python_version())]
    for name in ("ejop", "numpy", "scipy", "scikit-learn"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # run from a source tree
            continue
    return found


def load_template() -> Any:
    """The template, or an error that says what is missing."""
    try:
        import jinja2
    except ImportError:
        raise ImportError("a report is filled in by jinja2: pip install 'ejop[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ejop.reports", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE)
