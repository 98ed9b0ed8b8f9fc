"""EJOPClassifier: classes by kernel machines, or by near rows under the learned metric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from ejop._sklearn import StrOptions
from ejop.arrays import follow, to_host
from ejop.estimators._ejop import EJOP
from ejop.estimators._predictor import Predictor
from ejop.executors.threads import computing
from ejop.explanation import Explanation, number_of
from ejop.neighbors import HALF, Votes
from ejop.rows import require_labels
from ejop.rules import RULES, Rule
from ejop.tuning import FOLDS, Targets

#: added to the predicted class's share, so that equal shares do not hide who won
TIE = 1e-10


class EJOPClassifier(ClassifierMixin, Predictor):
    """Classes of new rows, with probabilities that can be trusted, in seconds and with no settings.

    ``EJOPClassifier().fit(X, y)`` predicts by the mean of a few kernel machines that it chooses
    itself. It tells how good it is on rows it has not seen (``best_score_``), which columns matter
    (``feature_importances_``), why a row was predicted as it was (:meth:`explain`), and which
    classes may be the true one (:meth:`predict_set`).

    How (``rule="ridge"``): candidates are kernel ridge with a Gaussian, a Laplace or an l1 kernel,
    on columns as they are scaled or by their ranks, without a metric or under the one that their
    own derivatives make. Bandwidth and penalty follow from leave-one-out in closed form, candidates
    are ranked by predictions of rows that they have not seen, and the best five are averaged.
    Nothing is iterative. ``components_`` is the metric of that average, so that what is explained
    is what predicts. See :class:`ejop.rules.RidgeRule`.

    ``rule="knn"`` and ``"hnn"`` let near rows vote under the metric, as the paper does: the
    preparation of the columns, bandwidth and penalty follow from leave-one-out in closed form;
    power and number of neighbours or radius are tuned on folds.

    ``y`` of shape (n_samples, n_labels) with columns of 0 and 1 is several labels a row
    (multi-label), for ``rule="ridge"``: :meth:`predict` gives such columns, :meth:`predict_proba`
    the probability of each label, and a row counts as right where all its labels are.

    Parameters
    ----------
    rule : {"ridge", "knn", "hnn"} or Rule, default="ridge"
        What answers: the mean of kernel machines, the k nearest rows under the metric, or all rows
        within a radius. An object of :mod:`ejop.rules` brings settings of its own:
        ``RidgeRule(n_members=1)``, ``KNeighborsRule(n_neighbors=5)``,
        ``RadiusRule(empty="prior")``.
    function : {"auto", "kernel", "ball", "knn", "ridge"}, function object or model, default="auto"
        For "knn" and "hnn": the estimate of f that the metric is made from; a name or an object
        means what it means in :class:`EJOP`. "auto" tries kernel ridge at the bandwidth
        and penalty of its smallest leave-one-out loss over a coarse grid, found once, and at twice
        that bandwidth (``"ridge"`` is ``RidgeFunction(widening=1.5)``, as in EJOP, and chooses anew
        for every fold). Values of f are class shares already.
        A softmax of them, the paper's and the default of EJOP, changes the size of derivatives, not
        which directions have any; the predictors use softmax=False. The rule "ridge" has
        functions of its own and refuses others.
    power : float or "auto", default="auto"
        Power of the eigenvalues in ``components_``. For "knn" and "hnn" "auto" tries 0 (Euclidean)
        to 2. The rule "ridge" predicts without it; "auto" is 1 there.
    n_components : int, float, "gap", "auto" or None, default=None
        Directions that are kept, see :class:`EJOP`; "auto" tries all, and those of 90 % and 99 % of
        the energy, and is all for "ridge", whose predictions do not depend on it.
    scale : {"auto", "none", "standard", "robust", "hellinger", "quantile"}, default="auto"
        Preparation of the columns. For "ridge" "auto" standardises and offers columns by their
        ranks too ("quantile"); for "knn" and "hnn" leave-one-out of f chooses among none, standard
        and quantile. Both try hellinger where columns are counts or shares of one whole.
    columns : {"auto", "numbers"} or ColumnPreparer, default="auto"
        "auto" prepares tables of pandas, polars and Arrow with text, gaps and dates, arrays with
        gaps, and sparse rows; arrays of numbers pass through. "numbers" takes nothing else. A
        :class:`ejop.columns.ColumnPreparer` brings settings of its own.
    validation : int, float or splitter, default=4
        For "knn" and "hnn": so many folds, so that every row judges once; or the share of rows that
        is held out, once; or a splitter. 5000 rows of a fold or share judge at the most.
    n_iter : int, default=1
        For "knn" and "hnn": rounds. Each learns f and the metric again in the space of the last,
        and is kept only if the held-out rows say so.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in what is learned and in the score, times ``sample_weight`` where that
        is given. Rows of weight zero are no rows. Not for several labels a row.
    refit : bool or "train", default=True
        For "knn" and "hnn": learn the metric of all rows with the best setting; "train" learns it
        from the rows that the first split learned from, so that the held-out rows stay out for
        good. Without it only the results of the tuning are kept.
    device : None, str or torch.device, default=None
        Where machines are solved, metrics summed and neighbours searched, see :class:`EJOP`; within
        ``Device(memory_limit=...)``. Of a list the first solves machines; passes over more rows
        than one matrix holds are shared among all of it. ``predict`` follows
        what it is now, so that a model fitted on a card answers without one after
        ``set_params(device=None)``.
    n_jobs : int or None, default=None
    random_state : int, RandomState instance or None, default=None
        Draws the folds or held-out rows, the rows of a sample, and what ``function`` draws, unless
        that has a seed of its own.
    verbose : int, default=0

    Attributes
    ----------
    best_score_ : float
        Accuracy on rows that had not been seen: of averages that were also chosen without them, or
        of the best setting.
    unseen_score_ : float
        The same, of "knn" and "hnn" too with the choice made without the rows; NaN where a single
        split judges.
    best_params_ : dict
        What was chosen: the members of the average in words, or the settings of neighbours.
    best_setting_ : Setting
        Of "knn" and "hnn": the same choice with the rounds before the last.
    cv_results_ : dict of ndarray
        Every candidate with its loss, members marked, or the whole grid;
        ``pandas.DataFrame(cv_results_)`` is a table.
    components_ : ndarray of shape (n_components_out, n_features)
        Map from scaled rows to the space of the metric.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in what changes f. Of "ridge": how far f changes when the column takes
        the value of another row, see :meth:`column_changes`. Of "knn" and "hnn": the diagonal of
        the outer product of scaled rows times the variance of each scaled column.
    preparer_ : fitted ColumnPreparer or SparseReducer, or None
        What made rows of numbers of a table; ``preparer_.in_words()`` says what it did.
    rule_ : fitted Rule
        ``rule_.in_words()`` and ``rule_.members_`` of "ridge"; of the others the mapped training
        rows ``rule_.rows_`` and what was chosen, ``rule_.n_neighbors_`` or ``rule_.radius_``.
    kept_ : ndarray of shape (n_kept,)
        Numbers of the training rows that answer.
    scaler_ : fitted scaler
    before_ : ndarray of shape (r, n_features)
        Map from scaled rows to the space that the last round learned in; the identity for one.
    metric_estimator_ : EJOP
        The metric of the average, or of the last round.
    classes_ : ndarray of shape (n_classes,), or list of such for several labels a row
        Of labels 0 and 1 for each, in the type of ``y``.
    plan_ : Plan

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from ejop import EJOPClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = EJOPClassifier(random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.95
    True
    >>> model.rule_.in_words()
    'mean of 5 kernel machines: ...; columns as they are and by their ranks'
    >>> model.predict_proba(X_test[:2]).round(1)
    array([[..., ..., ...],
           [..., ..., ...]])

    A rule with settings of its own:

    >>> from ejop.rules import KNeighborsRule
    >>> rule = KNeighborsRule(n_neighbors=5, weights="distance")
    >>> model = EJOPClassifier(rule, function="kernel", random_state=0).fit(X_train, y_train)
    >>> model.best_params_["n_neighbors"]
    5
    """

    classes_: Any
    _parameter_constraints: dict = {
        **Predictor._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        rule: str | Rule = "ridge",
        *,
        function: Any = "auto",
        power: float | str = "auto",
        n_components: int | float | str | None = None,
        scale: str = "auto",
        columns: Any = "auto",
        validation: Any = FOLDS,
        n_iter: int = 1,
        class_weight: Any = None,
        refit: bool | str = True,
        device: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rule = rule
        self.function = function
        self.power = power
        self.n_components = n_components
        self.scale = scale
        self.columns = columns
        self.validation = validation
        self.n_iter = n_iter
        self.class_weight = class_weight
        self.refit = refit
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @computing
    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Probability of each class: calibrated for ``rule="ridge"``, else shares of the vote.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes), or (n_samples, n_labels)
            Of several labels a row the probability that each is 1.
        """
        return follow(self._shares(self._votes(X)), X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of the predictions; a row is right where all its labels are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        score : float
        """
        return super().score(to_host(X), to_host(y), to_host(sample_weight))

    @property
    def _several(self) -> bool:
        """Whether it was fitted to several labels a row."""
        return isinstance(self.classes_, list)

    def _decide(self, votes: Votes) -> NDArray:
        if self._several:
            return self.classes_[0][(self._shares(votes) > HALF).astype(int)]
        return self.classes_[votes.winners()]

    def _shares(self, votes: Votes) -> NDArray:
        rule = self.rule_
        if self._several:
            return rule.shares(votes.values)
        values = self._shares_of(votes)
        values[np.arange(len(values)), votes.winners()] += TIE  # the largest share is predicted
        return values / values.sum(1, keepdims=True)

    def _shares_of(self, votes: Votes) -> NDArray:
        """Probabilities, without a mark of who wins where several are equal."""
        rule = self.rule_
        values = rule.shares(votes.values) if rule.chooses else np.clip(votes.values, 0, None)
        total = values.sum(1, keepdims=True)
        return values / np.where(total > 0, total, 1)

    def _answers(self, Z: NDArray) -> NDArray:
        votes = self._votes_of(Z, self.device)
        if self._several:
            return self.rule_.shares(votes.values)
        return self._shares_of(votes)

    @property
    def _n_answers(self) -> int:
        return len(self.classes_)

    def _explained(self, whole: Explanation, output: Any) -> Explanation:
        """Of the predicted class of each row, of one class, or of all."""
        if isinstance(output, str) and output == "all" and "all" not in self._names:
            return replace(whole, outputs=self._names)
        if self._several:
            whole = replace(whole, outputs=self._names)
            return whole if output is None else whole.of_output(number_of(output, self._names))
        chosen = whole.answer.argmax(1)
        if output is not None:
            chosen[:] = number_of(output, self._names)
        rows = np.arange(len(whole))
        return replace(
            whole,
            values=whole.values[rows, chosen],
            base=whole.base[rows, chosen],
            answer=whole.answer[rows, chosen],
            outputs=self.classes_[chosen].tolist(),
        )

    @property
    def _names(self) -> list[Any]:
        """Names of the classes, or numbers of the labels."""
        return list(range(len(self.classes_))) if self._several else self.classes_.tolist()

    def _targets(self, y: Any, w: NDArray | None = None) -> Targets:
        labels = columns_of_labels(y)
        if labels is not None:
            return self._targets_of_labels(labels, w)
        y = column_or_1d(y, warn=True)
        require_labels(y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` has 1 class, {self.classes_.tolist()[0]!r}, and at least 2 classes are "
                "needed."
            )
        return Targets(np.eye(len(self.classes_))[numbers], w, "classes")

    def _targets_of_labels(self, y: NDArray, w: NDArray | None) -> Targets:
        if not chooses(self.rule):
            raise ValueError(
                f"`y` has {y.shape[1]} columns of labels and rule={self.rule!r} takes one class a "
                "row; use rule='ridge', or sklearn.multioutput.MultiOutputClassifier for a model a "
                "label."
            )
        if not np.ptp(y.astype(np.int8), axis=0).any():
            raise ValueError("every column of `y` is constant, so nothing can be learned from it.")
        self.classes_ = [np.array([0, 1], dtype=y.dtype) for _ in range(y.shape[1])]
        return Targets(y.astype(np.float64), w, "labels")

    def _row_weights(self, y: NDArray, w: NDArray | None) -> NDArray | None:
        if self.class_weight is None:
            return w
        if columns_of_labels(y) is not None:
            raise ValueError(
                f"`class_weight`={self.class_weight!r} weighs a row by its class, and rows of "
                "several labels have none; pass sample_weight, for instance "
                "sklearn.utils.class_weight.compute_sample_weight('balanced', y)."
            )
        given = np.ones(len(y)) if w is None else w
        there = given > 0
        classes, numbers = np.unique(column_or_1d(y)[there], return_inverse=True)
        totals = np.bincount(numbers, weights=given[there])
        out = np.zeros(len(y))
        out[there] = given[there] * weights_of_classes(self.class_weight, classes, totals)[numbers]
        return out

    def _labels(self, targets: Targets, rows: NDArray) -> NDArray:
        return targets.Y[rows].argmax(1)

    def _metric(self, function: Any, random_state: Any) -> EJOP:
        return EJOP(function, softmax=False, random_state=random_state)

    def _finish(self, rule: Any, targets: Targets) -> None:
        rule.calibrate(*targets.take(np.arange(len(targets.Y))))

    @computing
    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> NDArray:
        """Classes that may be the true one: so large a set that it holds it with this probability.

        By the predictions of training rows that had not seen them (cross-conformal), for
        ``rule="ridge"``. The predicted class is always in it. Several labels a row have no one
        true class: see :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9

        Returns
        -------
        inside : ndarray of bool, shape (n_samples, n_classes)
        """
        rule = self._honest_rule(coverage)
        if self._several:
            raise ValueError(
                "sets hold the one class of a row, and this model was fitted to several labels a "
                "row; predict_proba gives the probability of each."
            )
        known = rule.shares(rule.honest_)
        truth = rule.targets_[rule.judged_].astype(bool)
        limit = rule.score_limit(1 - known[truth], coverage)
        shares = self._shares(self._votes(X))
        inside = shares >= 1 - limit
        inside[np.arange(len(shares)), shares.argmax(1)] = True
        return follow(inside, X)

    def _evaluate(self, votes: Votes, targets: Targets, held: NDArray) -> tuple[float, float]:
        Y, w = targets.take(held)
        if targets.kind == "labels":
            right = (votes.labels() == (Y > HALF)).all(1)
        else:
            right = votes.winners() == Y.argmax(1)
        loss = ((votes.values - Y) ** 2).sum(1)
        return float(np.average(right, weights=w)), float(np.average(loss, weights=w))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = chooses(self.rule)
        return tags


def chooses(rule: Any) -> bool:
    """Whether a rule, by name or as an object, makes machines of its own."""
    found = RULES.get(rule) if isinstance(rule, str) else rule
    return bool(getattr(found, "chooses", False))


def columns_of_labels(y: Any) -> NDArray | None:
    """Several labels a row as an array of 0 and 1, (n_samples, n_labels); None for one class a row.

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.estimators._classifier import columns_of_labels
    >>> columns_of_labels(np.array([[True, False]]))
    array([[ True, False]])
    >>> columns_of_labels(np.array([3, 1])) is None
    True
    """
    y = y.toarray() if issparse(y) else np.asarray(y)
    if y.ndim < 2 or y.shape[1] < 2:
        return None
    strange = y[(y != 0) & (y != 1)]
    if y.ndim > 2 or len(strange):
        got = f"holds {strange.flat[0]!r}" if len(strange) else "is no table"
        raise ValueError(
            f"`y` of shape {y.shape} {got}, and several columns must be labels, 0 or 1. For "
            "several classes a row wrap the model in sklearn.multioutput.MultiOutputClassifier; "
            "for several real targets use EGOPRegressor."
        )
    return y.astype(np.int64) if y.dtype == object else y


def weights_of_classes(class_weight: Any, classes: NDArray, totals: NDArray) -> NDArray:
    """Weight of each class, by name or from the total weight of its rows, shape (n_classes,).

    Examples
    --------
    >>> import numpy as np
    >>> from ejop.estimators import weights_of_classes
    >>> weights_of_classes("balanced", np.array(["a", "b"]), np.array([3.0, 1.0])).round(2)
    array([0.67, 2.  ])
    >>> weights_of_classes({"b": 5.0}, np.array(["a", "b"]), np.array([3.0, 1.0]))
    array([1., 5.])
    """
    if isinstance(class_weight, str):  # "balanced"
        return totals.sum() / (len(totals) * totals)
    found = compute_sample_weight(class_weight, classes)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(
            f"`class_weight`={class_weight!r} must hold numbers that are finite and not negative."
        )
    return found
