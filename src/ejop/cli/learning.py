"""What is learned with: the settings of a predictor, and which of them apply."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import typer

from ejop.cli.options import in_words


class Task(StrEnum):
    """What is predicted."""

    classification = "classification"
    regression = "regression"


class RuleName(StrEnum):
    """How rows are predicted: by kernel machines, or by near rows under the metric."""

    ridge = "ridge"
    knn = "knn"
    hnn = "hnn"


class FunctionName(StrEnum):
    """Estimate of f that the metric is made from."""

    auto = "auto"
    kernel = "kernel"
    ball = "ball"
    knn = "knn"
    ridge = "ridge"


class ScaleName(StrEnum):
    """What is done to numbers."""

    auto = "auto"
    none = "none"
    standard = "standard"
    robust = "robust"
    hellinger = "hellinger"
    quantile = "quantile"


class ScoringName(StrEnum):
    """What ranks kernel machines."""

    accuracy = "accuracy"
    balanced_accuracy = "balanced_accuracy"
    log_loss = "log_loss"
    roc_auc = "roc_auc"
    r2 = "r2"
    mean_absolute_error = "mean_absolute_error"


_OF_NUMBERS = (ScoringName.r2, ScoringName.mean_absolute_error)


@dataclass(frozen=True)
class Learning:
    """Settings of a predictor, as options give them.

    Attributes
    ----------
    rule, function, scale : str
    class_weight : str, optional
        "none", "balanced" or weights, ``name=weight,name=weight``.
    scoring : str, optional
    time_limit : float, optional
        Seconds after which no more machines are tried.
    n_jobs : int, optional
    device : str, optional
    seed : int
    checkpoint : str, optional
        File for the finished steps of a long fit.
    memory : int, optional
        Bytes that kernel matrices and rows may take.
    """

    rule: str = "ridge"
    function: str = "auto"
    scale: str = "auto"
    class_weight: str | None = None
    scoring: str | None = None
    time_limit: float | None = None
    n_jobs: int | None = None
    device: str | None = None
    seed: int = 0
    checkpoint: str | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        """Refuse, before any file is read, what has no meaning for the rule."""
        if self.rule == "ridge" and self.function != "auto":
            raise typer.BadParameter(
                f"--function {self.function} is for --rule knn or --rule hnn; rule ridge makes the "
                "metric of its own machines."
            )
        for option in ("scoring", "time-limit", "checkpoint"):
            value = getattr(self, option.replace("-", "_"))
            if self.rule != "ridge" and value is not None:
                raise typer.BadParameter(
                    f"--{option} {value} is for --rule ridge, which chooses among machines; rule "
                    f"{self.rule} has none."
                )
        if self.device is not None:
            from ejop.sums.engine import engines_for

            engines_for(self.device, np.zeros((1, 1)))

    def asked(self) -> list[str]:
        """Options beside the defaults, in words."""
        found = [] if self.scale == "auto" else [f"--scale {self.scale}"]
        named = ("class_weight", "scoring", "time_limit", "device")
        values = {name.replace("_", "-"): getattr(self, name) for name in named}
        return found + [f"--{name} {value}" for name, value in values.items() if value is not None]

    def predictor(self, training: Any) -> Any:
        """An unfitted predictor for a table; progress is shown where somebody watches."""
        from ejop import EGOPRegressor, EJOPClassifier, RidgeRule

        rule: Any = str(self.rule)
        self._check_task(training)
        if any(x is not None for x in (self.scoring, self.time_limit, self.checkpoint)):
            scoring = None if self.scoring is None else str(self.scoring)
            rule = RidgeRule(
                scoring=scoring, time_limit=self.time_limit, checkpoint=self.checkpoint
            )
        options: dict[str, Any] = {
            "function": str(self.function),
            "scale": str(self.scale),
            "columns": training.columns,
            "device": self._place(),
            "n_jobs": self.n_jobs,
            "random_state": self.seed,
            "verbose": int(sys.stderr.isatty()),
        }
        if training.task == "regression":
            return EGOPRegressor(rule, **options)
        weights = class_weights(self.class_weight, np.unique(training.y), training.target)
        return EJOPClassifier(rule, class_weight=weights, **options)

    def _place(self) -> Any:
        """Where to compute, and with how much memory."""
        from ejop import Device

        return self.device if self.memory is None else Device(self.device, None, self.memory)

    def _check_task(self, training: Any) -> None:
        numbers = training.task == "regression"
        if numbers and self.class_weight not in (None, "none"):
            raise ValueError(
                f"--class-weight is for classes, and {training.target} is a number; leave it out, "
                "or use --task classification"
            )
        if self.scoring is not None and numbers != (self.scoring in _OF_NUMBERS):
            fit = [name for name in ScoringName if (name in _OF_NUMBERS) == numbers]
            what = "a number" if numbers else "a class"
            raise ValueError(
                f"--scoring {self.scoring} does not apply: {training.target} is {what}; use "
                f"{in_words(fit)}"
            )


def class_weights(text: str | None, classes: Any, target: str) -> Any:
    """Weights of classes from an option: None, "balanced", or a number for each name.

    Examples
    --------
    >>> from ejop.cli.learning import class_weights
    >>> class_weights("no=1, yes=2.5", ["no", "yes"], "label")
    {'no': 1.0, 'yes': 2.5}
    """
    if text is None or text.strip().lower() in ("none", "balanced"):
        return "balanced" if text and text.strip().lower() == "balanced" else None
    names = {str(label): label for label in np.asarray(classes).tolist()}
    found = {}
    for part in text.split(","):
        name, equals, weight = (piece.strip() for piece in part.rpartition("="))
        if not equals:
            raise ValueError(
                f"--class-weight {text!r} is not none, balanced or name=weight,name=weight"
            )
        if name not in names:
            raise ValueError(
                f"--class-weight names {name!r}, which is no class of {target}; there are "
                f"{in_words(names, 12)}"
            )
        try:
            found[names[name]] = float(weight)
        except ValueError:
            raise ValueError(f"--class-weight {part.strip()!r}: {weight!r} is no number") from None
        if not 0 <= found[names[name]] < float("inf"):
            raise ValueError(f"--class-weight {part.strip()!r}: a weight is 0 or more, and finite")
    return found


def rule_name(predictor: Any) -> str:
    """The name of a predictor's rule."""
    from ejop.rules import RULES

    if isinstance(predictor.rule, str):
        return predictor.rule
    return next(name for name, kind in RULES.items() if type(predictor.rule) is kind)
