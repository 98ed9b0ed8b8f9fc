"""ONNX: the map alone, or a predictor whose parts have operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from ejop import __version__
from ejop.estimators import LinearMetricEstimator
from ejop.export._files import Target, check_target, package, writing
from ejop.export._map import LinearMap, linear_map, scaling_map
from ejop.functions import Member, mapped
from ejop.rules import KNeighborsRule, RidgeRule

#: operators of this set, which onnxruntime knows since 1.14
OPSET, IR_VERSION = 18, 8
WHAT = ("map", "predictor")
#: votes that differ by less are equal
EQUAL_VOTES = 1e-12


def to_onnx(
    estimator: Any,
    path: Target = None,
    *,
    what: str = "map",
    n_components: int | None = None,
    float16: bool = False,
    vectors: str = "columns",
) -> Any:
    """The map, or the whole predictor, as a model of ONNX.

    The map takes ``X`` in float32 and gives ``Z``. A predictor takes ``X`` in float64 and gives
    ``label`` and ``probabilities``, or ``prediction``. It can be one of ``rule="knn"`` with uniform
    votes, or of ``rule="ridge"`` on columns as they are scaled (``scale="standard"``): ONNX has no
    operator for quantiles of the normal distribution, which ranks need.

    Parameters
    ----------
    estimator : fitted estimator
        See :func:`linear_map`.
    path : path, optional
        File to write, ``.onnx``.
    what : {"map", "predictor"}, default="map"
    n_components : int, optional
        Leading directions of the map to keep.
    float16 : bool, default=False
        Mapped vectors in float16.
    vectors : {"columns", "scaled"}, default="columns"
        See :func:`linear_map`.

    Returns
    -------
    model : onnx.ModelProto

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ejop import EJOP
    >>> from ejop.export import to_onnx
    >>> model = to_onnx(EJOP().fit(*load_iris(return_X_y=True)), n_components=2)
    >>> [node.op_type for node in model.graph.node]
    ['Gemm', 'Identity']
    """
    if what not in WHAT:
        raise ValueError(f"`what`={what!r} must be one of {', '.join(map(repr, WHAT))}.")
    if what == "predictor" and (float16 or n_components is not None):
        raise ValueError("`float16` and `n_components` are for what='map'.")
    check_target(path, (".onnx",))
    graph = Graph(package("onnx", "onnx"))
    if what == "map":
        found = linear_map(estimator, n_components, vectors=vectors)
        Z = graph.linear("X", found, np.float32)
        graph.give("Z", graph.cast(Z, "FLOAT16") if float16 else Z)
        width, kind = found.n_features, "FLOAT"
    else:
        width, kind = _predictor(graph, estimator, vectors), "DOUBLE"
    model = graph.model(width, kind, type(estimator).__name__)
    with writing(path) as part:
        if part is not None:
            part.write_bytes(model.SerializeToString())
    return model


class Graph:
    """A graph of ONNX that grows by one operator at a time."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator, and give the name of what comes out."""
        return self.several(operator, *inputs, n=1, **attributes)[0]

    def several(self, operator: str, *inputs: str, n: int, **attributes: Any) -> list[str]:
        """Add an operator of several outputs."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(n)]
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), names, **attributes))
        return names

    def constant(self, values: Any, kind: Any = np.float64) -> str:
        """A constant array."""
        name = f"c{len(self.constants)}"
        array = np.asarray(values, dtype=kind)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def linear(self, X: str, found: LinearMap, kind: Any = np.float64) -> str:
        """Rows under a map."""
        matrix, offset = (self.constant(a, kind) for a in (found.matrix, found.offset))
        return self("Gemm", X, matrix, offset, transB=1)

    def cast(self, value: str, kind: str) -> str:
        """A value of another type."""
        return self("Cast", value, to=getattr(self.onnx.TensorProto, kind))

    def give(self, name: str, value: str) -> None:
        """Make a value an output of the model."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_empty_tensor_value_info(name))

    def model(self, width: int, kind: str, name: str) -> Any:
        """The model, checked, for rows of so many features."""
        helper = self.onnx.helper
        takes = helper.make_tensor_value_info(
            "X", getattr(self.onnx.TensorProto, kind), ["n", width]
        )
        graph = helper.make_graph(self.nodes, name, [takes], self.outputs, self.constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="ejop",
            producer_version=__version__,
        )
        model = self.onnx.shape_inference.infer_shapes(model, strict_mode=True)
        self.onnx.checker.check_model(model)
        return model


# predictors -----------------------------------------------------------------------------------


def _predictor(graph: Graph, predictor: Any, vectors: str) -> int:
    """Add a predictor; the features of its rows are returned."""
    if not isinstance(predictor, LinearMetricEstimator) or not hasattr(predictor, "scale_rows"):
        raise ValueError(
            f"{type(predictor).__name__} does not predict; export the map alone, or pass a fitted "
            "EJOPClassifier or EGOPRegressor."
        )
    whole = linear_map(predictor, vectors=vectors)  # what it refuses is refused
    rows, rule = "X", predictor.rule_
    if vectors == "columns":
        rows = graph.linear("X", scaling_map(predictor))
    if isinstance(rule, RidgeRule):
        values = _machines(graph, rows, rule)
        best = values
        if isinstance(predictor, ClassifierMixin):
            values = _calibrated(graph, values, rule)
    elif isinstance(rule, KNeighborsRule) and rule.weights == "uniform":
        L = predictor.components_
        values, best = _votes(graph, graph.linear(rows, LinearMap(L, np.zeros(len(L)))), rule)
    else:
        raise ValueError(
            f"rule={rule!r} has no operators of ONNX here; use rule='knn' with uniform weights, or "
            "rule='ridge' with scale='standard', or export the map alone."
        )
    if not isinstance(predictor, ClassifierMixin):
        flat = predictor.rule_.targets_.shape[1] == 1
        axis = graph.constant([1], np.int64)
        graph.give("prediction", graph("Squeeze", values, axis) if flat else values)
        return whole.n_features
    winner = graph("ArgMax", best, axis=1, keepdims=0)
    graph.give("label", graph("Gather", _classes(graph, predictor.classes_), winner, axis=0))
    graph.give("probabilities", values)
    return whole.n_features


def _classes(graph: Graph, classes: NDArray) -> str:
    kind = classes.dtype.kind
    if kind in "iub":
        return graph.constant(classes, np.int64)
    if kind == "f":
        return graph.constant(classes)
    return graph.constant([str(one) for one in classes], object)


def _squares(graph: Graph, Z: str, rows: NDArray) -> str:
    """Squared distances of mapped rows to those of the model, (m, n)."""
    one = graph.constant([1], np.int64)
    own = graph("ReduceSumSquare", Z, one, keepdims=1)
    cross = graph("MatMul", Z, graph.constant(-2 * rows.T))
    theirs = graph.constant(np.einsum("nr,nr->n", rows, rows))
    found = graph("Add", graph("Add", cross, theirs), own)
    return graph("Max", found, graph.constant(0.0))


def _votes(graph: Graph, Z: str, rule: Any) -> tuple[str, str]:
    """Votes of the nearest rows, and what is largest for the class that wins."""
    rows = np.asarray(rule.rows_, dtype=np.float64)
    k, n = min(int(rule.n_neighbors_), len(rows)), len(rows)
    weights = np.ones(n) if rule.weights_ is None else np.asarray(rule.weights_, dtype=np.float64)
    found = graph.several(
        "TopK", _squares(graph, Z, rows), graph.constant([k], np.int64), n=2, axis=1, largest=0
    )
    one = graph.constant([1], np.int64)
    Y = np.asarray(rule.targets_, dtype=np.float64)
    votes = graph("Gather", graph.constant(Y * weights[:, None]), found[1], axis=0)
    total = graph("Gather", graph.constant(weights[:, None]), found[1], axis=0)
    values = graph("Div", *(graph("ReduceSum", each, one, keepdims=0) for each in (votes, total)))
    there = graph("Gather", graph.constant(Y > 0, np.float64), found[1], axis=0)
    first = graph("Mul", there, graph.constant(0.5 ** np.arange(k)[:, None]))
    nearness = graph("ReduceMax", first, one, keepdims=0)  # equal votes: the nearer row
    top = graph("ReduceMax", values, one, keepdims=1)
    near_top = graph("Sub", top, graph.constant(EQUAL_VOTES))
    equal = graph.cast(graph("GreaterOrEqual", values, near_top), "DOUBLE")
    return values, graph("Mul", equal, graph("Add", nearness, graph.constant(1.0)))


def _machines(graph: Graph, rows: str, rule: Any) -> str:
    """The mean of kernel machines at scaled rows."""
    function = rule.function_
    if rule.kind_ == "labels":
        raise ValueError("several labels a row are not exported; export the map alone.")
    curved = [member for member in function.members_ if member.preparation != "plain"]
    if curved:
        raise ValueError(
            f"{len(curved)} of {len(function.members_)} kernel machines see columns by their ranks,"
            " for which ONNX has no operator; fit with scale='standard', or export the map alone."
        )
    total = None
    for member in function.members_:
        part = _machine(graph, rows, member, np.asarray(function.X_, dtype=np.float64))
        total = part if total is None else graph("Add", total, part)
    assert total is not None
    mean = graph("Div", total, graph.constant(float(len(function.members_))))
    return graph("Add", mean, graph.constant(function.summary_.prior))


def _machine(graph: Graph, rows: str, member: Member, X: NDArray) -> str:
    """One kernel machine, around the mean target."""
    centers = mapped(X if member.centers is None else X[member.centers], member.L)
    Z, L = rows, member.L
    if L is not None:
        Z = graph("Mul" if L.ndim == 1 else "MatMul", rows, graph.constant(L.T))
    h = member.bandwidth
    if member.kernel == "gaussian":
        power = graph("Mul", _squares(graph, Z, centers), graph.constant(-0.5 / h**2))
    elif member.kernel == "laplace":
        far = graph("Sqrt", _squares(graph, Z, centers))
        power = graph("Mul", far, graph.constant(-1 / h))
    else:
        power = graph("Mul", _sums(graph, Z, centers), graph.constant(-1 / h))
    return graph("MatMul", graph("Exp", power), graph.constant(member.coefficients))


def _sums(graph: Graph, Z: str, centers: NDArray) -> str:
    """Sums over columns of |z - c|, (m, n), a column after the other."""
    helper, kind = graph.onnx.helper, graph.onnx.TensorProto.DOUBLE
    body = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["z", "axis"], ["z_column"]),
            helper.make_node("Sub", ["z_column", "c"], ["apart"]),
            helper.make_node("Abs", ["apart"], ["far"]),
            helper.make_node("Add", ["before", "far"], ["after"]),
        ],
        "add_a_column",
        [
            helper.make_tensor_value_info("before", kind, ["n", len(centers)]),
            helper.make_tensor_value_info("z", kind, ["n"]),
            helper.make_tensor_value_info("c", kind, [len(centers)]),
        ],
        [helper.make_tensor_value_info("after", kind, ["n", len(centers)])],
        [graph.onnx.numpy_helper.from_array(np.array([1], dtype=np.int64), "axis")],
    )
    zero = graph("MatMul", Z, graph.constant(np.zeros((centers.shape[1], len(centers)))))
    columns = graph("Transpose", Z, perm=[1, 0])
    theirs = graph.constant(centers.T)
    return graph("Scan", zero, columns, theirs, body=body, num_scan_inputs=2)


def _calibrated(graph: Graph, values: str, rule: Any) -> str:
    """Probabilities from values, see :meth:`ejop.rules.RidgeRule.calibrate`."""
    floor = graph.constant(4 * float(rule.floor_) ** 2)
    root = graph("Sqrt", graph("Add", graph("Mul", values, values), floor))
    logs = graph("Log", graph("Add", values, root))
    return graph("Softmax", graph("Mul", logs, graph.constant(float(rule.sharpness_))), axis=1)
