"""The report in plain words, and its tables."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from ejop.report._evidence import Evidence
from ejop.subspace import spectral_gap

#: classes that a confusion matrix can hold; of more the commonest confusions are listed
MAX_CLASSES = 30
#: a change that chance alone would bring about this often is called chance
DOUBT = 0.05


def summary(evidence: Evidence) -> list[str]:
    """What was learned, a sentence or two a paragraph."""
    sentences = [_scene(evidence), _directions(evidence), _features(evidence), _gain(evidence)]
    rule = getattr(evidence.source.model, "rule_", None)
    if rule is not None and rule.chooses:
        sentences.insert(1, _machines(evidence, rule))
    power = getattr(evidence.source.model, "best_params_", {}).get("power")
    if power == 0:
        sentences.append(
            "The held-out rows preferred power 0, which is plain distance: the metric shown here "
            "was learned, but it did not help to predict and is not used."
        )
    if evidence.n_seen:
        sentences.append(
            f"Caution: {evidence.n_seen} of the {len(evidence.y)} rows shown were also learned "
            "from. On such rows every figure flatters; show rows the model has not seen."
        )
    return sentences


def _scene(e: Evidence) -> str:
    learned = "" if e.training is None else f" from {len(e.training.rows)} rows"
    what = "the target" if e.regression else "the class"
    some = "" if e.n_given == len(e.y) else f", drawn from {e.n_given},"
    return (
        f"{type(e.source.model).__name__} learned{learned} of {len(e.shares.names)} columns which "
        f"directions change {what}. The {len(e.y)} rows{some} below judge it."
    )


def _machines(e: Evidence, rule: Any) -> str:
    score = e.source.model.best_score_
    name = "R²" if e.regression else "accuracy"
    return (
        f"It answers by the {rule.in_words()}. Its {name} was {score:.3f} on training rows that "
        "the machines had not seen."
    )


def _directions(e: Evidence) -> str:
    values = e.source.eigenvalues
    total = values.sum()
    if total <= 0:
        return "No direction changes the answer: every derivative is zero."
    energy = np.cumsum(values) / total
    most = int(np.searchsorted(energy, 0.9 - 1e-12)) + 1
    verb, gap = ("holds" if most == 1 else "hold"), spectral_gap(values)
    return (
        f"{_count(most, 'direction')} of {len(values)} {verb} 90 % of all change in the answer; "
        f"the first alone holds {100 * energy[0]:.0f} %. The largest drop comes after "
        f"{_count(gap, 'direction')}."
    )


def _features(e: Evidence) -> str:
    shares = e.shares.values
    order = np.argsort(-shares, kind="stable")[: min(3, len(shares))]
    named = [f"{e.shares.names[i]} ({100 * shares[i]:.0f} %)" for i in order]
    if len(named) == 1:
        return f"The one column is {named[0]}."
    return f"The columns that matter most are {', '.join(named[:-1])} and {named[-1]}."


def _gain(e: Evidence) -> str:
    after = shown_error(e, e.error(e.after))
    if e.before is None:
        return f"The {_error_name(e)} is {after}."
    before = shown_error(e, e.error(e.before))
    _, better, worse, _ = e.changes()
    doubt = ""
    if better + worse and binomtest(better, better + worse).pvalue > DOUBT:
        doubt = " The difference may be chance."
    if e.regression:
        moved = f"{_count(better, 'row')} came nearer to the truth and {worse} went farther"
    else:
        verb = "was" if better == 1 else "were"
        moved = f"{_count(better, 'row')} {verb} fixed and {worse} broken"
    return (
        f"The {_error_name(e)} is {after}; with plain distance, the same scaling and "
        f"{_count(e.k, 'neighbour')} it is {before}. {moved}.{doubt}"
    )


def _error_name(e: Evidence) -> str:
    return "unexplained variance (1 - R²)" if e.regression else "error"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def shown_error(evidence: Evidence, error: float) -> str:
    """An error as the report writes it: per cent of rows, or a share of variance."""
    return f"{error:.3f}" if evidence.regression else f"{100 * error:.2f} %"


def prepared(evidence: Evidence) -> list[str]:
    """What was left out, filled and encoded before anything was learned; empty for nothing."""
    source = evidence.source
    preparer = getattr(source.model, "preparer_", None)
    if preparer is None and source.before is not None:
        preparer = source.before[0]
    return [] if preparer is None or not hasattr(preparer, "in_words") else preparer.in_words()


# tables -------------------------------------------------------------------------------------


def methods(evidence: Evidence, comparison: Sequence[Mapping[str, Any]] | None) -> list[dict]:
    """Rows of the table of methods: name, error, seconds as text, and which is best."""
    if comparison is None:
        return []
    table: list[dict[str, Any]] = []
    for entry in comparison:
        if "name" not in entry or "error" not in entry:
            raise ValueError(
                f"`comparison` has an entry with {sorted(entry)}; each needs 'name' and 'error', "
                "and may have 'seconds'."
            )
        seconds = entry.get("seconds")
        table.append(
            {
                "name": str(entry["name"]),
                "error": shown_error(evidence, float(entry["error"])),
                "seconds": "" if seconds is None else f"{float(seconds):.3g}",
                "value": float(entry["error"]),
            }
        )
    least = min((float(entry["error"]) for entry in comparison), default=0.0)
    return [{**row, "best": row["value"] == least} for row in table]


def confusion(evidence: Evidence, predicted: NDArray) -> dict[str, Any]:
    """Counts by true (rows) and predicted class (columns), or the commonest confusions."""
    labels = np.unique(np.concatenate([_text(evidence.y), _text(predicted)]))
    truth = np.searchsorted(labels, _text(evidence.y))
    answer = np.searchsorted(labels, _text(predicted))
    counts = np.zeros((len(labels), len(labels)), dtype=int)
    np.add.at(counts, (truth, answer), 1)
    if len(labels) <= MAX_CLASSES:
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        cells = [
            [{"n": int(n), "share": round(float(s), 3)} for n, s in zip(*pair, strict=True)]
            for pair in zip(counts, shares, strict=True)
        ]
        return {"labels": labels.tolist(), "cells": cells}
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:15]
    places = [np.unravel_index(i, counts.shape) for i in order]
    return {
        "labels": labels.tolist(),
        "pairs": [
            {"truth": labels[i], "answer": labels[j], "n": int(counts[i, j])}
            for i, j in places
            if counts[i, j]
        ],
    }


def _text(labels: NDArray) -> NDArray:
    return np.array([str(label) for label in labels])


def settings(evidence: Evidence) -> list[tuple[str, str]]:
    """Parameters that were given and chosen."""
    model = evidence.source.model
    given = [(name, str(value)) for name, value in model.get_params(deep=False).items()]
    best = getattr(model, "best_params_", {})
    chosen = [
        (f"{name} (chosen)", "; ".join(value) if isinstance(value, list) else str(value))
        for name, value in best.items()
    ]
    score = getattr(model, "best_score_", None)
    if score is not None and np.isfinite(score):
        chosen.append(("score on rows it had not seen", f"{score:.4f}"))
    return [("model", type(model).__name__), *chosen, *given]


def versions() -> list[tuple[str, str]]:
    """Versions of what made the report."""
    names = ["ejop", "numpy", "scipy", "scikit-learn", "plotly"]
    found = [("Python", platform.python_version())]
    for name in names:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # run from a source tree
            continue
    return found
