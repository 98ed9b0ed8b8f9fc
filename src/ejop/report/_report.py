"""Fill the template and write the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from ejop.plots.fitted import fitted
from ejop.report import _figures, _words
from ejop.report._evidence import gather
from ejop.report._reasons import reasons_of
from ejop.writing import replacing

TEMPLATE = "report.html.j2"


def make_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    comparison: Sequence[Mapping[str, Any]] | None = None,
    max_points: int = 2000,
) -> str:
    """A report on a fitted model, as the text of one HTML page that needs no network.

    Parameters
    ----------
    model : fitted EJOPClassifier, EGOPRegressor, EJOP or EGOP, or pipeline that ends in one
        An EJOP or EGOP alone is judged by its five nearest rows.
    X : array-like of shape (n_samples, n_features)
        Rows to show, as the model (or its pipeline) takes them; rows it has not seen are best. Of
        more than 10,000 as many are drawn at random.
    y : array-like of shape (n_samples,)
        Their classes or targets. Of several outputs the first is shown.
    feature_names : sequence of str, optional
        One per feature that reaches the model; those it has seen by default.
    title : str, optional
    comparison : list of dict, optional
        Methods side by side: ``name``, ``error`` (share of wrong rows, or 1 - R^2), ``seconds``.
    max_points : int, default=2000
        Points of the projection, drawn at random from more.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.report import make_report
    >>> X, y = load_iris(return_X_y=True)
    >>> html = make_report(EJOP().fit(X[::2], y[::2]), X[1::2], y[1::2], title="Irises")
    >>> html.startswith("<!DOCTYPE html>"), "Irises" in html
    (True, True)
    """
    template, plotly = _template(), _plotly()
    source = fitted(model, feature_names)
    evidence = gather(source, X, y)
    machines = bool(getattr(getattr(source.model, "rule_", None), "chooses", False))
    changed, better, worse, other = evidence.changes()
    reasons = reasons_of(evidence, X)
    matrices = None
    if not evidence.regression:
        before = None if evidence.before is None else _words.confusion(evidence, evidence.before)
        matrices = {"before": before, "after": _words.confusion(evidence, evidence.after)}
    return template.render(
        title=title or f"Report on {type(source.model).__name__}",
        summary=_words.summary(evidence),
        methods=_words.methods(evidence, comparison),
        prepared=_words.prepared(evidence),
        reasons=reasons,
        figures=_figures.figures(evidence, max_points)
        | ({} if reasons is None else reasons.figures),
        legend=_figures.legend(evidence),
        changed=changed,
        counts={"better": better, "worse": worse, "other": other},
        matrices=matrices,
        evidence=evidence,
        machines=machines,
        answered="kernel machines" if machines else "the learned metric",
        n_drawn=min(len(evidence.y), max_points),
        settings=_words.settings(evidence),
        plan=str(getattr(source.model, "plan_", "")),
        versions=_words.versions(),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        plotly=plotly,
    )


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    comparison: Sequence[Mapping[str, Any]] | None = None,
    max_points: int = 2000,
) -> Path:
    """Write a report to a file, whole or not at all.

    Parameters
    ----------
    path : str or path
        Replaced where it exists.
    model, X, y, feature_names, title, comparison, max_points
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
    >>> from ejop.report import write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(Path(folder) / "irises.html", EJOP().fit(X[::2], y[::2]), X, y)
    ...     path.name
    'irises.html'
    """
    html = make_report(
        model,
        X,
        y,
        feature_names=feature_names,
        title=title,
        comparison=comparison,
        max_points=max_points,
    )
    with replacing(path) as part:
        part.write_text(html, encoding="utf-8")
    return Path(path)


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ImportError("a report is filled in by jinja2: pip install 'ejop[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ejop.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template(TEMPLATE)


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError("a report is drawn by plotly: pip install 'ejop[report]'") from None
    return get_plotlyjs()
