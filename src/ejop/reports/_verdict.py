"""The verdict in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ejop.reports._evidence import Evidence
from ejop.reports._rivals import COVERAGE, RivalScore
from ejop.reports._words import counted, listed, number, percent

#: area under the curve from which probabilities are worth something though answers are not
ORDERS = 0.6


def headline(e: Evidence, found: Sequence[RivalScore]) -> str:
    """How good the model is, in one sentence."""
    mine = found[0]
    rows = counted(len(e.y), "row")
    which = f"{rows} it has not seen" if e.held_out or not e.n_seen else rows
    if not np.isfinite(mine.value):
        return f"How good the model is cannot be told from {which}: their targets do not differ."
    if e.regression:
        explained = f"explains {percent(max(mine.value, 0), 0)} of the differences"
        return f"The model {explained} between the targets of {which} (R² {_between(e, mine)})."
    return f"The model is right on {percent(mine.value)} of {which} ({_between(e, mine)})."


def _between(e: Evidence, score: RivalScore) -> str:
    """The interval, and of R^2 the value before it."""
    text = percent if not e.regression else "{:.3f}".format
    value = f"{text(score.value)}, " if e.regression else ""
    return f"{value}{percent(COVERAGE, 0)} interval {text(score.low)} to {text(score.high)}"


def is_poor(found: Sequence[RivalScore]) -> bool:
    """Whether the model is no better than always giving the same answer."""
    rule = next((score for score in found if score.kind == "rule"), None)
    return rule is not None and (rule.doubtful or rule.value >= found[0].value)


def sentences(e: Evidence, found: Sequence[RivalScore]) -> list[tuple[str, bool]]:
    """What follows the headline; whether each is a warning."""
    said = [(_caution(e), True)]
    said += [(_against_rule(e, found), is_poor(found))]
    said += [(_against_others(e, found), False)]
    said += [] if is_poor(found) else [(_matters(e), False)]
    said += [(_unused(e), True)]
    return [(words, warns) for words, warns in said if words]


def _caution(e: Evidence) -> str:
    """Rows that were seen before; of rows held out those that have a twin."""
    if not e.n_seen:
        return ""
    equal = "equals" if e.n_seen == 1 else "equal"
    if e.held_out:
        return ""
    return (
        f"Caution: {e.n_seen:,} of the {counted(len(e.y), 'row')} {equal} a row that the model has "
        "learned from, in every column it uses. If they are the same rows, all figures here "
        "flatter: show rows it has not seen."
    )


def _against_rule(e: Evidence, found: Sequence[RivalScore]) -> str:
    rule = next((score for score in found if score.kind == "rule"), None)
    if rule is None or not np.isfinite(found[0].value):
        return ""
    mine, what = found[0], "answering the mean"
    scores = f"R² {rule.value:.3f}"
    if not e.regression:
        what, scores = f"answering {rule.name.removeprefix('always ')}", percent(rule.value)
    if not is_poor(found) and e.regression:
        return (
            f"Its answers are off by {number(mine.second)} on average; always {what} would be off "
            f"by {number(rule.second)}."
        )
    if not is_poor(found):
        return f"Always {what}, the commonest class, reaches {scores}."
    words = f"That is no better than always {what} ({scores}). Do not rely on its answers."
    if mine.value > rule.value:
        words = (
            f"That cannot be told from always {what} ({scores}): on so few rows the difference may "
            "be chance. Do not rely on its answers yet."
        )
    if mine.auc is not None and mine.auc > ORDERS:
        words += (
            f" Its probabilities still order the rows (AUC {mine.auc:.2f}, where 0.5 is chance): "
            "use them to rank."
        )
    return words


def _against_others(e: Evidence, found: Sequence[RivalScore]) -> str:
    """Forest and near rows: better, worse, or not to be told apart."""
    groups: dict[str, list[str]] = {"worse": [], "better": [], "alike": []}
    names = {"forest": "a random forest", "near": "the nearest rows by plain distance"}
    for score in found:
        if score.kind in names and np.isfinite(score.value):
            text = f"{score.value:.3f}" if e.regression else percent(score.value)
            apart = "better" if score.value > found[0].value else "worse"
            groups["alike" if score.doubtful else apart].append(f"{names[score.kind]} ({text})")
    ending = {
        "better": "{} did better on these rows",
        "worse": "{} did worse",
        "alike": "from {} it cannot be told apart on these rows",
    }
    parts = [text.format(listed(groups[key])) for key, text in ending.items() if groups[key]]
    words = "; ".join(parts)
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _matters(e: Evidence) -> str:
    shares = e.shares.values
    order = np.argsort(-shares, kind="stable")[: min(3, len(shares))]
    named = [f"{e.shares.names[i]} ({percent(shares[i], 0)})" for i in order if shares[i] > 0.005]
    if not named:
        return "No column changes the answer."
    if len(named) == 1:
        return f"The column that matters is {named[0]}."
    return f"The columns that matter most are {listed(named)}."


def _unused(e: Evidence) -> str:
    """Near rows may have chosen plain distance."""
    if getattr(e.source.model, "best_params_", {}).get("power") != 0:
        return ""
    return (
        "Held-out rows preferred power 0, which is plain distance: the metric shown here was "
        "learned, but it did not help to predict and is not used."
    )


def how_it_answers(e: Evidence, found: Sequence[RivalScore]) -> list[str]:
    """What the model is and how the table of scores came about."""
    model = e.source.model
    n = None if e.learned is None else e.learned.n_all
    learned = "" if n is None else f" learned from {counted(n, 'row')}"
    what = f"{type(model).__name__}{learned}."
    if e.explains:
        score = f"R² {model.best_score_:.3f}" if e.regression else percent(model.best_score_)
        what += (
            f" It answers by the {e.rule.in_words()}; on training rows that these had not seen it "
            f"reached {score}."
        )
    said = [what]
    if len(found) > 1 and e.learned is not None:
        words = "All methods were judged on the same rows and had the columns as prepared here"
        if len(e.learned.y) < e.learned.n_all:
            words += (
                f"; all but this model learned from {len(e.learned.y):,} of the "
                f"{counted(e.learned.n_all, 'row')} alone"
            )
        said.append(f"{words}. The forest has scikit-learn's default settings.")
    if len(e.y) < e.n_given:
        said.append(f"The rows are drawn at random from {e.n_given:,}.")
    if e.held_out and e.n_seen:
        said.append(
            f"{e.n_seen:,} of the rows judged {'equals' if e.n_seen == 1 else 'equal'} a row "
            "learned from in every column that is used."
        )
    return said


# tables -------------------------------------------------------------------------------------


def score_table(e: Evidence, found: Sequence[RivalScore]) -> dict[str, Any]:
    """Head and lines of the table of scores, and where each interval lies in a common span."""
    head = ["R²", "mean error"] if e.regression else ["right", "by class"]
    auc = any(score.auc is not None for score in found)
    ends = [x for s in found for x in (s.low, s.high, s.value) if np.isfinite(x)]
    low, high = (max(min(ends), -0.2), max(ends)) if ends else (0.0, 1.0)
    span = max(high - low, 1e-9)
    lines = []
    for score in found:
        known = np.isfinite(score.value)
        text = "{:z.3f}".format if e.regression else percent
        short = "{:z.2f}".format if e.regression else "{:.1%}".format
        between = f"{short(score.low)} to {short(score.high)}".replace("%", "") if known else ""
        lines.append(
            {
                "name": score.name,
                "mine": score.kind == "model",
                "value": text(score.value) if known else "unknown",
                "between": between,
                "second": number(score.second) if e.regression else percent(score.second),
                "auc": "" if score.auc is None else f"{score.auc:.3f}",
                "places": [
                    round(100 * float(np.clip((x - low) / span, 0, 1)), 1)
                    for x in (score.low, score.value, score.high)
                ]
                if known
                else None,
            }
        )
    return {"head": head, "auc": auc, "lines": lines}


def method_table(e: Evidence, comparison: Sequence[Mapping[str, Any]] | None) -> list[dict]:
    """Rows of the table of methods: name, error, seconds as text, and which is best."""
    table: list[dict[str, Any]] = []
    for entry in comparison or []:
        if "name" not in entry or "error" not in entry:
            raise ValueError(
                f"`comparison` has an entry with {sorted(entry)}; each needs 'name' and 'error', "
                "and may have 'seconds'."
            )
        seconds, error = entry.get("seconds"), float(entry["error"])
        table.append(
            {
                "name": str(entry["name"]),
                "error": f"{error:.3f}" if e.regression else percent(error, 2),
                "seconds": "" if seconds is None else f"{float(seconds):.3g}",
                "value": error,
            }
        )
    least = min((row["value"] for row in table), default=0.0)
    return [{**row, "best": row["value"] == least} for row in table]
