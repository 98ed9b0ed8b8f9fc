"""How good a model is on rows that it had not seen, beside the majority or the mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ejop.cli.options import counted

#: a class is rare if it has less than this part of an even share of the rows
RARE = 0.5
#: standard errors by which a model must beat the majority or the mean to be called better
CLEAR = 2.0
#: what to call rows that a model predicted without having learned from them
UNSEEN = "rows it had not seen"


@dataclass(frozen=True)
class Score:
    """How good predictions of some rows are.

    Attributes
    ----------
    on : str
        Which rows.
    rows : int
    name : {"accuracy", "R2"}
    value, stderr : float
        The error is NaN where it is not known.
    simple : str
        What is always answered without a model: the most frequent class, or the mean.
    simple_value : float
        The score of that.
    gain, gain_stderr : float
        How much more the model is right, a row, or how much of the squared error it takes away.
    more : dict of str to float
        Further scores.
    plain_distances : float, optional
        The score of near rows by plain distance.
    """

    on: str
    rows: int
    name: str
    value: float
    stderr: float
    simple: str
    simple_value: float
    gain: float
    gain_stderr: float
    more: dict[str, float] = field(default_factory=dict)
    plain_distances: float | None = None

    def plain_values(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def in_words(self) -> list[str]:
        """One line, and more where something should be known beside it."""
        if np.isnan(self.value):
            return ["too few rows to hold any out, so how good it is is not known"]
        around = "" if np.isnan(self.stderr) else f" ± {self.stderr:.3f}"
        lines = [f"{self.name} {self.value:.3f}{around} on {self.on}"]
        if self.name == "accuracy":
            lines[0] += f"; {self.simple_value:.3f} by always answering {self.simple}"
            extra = [f"{name} {value:.3f}" for name, value in self.more.items()]
            lines += [f"{', '.join(extra)}, since classes are rare"] if extra else []
        elif self.more:
            error, plain = self.more.values()
            lines.append(f"wrong by {error:.4g} in the mean; by {plain:.4g} without a model")
        if self.plain_distances is not None:
            lines.append(f"{self.plain_distances:.3f} with plain distances")
        return [*lines, *self._warnings()]

    def _warnings(self) -> list[str]:
        """Whether it is of no use, as far as these rows tell."""
        error = 0.0 if np.isnan(self.gain_stderr) else self.gain_stderr
        if self.gain > CLEAR * error:
            return []
        how = "no better" if self.gain <= 0 else "not clearly better"
        text = f"warning: this is {how} than always answering {self.simple}"
        chance = self.more.get("AUC", 0.5)
        if chance > 0.6:
            text += (
                f"; its probabilities do rank the rows (AUC {chance:.2f}): "
                "look at `ejop predict --proba`, or try --class-weight balanced"
            )
        return [text]


def of_classes(
    truth: NDArray,
    predicted: NDArray,
    counts: dict[str, int],
    shares: NDArray | None = None,
    on: str = UNSEEN,
) -> Score:
    """Score of predicted classes.

    Parameters
    ----------
    truth, predicted : ndarray of str, shape (n_rows,)
    counts : dict of str to int
        Classes of the training rows, in the order of the columns of ``shares``.
    shares : ndarray of shape (n_rows, n_classes), optional
        Their probabilities.
    on : str
        What these rows are.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.cli.scores import of_classes
    >>> truth = np.array(["no", "no", "no", "yes"])
    >>> found = of_classes(truth, np.array(["no"] * 4), {"no": 36, "yes": 4})
    >>> found.value, found.simple_value, found.more["balanced accuracy"]
    (0.75, 0.75, 0.5)
    """
    n, simple = len(truth), max(counts, key=lambda name: counts[name])
    right, plain = truth == predicted, truth == simple
    gain = right.astype(float) - plain
    more: dict[str, float] = {}
    if min(counts.values()) < RARE * sum(counts.values()) / len(counts):
        there = [name for name in counts if (truth == name).any()]
        more["balanced accuracy"] = float(np.mean([right[truth == name].mean() for name in there]))
        if shares is not None and len(there) > 1:
            more["AUC"] = _area(truth, shares, counts)
    ours, theirs = (_mean(right), _error(right)), _mean(plain)
    return Score(on, n, "accuracy", *ours, simple, theirs, _mean(gain), _error(gain), more)


def _area(truth: NDArray, shares: NDArray, counts: dict[str, int]) -> float:
    """Area under the curve of two classes; of more the mean over classes, each against the rest."""
    from sklearn.metrics import roc_auc_score

    names = list(counts)
    judged = [1] if len(names) == 2 else range(len(names))
    found = [
        roc_auc_score(truth == names[c], shares[:, c]) for c in judged if (truth == names[c]).any()
    ]
    return float(np.mean(found))


def of_numbers(truth: NDArray, predicted: NDArray, mean: float, on: str = UNSEEN) -> Score:
    """Score of predicted numbers.

    Parameters
    ----------
    truth, predicted : ndarray of shape (n_rows,)
    mean : float
        Of the training rows.
    on : str
        What these rows are.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.cli.scores import of_numbers
    >>> found = of_numbers(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]), mean=2.0)
    >>> found.value, found.simple
    (0.5, 'the mean')
    """
    errors, plain = (truth - predicted) ** 2, (truth - truth.mean()) ** 2
    spread = _mean(plain)
    if not spread > 0:
        value = stderr = np.nan
    else:
        value = 1 - _mean(errors) / spread
        stderr = _error(errors - (1 - value) * plain) / spread  # of a ratio, to first order
    gain = (truth - mean) ** 2 - errors
    more = {
        "mean absolute error": float(np.abs(truth - predicted).mean()),
        "mean absolute error of the mean": float(np.abs(truth - mean).mean()),
    }
    return Score(
        on, len(truth), "R2", value, stderr, "the mean", 0.0, _mean(gain), _error(gain), more
    )


def _mean(values: NDArray) -> float:
    return float(values.mean())


def _error(values: NDArray) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


# models -----------------------------------------------------------------------------------------


def unseen_score(model: Any) -> Score:
    """What a model says of training rows that it had not seen when it predicted them.

    Kernel machines have predicted each row without it, and were chosen without it. Of neighbours
    only their scores are kept.
    """
    predictor, about = model.predictor, model.about
    if not predictor.rule_.chooses:
        return _tuned_score(predictor, about)
    truth, predicted, shares = unseen_predictions(model)
    if about["task"] == "regression":
        return of_numbers(truth, predicted, _mean(predictor.rule_.function_.Y_))
    return of_classes(truth, predicted, counts_of(model), shares)


def unseen_predictions(model: Any) -> tuple[NDArray, NDArray, NDArray | None]:
    """Targets of training rows, what kernel machines that had not seen them predicted, and the
    probabilities of classes; classes are named as text. Neighbours keep no such rows."""
    predictor = model.predictor
    rule = predictor.rule_
    if not rule.chooses:
        return np.zeros(0), np.zeros(0), None
    truth = rule.function_.Y_[rule.judged_]
    if model.about["task"] == "regression":
        return truth[:, 0], rule.honest_[:, 0], None
    names = predictor.classes_.astype(str)
    return names[truth.argmax(1)], names[rule.honest_.argmax(1)], rule.shares(rule.honest_)


def counts_of(model: Any) -> dict[str, int]:
    """Training rows of each class, in the order of the predictor's classes."""
    return {str(c): model.about["classes"][str(c)] for c in model.predictor.classes_}


def _tuned_score(predictor: Any, about: dict[str, Any]) -> Score:
    """Score of a choice that each split was left out of."""
    n, value, plain = about["rows"], float(predictor.unseen_score_), plain_score(predictor)
    if about["task"] == "regression":
        name, stderr, simple, share, error = "R2", np.nan, "the mean", 0.0, np.nan
    else:
        simple = max(about["classes"], key=lambda each: about["classes"][each])
        share = about["classes"][simple] / n
        name, stderr = "accuracy", float(np.sqrt(value * (1 - value) / n))
        error = float(np.hypot(stderr, np.sqrt(share * (1 - share) / n)))
    gain = value - share
    return Score(UNSEEN, n, name, value, stderr, simple, share, gain, error, {}, plain)


def plain_score(predictor: Any) -> float | None:
    """The same of plain distances (power 0); None where no distance was tuned."""
    results = predictor.cv_results_
    plain = np.asarray(results.get("param_power", [])) == 0
    splits = [results[name][plain] for name in results if name.startswith("split")]
    if not np.any(plain) or len(splits) < 2:
        return None
    scores = np.array(splits).T
    others = scores.sum(1, keepdims=True) - scores
    return float(scores[others.argmax(0), np.arange(scores.shape[1])].mean())


def truth_of(model: Any, series: Any) -> tuple[NDArray, NDArray]:
    """Which rows have a target, and these targets: classes as the model names them, or numbers."""
    from ejop.cli.tables import without_label_words
    from ejop.cli.training import known_labels, real_values

    series = without_label_words(series)
    known = series.notna().to_numpy()
    series = series[known]
    if model.about["task"] == "regression":
        return known, real_values(series) if len(series) else np.zeros(0)
    return known, known_labels(series, model.predictor.classes_)


def score_of(
    model: Any, truth: NDArray, predicted: NDArray, shares: NDArray | None = None, on: str = ""
) -> Score:
    """Score of predictions of a model.

    Parameters
    ----------
    model : SavedModel
    truth : ndarray of shape (n_rows,)
        See :func:`truth_of`.
    predicted : ndarray of shape (n_rows,)
    shares : ndarray of shape (n_rows, n_classes), optional
        Probabilities of the classes.
    on : str
        What these rows are; their number by default.
    """
    on = on or counted(len(truth), "row")
    if model.about["task"] == "regression":
        mean = float(np.mean(model.predictor.rule_.targets_))
        return of_numbers(truth, predicted, mean, on)
    return of_classes(truth.astype(str), predicted.astype(str), counts_of(model), shares, on)


def predictions_of(model: Any, frame: Any) -> tuple[NDArray, NDArray | None]:
    """What a model predicts for rows of a table, and the probabilities of classes."""
    predictor, X = model.predictor, model.matched(frame)
    if model.about["task"] == "regression":
        return predictor.predict(X), None
    shares = predictor.predict_proba(X)  # the largest is predicted
    return predictor.classes_[shares.argmax(1)], shares
