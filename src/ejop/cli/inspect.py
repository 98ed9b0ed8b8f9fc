"""``ejop inspect``: what a saved model has learned, with which settings, from what."""

from __future__ import annotations

from typing import Any

import numpy as np

from ejop.cli.options import AsJson, Levels, ModelFile, in_words, show_json, show_table, tell

#: lines of the two tables
DIRECTIONS, COLUMNS = 10, 20
#: kinds of columns, in words
KINDS = {
    "number": "numbers",
    "grade": "grades",
    "category": "categories",
    "flag": "flags",
    "date": "dates",
    "presence": "whether there is a value",
}


def inspect(model: ModelFile, levels: Levels = False, as_json: AsJson = False) -> None:
    """Show the spectrum, the importances, the settings and the data a model saw."""
    from ejop.cli.fit import choice_in_words
    from ejop.cli.learning import rule_name
    from ejop.cli.models import load_model
    from ejop.cli.scores import unseen_score

    found = load_model(model)
    predictor = found.predictor
    spectrum, importances = _spectrum(predictor), found.importances(levels=levels)
    score = unseen_score(found)
    if as_json:
        show_json(
            {
                "about": found.about,
                "settings": predictor.best_params_,
                "rule": rule_name(predictor),
                "held_out_score": score.value,
                "scores": score.plain_values(),
                "plan": str(predictor.plan_).splitlines(),
                "spectrum": spectrum[:DIRECTIONS],
                "importances": importances[:COLUMNS],
            }
        )
        return
    _print_about(found)
    for line in score.in_words():
        tell(line)
    if predictor.rule_.chooses:
        tell(choice_in_words(predictor))
    for name, value in {"rule": rule_name(predictor), **predictor.best_params_}.items():
        for line in value if isinstance(value, list) else [value]:
            tell(f"  {name if line is value else name.rstrip('s')}: {line}")
    if predictor.best_params_.get("power") == 0:
        tell("  power 0 is plain distance: no learned metric did better on held-out rows")
    for line in f"plan: {predictor.plan_}\n".split("\n"):
        tell(line)
    lines = [
        (str(s["direction"]), f"{s['eigenvalue']:.3e}", f"{s['share']:.1%}", f"{s['together']:.1%}")
        for s in spectrum[:DIRECTIONS]
    ]
    title = _of("Leading directions", len(lines), len(spectrum))
    show_table(["direction", "eigenvalue", "share", "together"], lines, title)
    _print_importances(importances)


def _print_importances(importances: list[dict[str, Any]]) -> None:
    shown = importances[:COLUMNS]
    header = ["column", "importance"]
    lines = [[one["column"], f"{one['importance']:.1%}"] for one in shown]
    if shown and shown[0]["stderr"] is not None:
        header.append("standard error")
        lines = [[*line, f"{one['stderr']:.1%}"] for line, one in zip(lines, shown, strict=True)]
    show_table(header, lines, _of("Importances", len(shown), len(importances)))


def _of(what: str, shown: int, total: int) -> str:
    return what if shown == total else f"{what}, {shown} of {total}"


def _spectrum(predictor: Any) -> list[dict[str, Any]]:
    values = predictor.metric_estimator_.eigenvalues_
    shares = values / values.sum() if values.sum() > 0 else np.zeros_like(values)
    together = np.cumsum(shares)
    return [
        {"direction": j + 1, "eigenvalue": v, "share": shares[j], "together": together[j]}
        for j, v in enumerate(values.tolist())
    ]


def _print_about(found: Any) -> None:
    about = found.about
    kind = type(found.predictor).__name__
    tell(f"{kind} of {about['target']}, from {about['rows']:,} rows of {about['source']}")
    tell(
        f"made {about['created']} with ejop {about['ejop']}, "
        f"scikit-learn {about['scikit-learn']}, Python {about['python']}"
    )
    if "classes" in about:
        shares = [f"{name} ({count:,})" for name, count in about["classes"].items()]
        tell(f"classes: {in_words(shares, 12)}")
    else:
        tell(f"target from {about['range'][0]:g} to {about['range'][1]:g}")
    for kind, noun in KINDS.items():
        names = [column["name"] for column in about["columns"] if column["kind"] == kind]
        if names:
            tell(f"{noun}: {in_words(names, 12)}")
    if about["id"] is not None:
        tell(f"rows are called by {about['id']}")
