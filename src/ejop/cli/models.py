"""Model files: one scikit-learn pipeline in skops' format, with a description beside it."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ejop import __version__
from ejop.cli.columns import Column, typed
from ejop.cli.options import counted, in_words, say
from ejop.cli.tables import read_table
from ejop.cli.training import TrainingTable
from ejop.unpacking import check_unpacked, parsing
from ejop.writing import replacing

#: raised when one version of ejop cannot read what another writes; 1 was that of ejop 0.1
FORMAT = 3
#: member of the archive that describes it; skops leaves it alone
DESCRIPTION = "ejop.json"


@dataclass
class SavedModel:
    """A fitted pipeline and what is known of its making.

    Attributes
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Steps "prepare" (columns to numbers) and "predict" (EJOPClassifier or EGOPRegressor).
    about : dict
        Plain values: versions, date, source, target, task, rows, columns, skipped columns.
    """

    pipeline: Any
    about: dict[str, Any]

    @property
    def predictor(self) -> Any:
        """The last step."""
        return self.pipeline["predict"]

    @property
    def columns(self) -> list[Column]:
        """What the pipeline expects of a table."""
        return [Column(**column) for column in self.about["columns"]]

    def read(self, path: Path, encoding: str | None = None) -> Any:
        """A table of new rows, its columns read as those of the training table were."""
        levels = [column.name for column in self.columns if column.kind != "number"]
        labels = [self.about["target"]] if self.about["task"] == "classification" else []
        return read_table(
            path,
            text=[*levels, *labels],
            valued=[column.name for column in self.columns if column.kind != "category"],
            encoding=encoding,
            missing=self.about.get("missing") or [],
        )

    def matched(self, frame: Any) -> Any:
        """The columns of the model by their names; what is odd is said, what is missing fails."""
        columns = self.columns
        missing = [column.name for column in columns if column.name not in frame]
        if missing:
            raise ValueError(
                f"{counted(len(missing), 'column')} of the model missing: {', '.join(missing)}"
            )
        known = {column.name for column in columns} | {self.about["target"]}
        known |= {column["name"] for column in self.about["skipped"]}
        extra = [name for name in frame.columns if name not in known]
        if extra:
            say(f"warning: ignored {counted(len(extra), 'extra column')}: {in_words(extra)}")
        rows = typed(frame, columns)
        for column in columns:
            self._tell(column, rows[column.name])
        return rows

    @staticmethod
    def _tell(column: Column, values: Any) -> None:
        n_missing = int(values.isna().sum())
        if n_missing:
            say(f"{counted(n_missing, 'missing value')} of {column.name} filled in")
        if column.kind != "number":
            new = sorted(set(values.dropna()) - set(column.levels))
            if new:
                say(
                    f"warning: {column.name} has {counted(len(new), 'level')} that the model has "
                    f"not seen: {in_words(new)}; such rows count as none of its levels"
                )

    def prepared(self, frame: Any) -> Any:
        """Rows as the predictor takes them: a data frame of numbers with its feature names."""
        return self.pipeline["prepare"].transform(self.matched(frame))

    def by_column(self, values: Any) -> tuple[list[str], Any]:
        """Values of the predictor's features (last axis) summed over the levels of a column."""
        names = [column.name for column in self.columns]
        owner = feature_owners(self.pipeline["prepare"], self.columns)
        return names, values @ np.eye(len(names))[owner]


def make_preparation(columns: Iterable[Column]) -> Any:
    """Columns to numbers: medians for missing numbers, levels one-hot encoded.

    Numbers are always imputed, so that a value that is missing for the first time in new rows can
    be predicted from.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = list(columns)
    levels = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    parts = [
        (
            "numbers",
            SimpleImputer(strategy="median"),
            [c.name for c in columns if c.kind == "number"],
        ),
        ("levels", levels, [c.name for c in columns if c.kind != "number"]),
    ]
    found = ColumnTransformer([part for part in parts if part[2]], verbose_feature_names_out=False)
    return found.set_output(transform="pandas")


def feature_owners(preparation: Any, columns: list[Column]) -> Any:
    """For each prepared feature, the number of the column it comes from."""
    order = [column.name for column in columns]
    owners: list[int] = []
    for name, part, names in preparation.transformers_:
        if name == "numbers":
            owners += [order.index(n) for n in names]
        elif name == "levels":
            for n, found in zip(names, part[-1].categories_, strict=True):
                owners += [order.index(n)] * len(found)
    return np.array(owners)


# files ------------------------------------------------------------------------------------------


def describe(training: TrainingTable, source: str) -> dict[str, Any]:
    """What a model file says of itself, as plain values."""
    import sklearn

    about: dict[str, Any] = {
        "format": FORMAT,
        "ejop": __version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": source,
        "target": training.target,
        "task": training.task,
        "rows": len(training.y),
        "columns": [asdict(column) for column in training.columns],
        "skipped": [asdict(column) for column in training.skipped],
        "missing": training.missing,
    }
    if training.task == "classification":
        classes, counts = np.unique(training.y, return_counts=True)
        about["classes"] = dict(zip(map(str, classes), counts.tolist(), strict=True))
    else:
        about["range"] = [float(training.y.min()), float(training.y.max())]
    return about


def allowed() -> frozenset[str]:
    """What a model may hold beside what skops itself trusts.

    skops trusts scikit-learn's estimators, numpy's arrays and plain values; anything else is
    refused unread.
    """
    from ejop import (
        EGOP,
        EJOP,
        Device,
        EGOPRegressor,
        EJOPClassifier,
        KNeighborsRule,
        RadiusRule,
        RidgeRule,
    )
    from ejop.functions import (
        AverageFunction,
        KernelSmoother,
        Member,
        NeighborsSmoother,
        RidgeFunction,
    )
    from ejop.kernels import Compact, Gaussian, Laplace
    from ejop.rows import Moments, Summary
    from ejop.scaling import HellingerScaler, QuantileColumns
    from ejop.sums import OuterProduct
    from ejop.sums.engine import HostEngine
    from ejop.sums.plan import Plan
    from ejop.tuning import Setting

    estimators = (EGOP, EJOP, EGOPRegressor, EJOPClassifier, HellingerScaler, QuantileColumns)
    functions = (KernelSmoother, NeighborsSmoother, RidgeFunction, AverageFunction, Member)
    kernels = (Compact, Gaussian, Laplace)
    sums = (OuterProduct, Plan, Summary, Moments, HostEngine, Device)
    rules = (KNeighborsRule, RadiusRule, RidgeRule, Setting)
    ours = (*estimators, *functions, *kernels, *rules, *sums)
    return frozenset({"numpy.dtype", *(f"{c.__module__}.{c.__qualname__}" for c in ours)})


class _Hidden:
    """A finder that finds some packages nowhere."""

    names = ("cupy", "dask", "jax", "torch")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse the hidden packages; leave the others to the next finder."""
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def skops_io() -> Any:
    """skops.io, imported without what it has no use for.

    It looks through all of scikit-learn for estimators and so imports every array library that is
    installed, which takes seconds. A library that is not found is passed over.
    """
    finder = _Hidden()
    sys.meta_path.insert(0, finder)
    try:
        import skops.io  # type: ignore[import-untyped]
    finally:
        sys.meta_path.remove(finder)
    return skops.io


def save_model(model: SavedModel, path: Path) -> None:
    """Write a model file, whole or not at all."""
    whole = BytesIO()  # put together here, since not every place to write to can be gone back in
    skops_io().dump(model.pipeline, whole, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    with zipfile.ZipFile(whole, "a", zipfile.ZIP_DEFLATED) as archive:
        about = {**model.about, "digest": _digest(archive)}
        archive.writestr(DESCRIPTION, json.dumps(about, indent=2))
    with replacing(path) as part:
        part.write_bytes(whole.getbuffer())


def _digest(archive: zipfile.ZipFile) -> str:
    """SHA-256 over the names and contents of all that a model is made of.

    It tells of files that were edited or put together from several. It is no signature.
    """
    found = hashlib.sha256()
    for name in sorted(set(archive.namelist()) - {DESCRIPTION}):
        found.update(f"{name}\0{archive.getinfo(name).file_size}\0".encode())
        found.update(archive.read(name))
    return found.hexdigest()


def load_model(path: Path) -> SavedModel:
    """Read a model file; nothing in it is run, and a type no model has is refused.

    Raises
    ------
    ValueError
        When it is no model, one of another format, damaged, holds anything unexpected, or would
        unpack to more than :func:`ejop.unpacking.unpacked_limit` allows.
    """
    about = _read_description(path)
    found = about.get("format")
    if found != FORMAT:
        older = isinstance(found, int) and found < FORMAT
        remedy = "fit it again with `ejop fit`" if older else "upgrade ejop"
        raise ValueError(
            f"{path} was saved by ejop {about.get('ejop')} in format {found}, and ejop "
            f"{__version__} reads format {FORMAT}; {remedy}"
        )
    odd_parts = wrong_parts(about)
    if odd_parts:
        raise ValueError(
            f"{path} was tampered with: its description has no proper {in_words(odd_parts)}"
        )
    try:
        odd = sorted(set(skops_io().get_untrusted_types(file=path)) - allowed())
        with zipfile.ZipFile(path) as archive:
            same = _digest(archive) == about["digest"]
        if same and not odd:
            pipeline = _construct(path)
    except Exception as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if odd:
        raise ValueError(
            f"{path} was tampered with: no ejop model holds {in_words(odd)}; it was not loaded"
        )
    if not same:
        raise ValueError(
            f"{path} was tampered with: its parts are not those that were saved; fit it again with "
            "`ejop fit`"
        )
    model = SavedModel(pipeline, about)
    _check(model, path)
    _tell_versions(about, path)
    return model


def _construct(path: Path) -> Any:
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():  # another scikit-learn is told below, once
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        return skops_io().load(path, trusted=sorted(allowed()))


def _read_description(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise ValueError(f"cannot read {path}: there is no such file")
    try:
        with parsing("model"), zipfile.ZipFile(path) as archive:
            sizes = [member.file_size for member in archive.infolist()]
            described = DESCRIPTION in archive.namelist()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no model that `ejop fit` saved") from error
    try:
        check_unpacked(sum(sizes), path.stat().st_size)
    except ValueError as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    about = None
    if described:
        try:
            with parsing("model"), zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read(DESCRIPTION))
                bad = archive.testzip()  # a member that is read in part is not checked otherwise
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is damaged: a part of it cannot be read") from error
        if bad is not None:
            raise ValueError(f"{path} is damaged: its {bad} is not what was saved")
    if not isinstance(about, dict):
        raise ValueError(f"{path} is no model that `ejop fit` saved")
    return about


def wrong_parts(about: dict[str, Any]) -> list[str]:
    """Parts of a description that are missing or not what they should be.

    Examples
    --------
    >>> from ejop.cli.models import wrong_parts
    >>> wrong_parts({"target": 3})[:2]
    ['target', 'source']
    """
    wrong = [name for name, right in _PARTS.items() if not right(about.get(name))]
    if "task" in wrong:
        return wrong
    if about["task"] == "classification":
        counts = about.get("classes")
        fine = isinstance(counts, dict) and all(_is_count(n) for n in counts.values())
        return wrong if fine else [*wrong, "classes"]
    ends = about.get("range")
    fine = isinstance(ends, list) and len(ends) == 2 and all(type(x) in (int, float) for x in ends)
    return wrong if fine else [*wrong, "range"]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_column(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"name", "kind", "missing", "levels"}
        and _is_text(value["name"])
        and value["kind"] in ("number", "category", "boolean")
        and _is_count(value["missing"])
        and _is_texts(value["levels"])
    )


def _is_skipped(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("name")) and _is_text(value.get("why"))


#: what a description must have, and how each part is recognised
_PARTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("target", "source", "created", "ejop", "scikit-learn", "python", "digest"), _is_text
    ),
    "task": lambda value: value in ("classification", "regression"),
    "rows": _is_count,
    "columns": lambda value: isinstance(value, list) and all(map(_is_column, value)),
    "skipped": lambda value: isinstance(value, list) and all(map(_is_skipped, value)),
    "missing": lambda value: value is None or _is_texts(value),
}
#: what commands ask of a predictor beside its methods
_FITTED = (
    "best_params_",
    "best_score_",
    "cv_results_",
    "feature_importances_",
    "metric_estimator_",
    "n_features_in_",
    "plan_",
    "rule_",
)


def _check(model: SavedModel, path: Path) -> None:
    """Refuse what is made of known parts, put together as no model is."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    from ejop import EGOPRegressor, EJOPClassifier

    kind = EJOPClassifier if model.about["task"] == "classification" else EGOPRegressor
    try:
        steps = [(name, type(step)) for name, step in model.pipeline.steps]
        known = type(model.pipeline) is Pipeline
        known &= steps == [("prepare", ColumnTransformer), ("predict", kind)]
        features = feature_owners(model.pipeline["prepare"], model.columns)
        fits = len(features) == model.predictor.n_features_in_
        for name in _FITTED:
            getattr(model.predictor, name)
        if kind is EJOPClassifier:
            fits &= set(model.about["classes"]) == set(map(str, model.predictor.classes_))
    except Exception as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not (known and fits):
        raise ValueError(f"{path} was tampered with: it is not put together as a model is")


def _tell_versions(about: dict[str, Any], path: Path) -> None:
    import sklearn

    for name, here in (("ejop", __version__), ("scikit-learn", sklearn.__version__)):
        there = about.get(name)
        if there != here:
            say(f"warning: {path} was made with {name} {there}, this is {here}; answers may differ")
