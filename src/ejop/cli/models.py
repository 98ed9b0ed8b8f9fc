"""Model files: a fitted predictor in skops' format, with a description beside it."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ejop import __version__
from ejop.cli.description import FORMAT, describe, in_plain_values, wrong_parts
from ejop.cli.options import counted, in_words, say
from ejop.cli.reading import PLAIN, ReadOptions
from ejop.cli.tables import BOOLEANS, is_plain, read_table, without_label_words
from ejop.cli.training import TrainingTable, told_by_us
from ejop.explanation import FEWEST
from ejop.unpacking import check_unpacked, parsing
from ejop.writing import replacing

#: member of the archive that describes it; skops leaves it alone
DESCRIPTION = "ejop.json"
#: member that skops writes
SCHEMA = "schema.json"
#: groups of rows that are left out in turn for errors of importances, half of those in Python
REFITS = 5


@dataclass
class SavedModel:
    """A fitted predictor and what is known of its making.

    Attributes
    ----------
    predictor : EJOPClassifier or EGOPRegressor
        It prepares tables itself, see :class:`ejop.columns.ColumnPreparer`.
    about : dict
        Plain values: versions, date, source, target, task, rows, columns, skipped columns.
    """

    predictor: Any
    about: dict[str, Any]

    @classmethod
    def fit(cls, training: TrainingTable, learning: Any) -> SavedModel:
        """Learn from a table."""
        predictor = learning.predictor(training)
        with told_by_us(training.source):
            predictor.fit(training.X, training.y)
        predictor.set_params(verbose=0, device=None, n_jobs=None)  # of no use to whoever loads it
        predictor.metric_estimator_.set_params(device=None, n_jobs=None)
        if learning.checkpoint is not None:
            for note in predictor.rule_.notes_:
                if note.startswith("checkpoint"):
                    say(note)
            for rule in (predictor.rule, predictor.rule_):
                rule.set_params(checkpoint=None)
        return cls(predictor, describe(training, predictor.preparer_))

    @property
    def preparer(self) -> Any:
        """What prepares the columns."""
        return self.predictor.preparer_

    def read(self, path: Path, reading: ReadOptions = PLAIN, id_column: str | None = None) -> Any:
        """A table of new rows, its columns read as those of the training table were.

        Parameters
        ----------
        path : Path
        reading : ReadOptions, optional
            What was asked for; else what was for the training table, where it fits.
        id_column : str, optional
            Column of what rows are called, which stays as it is written.
        """
        about = self.about
        text = [column.name for column in self.preparer.columns_ if _is_written(column)]
        text += [about["target"]] if about["task"] == "classification" else []
        text += [name for name in (id_column, about["id"]) if name is not None]
        usual, missing = ReadOptions(**about["reading"]), about["missing"]
        frame = read_table(path, text=text, reading=reading, usual=usual, missing=missing)
        if about["target"] in frame:
            frame[about["target"]] = without_label_words(frame[about["target"]])
        return frame

    def matched(self, frame: Any) -> Any:
        """The columns of the model by their names and in their order; others are told."""
        about = self.about
        names = [column.name for column in self.preparer.columns_]
        known = {*names, about["target"], about["id"]}
        known |= {column["name"] for column in about["skipped"]}
        extra = [name for name in frame.columns if name not in known]
        if extra and set(names) <= set(frame.columns):  # else the refusal is what counts
            say(f"warning: ignored {counted(len(extra), 'extra column')}: {in_words(extra)}")
        return frame[[name for name in names if name in frame]]

    def importances(self, *, levels: bool = False) -> list[dict[str, Any]]:
        """Share of each used column in what changes f, largest first, and its standard error where
        one is known; of levels those of every prepared column."""
        predictor, stderr = self.predictor, None
        names, used = self.names(levels=levels)
        if predictor.rule_.chooses:
            if levels:
                values = predictor.column_changes().by_feature()
            elif len(predictor.kept_) < FEWEST:
                values = predictor.feature_importances_
            else:
                shares = predictor.importances(min(REFITS, len(predictor.kept_) // 2))
                values, stderr = shares.values, shares.stderr
        else:
            values = predictor.metric_importances_ if levels else predictor.feature_importances_
        found = []
        for name, j in zip(names, used, strict=True):
            error = None if stderr is None else float(stderr[j])
            found.append({"column": name, "importance": float(values[j]), "stderr": error})
        return sorted(found, key=lambda one: -one["importance"])

    def names(self, *, levels: bool = False) -> tuple[list[str], Any]:
        """Names of the used columns, or of what they are prepared to, and their numbers."""
        if levels:
            found = list(map(str, self.preparer.get_feature_names_out()))
            return found, np.arange(len(found))
        used = np.unique(self.preparer.groups_)
        return [self.preparer.names_[j] for j in used], used

    def origins(self, *, levels: bool = False) -> list[str]:
        """The column of the table that each of these names comes from."""
        names, _ = self.names(levels=levels)
        return [self.preparer.names_[j] for j in self.preparer.groups_] if levels else names


def _is_written(column: Any) -> bool:
    """Whether values must be read as they are written: levels that are no plain numbers and
    booleans, and numbers that are written in a way of their own."""
    levels = [*getattr(column, "levels", []), *getattr(column, "rare", [])]
    if column.kind in ("number", "date", "presence"):
        return bool(getattr(getattr(column, "form", None), "marks", False))
    return not all(level in BOOLEANS or is_plain(level) for level in levels)


# files ------------------------------------------------------------------------------------------


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
    from ejop.columns import (
        CategoryColumn,
        ColumnPreparer,
        DateColumn,
        DateFormat,
        FlagColumn,
        GradeColumn,
        NumberColumn,
        NumberFormat,
        PresenceColumn,
        Skipped,
        SparseReducer,
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
    from ejop.scaling import HellingerScaler, MixedScaler, QuantileColumns
    from ejop.sums import OuterProduct
    from ejop.sums.engine import HostEngine
    from ejop.sums.plan import Plan
    from ejop.tuning import Setting

    estimators = (EGOP, EJOP, EGOPRegressor, EJOPClassifier, ColumnPreparer, SparseReducer)
    scalers = (HellingerScaler, MixedScaler, QuantileColumns)
    columns = (CategoryColumn, DateColumn, FlagColumn, GradeColumn, NumberColumn, PresenceColumn)
    written = (Skipped, DateFormat, NumberFormat)
    functions = (KernelSmoother, NeighborsSmoother, RidgeFunction, AverageFunction, Member)
    kernels = (Compact, Gaussian, Laplace)
    sums = (OuterProduct, Plan, Summary, Moments, HostEngine, Device)
    rules = (KNeighborsRule, RadiusRule, RidgeRule, Setting)
    ours = (*estimators, *scalers, *columns, *written, *functions, *kernels, *rules, *sums)
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
    skops_io().dump(model.predictor, whole, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
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

    A predictor that was fitted to a table in Python and saved by ``skops.io.dump`` is one too.

    Raises
    ------
    ValueError
        When it is no model, one of another format, damaged, holds anything unexpected, or would
        unpack to more than :func:`ejop.unpacking.unpacked_limit` allows.
    """
    about = _read_description(path)
    if about is None:
        return _from_python(path)
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
            predictor = _construct(path)
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
    model = SavedModel(predictor, about)
    _check(model, path)
    _tell_versions(about, path)
    return model


def _construct(path: Path) -> Any:
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():  # another scikit-learn is told below, once
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        return skops_io().load(path, trusted=sorted(allowed()))


def _from_python(path: Path) -> SavedModel:
    """A predictor that skops saved in Python, with the description that it can give itself."""
    try:
        odd = sorted(set(skops_io().get_untrusted_types(file=path)) - allowed())
        predictor: Any = None if odd else _construct(path)
    except Exception as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not _is_of_a_table(predictor):
        raise ValueError(
            f"{path} is no model that `ejop fit` saved, nor an EJOPClassifier or EGOPRegressor "
            "that was fitted to a table with one target"
        )
    target = "y"
    while target in predictor.preparer_.names_:
        target += "_"
    Y = predictor.rule_.targets_
    classes = hasattr(predictor, "classes_")
    y = predictor.classes_[Y.argmax(1)] if classes else Y[:, 0].astype(np.float64)
    task = "classification" if classes else "regression"
    training = TrainingTable(None, y, target, task, source=path.name)
    model = SavedModel(predictor, describe(training, predictor.preparer_))
    _check(model, path)
    return model


def _is_of_a_table(predictor: Any) -> bool:
    from ejop import EGOPRegressor, EJOPClassifier
    from ejop.columns import ColumnPreparer

    if type(predictor) not in (EJOPClassifier, EGOPRegressor):
        return False
    if type(predictor.preparer_) is not ColumnPreparer or not hasattr(predictor, "rule_"):
        return False
    one = not isinstance(getattr(predictor, "classes_", None), list)
    return one and (type(predictor) is EJOPClassifier or predictor.rule_.targets_.shape[1] == 1)


def _read_description(path: Path) -> dict[str, Any] | None:
    """What a model file says of itself; None of one that skops wrote in Python."""
    if not path.exists():
        raise ValueError(f"cannot read {path}: there is no such file")
    try:
        with parsing("model"), zipfile.ZipFile(path) as archive:
            sizes = [member.file_size for member in archive.infolist()]
            described = DESCRIPTION in archive.namelist()
            plain = not described and SCHEMA in archive.namelist()
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no model that `ejop fit` saved") from error
    try:
        check_unpacked(sum(sizes), path.stat().st_size)
    except ValueError as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if plain:
        return None
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


#: what commands ask of a predictor beside its methods
_FITTED = (
    "best_params_",
    "best_score_",
    "cv_results_",
    "metric_estimator_",
    "metric_importances_",
    "n_features_in_",
    "plan_",
    "rule_",
    "unseen_score_",
)


def _check(model: SavedModel, path: Path) -> None:
    """Refuse what is made of known parts, put together as no model is."""
    from ejop import EGOPRegressor, EJOPClassifier
    from ejop.columns import ColumnPreparer

    kind = EJOPClassifier if model.about["task"] == "classification" else EGOPRegressor
    try:
        known = type(model.predictor) is kind and type(model.preparer) is ColumnPreparer
        fits = known and in_plain_values(model.preparer.columns_) == model.about["columns"]
        names = [each.name for each in model.preparer.skipped_]
        fits = fits and names == [each["name"] for each in model.about["skipped"]]
        for name in _FITTED:
            getattr(model.predictor, name)
        if kind is EJOPClassifier:
            fits &= set(model.about["classes"]) == set(map(str, model.predictor.classes_))
    except Exception as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not fits:
        raise ValueError(f"{path} was tampered with: it is not put together as a model is")


def _tell_versions(about: dict[str, Any], path: Path) -> None:
    import sklearn

    for name, here in (("ejop", __version__), ("scikit-learn", sklearn.__version__)):
        there = about.get(name)
        if there != here:
            say(f"warning: {path} was made with {name} {there}, this is {here}; answers may differ")
