"""EJOP on a card: ``python -m benchmarks.gpu [--out FILE] [--device NAME] [--tiny]``.

Needs torch, and a CUDA device unless another is named: ``--device cpu --tiny`` tries the code. Each
figure is the median of repeats after a warm-up, with the card idle before and after.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import blobs
from benchmarks.data import mnist as mnist_rows
from ejop import EJOP, Device, EJOPClassifier
from ejop.executors.expectation import Averager, Terms
from ejop.functions import NeighborsSmoother, RidgeFunction
from ejop.metric import components
from ejop.neighbors import nearest, vote
from ejop.rows import Block
from ejop.sums import prepare
from ejop.sums.engine import engines_for
from ejop.sums.plan import make_plan
from ejop.sums.torch_engine import TorchEngine

BANDWIDTH = 1.36  # what bandwidth="auto" takes on these rows
PRECISIONS = ("float64", "float32", "tf32", "bf16")


@dataclass(frozen=True)
class Scale:
    """Where it runs and how large it is.

    Attributes
    ----------
    device : str
    rows, held : int
        Training rows of MNIST, and those among them that judge in Table 1.
    queries, some, most : int
        Queries of balls and neighbours, rows of ridge, rows of ridge where each is a centre.
    side : int
        Of square products.
    million : int
        Rows of the largest fit.
    """

    device: str = "cuda"
    rows: int = 60_000
    held: int = 10_000
    queries: int = 2_000
    some: int = 10_000
    most: int = 50_000
    side: int = 8192
    million: int = 1_000_000

    def mnist(self, n: int | None = None) -> tuple[tuple[np.ndarray, np.ndarray], str]:
        """The first rows of MNIST, all training rows by default."""
        return mnist_rows(self.rows if n is None else n)

    def functions(self) -> list[tuple[str, Any, int]]:
        """What is measured beside the Gaussian smoother: name, model, rows."""
        queries: dict[str, Any] = {"n_queries": self.queries, "random_state": 0}
        machine = RidgeFunction(bandwidth=6.0, penalty=1e-3, random_state=0)
        some = f"{self.queries:,} queries"
        return [
            (f"ball, {some}", EJOP("ball", bandwidth=8.0, **queries), self.rows),
            (f"15 nearest, {some}", EJOP(NeighborsSmoother(15), **queries), self.rows),
            ("ridge", EJOP(machine), self.some),
            (f"ridge, every row a centre, {some}", EJOP(machine, **queries), self.most),
        ]


TINY = {"rows": 600, "held": 100, "queries": 64, "some": 300, "most": 400, "side": 128}
TINY["million"] = 2000


def wait() -> None:
    """Until the card has done what it was told."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def median_seconds(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Median seconds of a call after one to warm up, and its last result."""
    result, seconds = call(), []
    for _ in range(repeat):
        wait()
        start = time.perf_counter()
        result = call()
        wait()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def gemm_rates(scale: Scale) -> dict[str, float]:
    """TFLOP/s of square products in each precision."""
    rates, side, device = {}, scale.side, torch.device(scale.device)
    for precision in ("float32", "tf32", "bf16", "float64"):
        engine = TorchEngine(device, precision)
        A = torch.randn(side, side, device=device, dtype=engine.dtype)
        factor = engine.factor(A)
        seconds, _ = median_seconds(lambda e=engine, a=A, f=factor: e.product(a, f), 5)
        rates[precision] = 2 * side**3 / seconds / 1e12
    A = torch.randn(side, side, device=device)
    seconds, _ = median_seconds(lambda: A @ A, 5)
    rates["plain float32"] = 2 * side**3 / seconds / 1e12
    return rates


def ejop_of_mnist(scale: Scale, repeat: int) -> list[dict[str, Any]]:
    """All training rows, the paper's differences, in each precision; agreement with float64."""
    (X, y), remark = scale.mnist()
    n, d = X.shape
    c = len(np.unique(y))
    rows, exact = [], None
    for precision in PRECISIONS:
        times = 1 if precision == "float64" else repeat
        data = X.astype(np.float64) if precision == "float64" else X
        model = EJOP(bandwidth=BANDWIDTH, device=Device(scale.device, precision))
        total, fitted = median_seconds(lambda m=model, a=data: m.fit(a, y), times)
        seconds = sum_seconds(fitted, times)
        exact = fitted.outer_product_ if exact is None else exact
        rows.append(
            {
                "what": f"MNIST, Gaussian, {precision}",
                "sum_seconds": seconds,
                "fit_seconds": total,
                "tflops": (6 * n * n * d + 2 * n * c * d * d) / seconds / 1e12,
                "apart": float(np.abs(fitted.outer_product_ - exact).max() / np.abs(exact).max()),
                "plan": str(fitted.plan_),
                "remark": remark,
            }
        )
    return rows


def averager(fitted: EJOP, step: np.ndarray | None, terms: Terms) -> Averager:
    """The sum of a fitted model over all its rows, its tables made."""
    function = fitted.function_
    (engine,), _ = engines_for(fitted.device, function.X_)
    n = len(function.X_)
    excluded = n if terms.leave_one_out else 0
    form = prepare(
        function, step, engine=engine, budget=engine.budget(1), n_queries=n, n_excluded=excluded
    )
    return Averager([form], make_plan(form, n), terms)


def sum_seconds(fitted: EJOP, repeat: int) -> float:
    """Seconds of the sum itself, with rows on the card and tables made each time."""
    function = fitted.function_
    step = np.broadcast_to(np.asarray(fitted.step_), (fitted.n_features_in_,))
    average = averager(fitted, step, Terms(softmax=True))
    (form,) = average.forms
    queries = np.arange(len(function.X_))
    there = Block(form.engine.array(function.X_), function.Y_, function.sample_weight_, queries)

    def run() -> Any:
        form.tile(there)
        return average.add(queries)

    return median_seconds(run, repeat)[0]


def profile(scale: Scale) -> str:
    """Where the time of the sum goes, by kernel."""
    from torch.profiler import ProfilerActivity

    (X, y), _ = scale.mnist()
    kind = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU
    text = []
    for precision in ("float32", "tf32"):
        model = EJOP(bandwidth=BANDWIDTH, device=Device(scale.device, precision)).fit(X, y)
        with torch.profiler.profile(activities=[kind]) as seen:
            sum_seconds(model, 1)
        order = "self_cuda_time_total" if kind == ProfilerActivity.CUDA else "self_cpu_time_total"
        table = seen.key_averages().table(sort_by=order, row_limit=14)
        text.append(
            precision + "\n" + "\n".join(line[:60] + line[-90:] for line in table.split("\n"))
        )
    return "\n".join(text)


def other_functions(scale: Scale, repeat: int) -> list[dict[str, Any]]:
    """Balls, neighbours and ridge on MNIST, each with its size."""
    (X, y), _ = scale.mnist()
    rows = []
    for what, model, n in scale.functions():
        model.set_params(device=scale.device)
        seconds, fitted = median_seconds(lambda m=model, k=n: m.fit(X[:k], y[:k]), repeat)
        rows.append(
            {"what": f"MNIST, {what}, {n} rows", "fit_seconds": seconds, "plan": str(fitted.plan_)}
        )
    return rows


def beside_xrfm(scale: Scale, repeat: int) -> dict[str, Any]:
    """The AGOP of xRFM's kernel and ours for the same f = sum_i a_i K(x, x_i), all rows.

    Its kernel exp(-(r / L)^p) with p = 2 and L = sqrt(2) h is the Gaussian. It wants all gradients
    at once and a matrix of n times n; ours leave no row out here, and are exact derivatives.
    """
    n, h = scale.some, 6.0
    (X, y), _ = scale.mnist(n)
    X = X.astype(np.float64)
    fitted = EJOP(
        RidgeFunction(bandwidth=h, penalty=1e-3),
        step="analytic",
        softmax=False,
        leave_one_out=False,
        device=scale.device,
    ).fit(X, y)
    average, queries = averager(fitted, None, Terms(leave_one_out=False)), np.arange(n)
    ours, (total, _) = median_seconds(lambda: average.add(queries), repeat)
    record = {
        "what": f"AGOP of one kernel machine, MNIST {n} x 784, all rows, float64",
        "ours_seconds": ours,
    }
    try:
        from xrfm.rfm_src.kernels import LightLaplaceKernel
    except ModuleNotFoundError:
        return {**record, "skipped": "xrfm is not installed"}
    kernel = LightLaplaceKernel(bandwidth=float(np.sqrt(2) * h), exponent=2.0)
    kernel.handle_categorical = False
    rows = torch.as_tensor(X, device=scale.device)
    coefficients = torch.as_tensor(fitted.function_.coefficients_.T.copy(), device=scale.device)

    def theirs() -> torch.Tensor:
        parts = [kernel.get_agop(rows, part, coefficients) for part in rows.split(2000)]
        return torch.stack(parts).sum(0) / n

    seconds, agop = median_seconds(theirs, repeat)
    single = [a.float() for a in (rows, coefficients)]
    fast, _ = median_seconds(
        lambda: [kernel.get_agop(single[0], part, single[1]) for part in single[0].split(2000)],
        repeat,
    )
    M = total.mean()
    return {
        **record,
        "xrfm_seconds": seconds,
        "xrfm_float32_seconds": fast,
        "apart": float(np.abs(agop.cpu().numpy() - M).max() / np.abs(M).max()),
    }


def prediction(scale: Scale, repeat: int) -> dict[str, Any]:
    """The 7 nearest of all training rows for some, on the card and by scikit-learn."""
    (X, _), _ = scale.mnist()
    Q = X[: scale.held] + np.float32(0.01)
    card, ours = median_seconds(lambda: nearest(Q, X, 7, device=scale.device), repeat)
    part = max(1, len(Q) // 10)
    start = time.perf_counter()
    theirs = nearest(Q[:part], X, 7)
    cpu = len(Q) / part * (time.perf_counter() - start)
    return {
        "what": f"7 nearest of {len(X):,} rows for {len(Q):,}",
        "seconds": card,
        "cpu_seconds": cpu,
        "same": bool((ours[1][:part] == theirs[1]).all()),
    }


def million(scale: Scale, d: int = 100) -> dict[str, Any]:
    """Every row of a million against every row."""
    n = scale.million
    X, y = blobs(n, d)
    model = EJOP(bandwidth=6.0, device=Device(scale.device, "tf32"))
    start = time.perf_counter()
    fitted = model.fit(X.astype(np.float32), y)
    return {
        "what": f"{n} x {d}, all rows, tf32",
        "fit_seconds": time.perf_counter() - start,
        "plan": str(fitted.plan_),
    }


def table1(scale: Scale) -> dict[str, Any]:
    """MNIST 50,000 / 10,000 / 10,000: bandwidth, power and k tuned, then tested, in one go."""
    (X, y), _ = scale.mnist(scale.rows + scale.held)
    test, truth = X[scale.rows :], y[scale.rows :]
    start = time.perf_counter()
    cut = scale.rows - scale.held
    A, V, judged = X[:cut], X[cut : scale.rows], y[cut : scale.rows]
    Y = np.eye(10)[y[:cut]]
    best: tuple[float, Any] = (np.inf, None)
    for h in (0.8, 1.1, 1.36, 1.7, 2.1):
        model = EJOP(bandwidth=h, softmax=False, device=Device(scale.device, "tf32"))
        fitted = model.fit(A, y[:cut])
        for power in (0.25, 0.5, 0.75, 1.0):
            L = components(fitted.eigenvalues_, fitted.eigenvectors_, power=power)
            L = L.astype(np.float32)
            near = nearest(V @ L.T, A @ L.T, 15, device=scale.device)
            for k in (1, 3, 5, 7, 9, 11, 15):
                error = _error([a[:, :k] for a in near], Y, judged)
                if error < best[0]:
                    best = (error, (h, power, k, L))
    h, power, k, L = best[1]
    near = nearest(test @ L.T, A @ L.T, 15, device=scale.device)
    seconds = time.perf_counter() - start
    return {
        "what": f"Table 1: 5 bandwidths x 4 powers x 7 k tuned on {len(V):,} rows, then tested",
        "seconds": seconds,
        "chosen": {"bandwidth": h, "power": power, "k": k},
        "validation_error": 100 * best[0],
        "test_error": 100 * _error([a[:, :k] for a in near], Y, truth),
        "test_error_at_7": 100 * _error([a[:, :7] for a in near], Y, truth),
    }


def _error(near: list[np.ndarray], Y: np.ndarray, truth: np.ndarray) -> float:
    winners = vote(*near, Y, weights="uniform", row_weights=None).winners()
    return float(np.mean(winners != truth))


def predictor(scale: Scale) -> dict[str, Any]:
    """The default predictor on MNIST, every row a centre, and nearest rows under its metric."""
    (X, y), _ = scale.mnist(scale.rows + scale.held)
    cut = scale.rows - scale.held
    parts = {"validation": slice(cut, scale.rows), "test": slice(scale.rows, len(X))}
    start = time.perf_counter()
    model = EJOPClassifier(device=scale.device, random_state=0).fit(X[:cut], y[:cut])
    wait()
    fitted = time.perf_counter()
    errors = {name: 100 * float(np.mean(model.predict(X[p]) != y[p])) for name, p in parts.items()}
    wait()
    record = {
        "what": f"EJOPClassifier(), MNIST {cut:,} rows",
        "fit_seconds": fitted - start,
        "predict_seconds": time.perf_counter() - fitted,
        "chosen": model.rule_.in_words(),
        "honest_accuracy": model.best_score_,
        "errors": errors,
        "plan": str(model.plan_),
    }
    Z, Y = model.transform(X).astype(np.float32), np.eye(10)[y[:cut]]
    near = {name: nearest(Z[p], Z[:cut], 15, device=scale.device) for name, p in parts.items()}
    record["nearest"] = {
        k: {
            name: 100 * _error([a[:, :k] for a in near[name]], Y, y[p]) for name, p in parts.items()
        }
        for k in (1, 3, 5, 7, 9, 11, 15)
    }
    return record


def on_cpu(scale: Scale) -> list[dict[str, Any]]:
    """The same with NumPy and compiled loops on this machine's cores, once each.

    Not ridge beyond 10,000 rows: there the CPU takes fewer centres, which is another function.
    """
    (X, y), _ = scale.mnist()
    rows = []
    gaussian = ("Gaussian", EJOP(bandwidth=BANDWIDTH), scale.rows)
    for what, model, n in [gaussian, *scale.functions()[:3]]:
        start = time.perf_counter()
        fitted = model.fit(X[:n], y[:n])
        seconds = time.perf_counter() - start
        rows.append(
            {"what": f"MNIST, {what}, {n} rows", "fit_seconds": seconds, "plan": str(fitted.plan_)}
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="to try the code")
    options = parser.parse_args()
    scale = Scale(options.device, **(TINY if options.tiny else {}))
    repeat = options.repeat
    parts: dict[str, Callable[[], Any]] = {
        "gemm": lambda: gemm_rates(scale),
        "mnist": lambda: ejop_of_mnist(scale, repeat),
        "profile": lambda: profile(scale),
        "functions": lambda: other_functions(scale, repeat),
        "xrfm": lambda: beside_xrfm(scale, repeat),
        "prediction": lambda: prediction(scale, repeat),
        "predictor": lambda: predictor(scale),
        "table1": lambda: table1(scale),
        "million": lambda: million(scale),
        "cpu": lambda: on_cpu(scale),
    }
    card = torch.device(options.device).type == "cuda"
    record: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "card": torch.cuda.get_device_name(options.device) if card else options.device,
        "capability": torch.cuda.get_device_capability(options.device) if card else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        try:
            record[name] = part()
        except Exception as error:  # one failure must not lose the others' figures
            record[name] = {"failed": repr(error)}
        if name != "profile":
            print(name, json.dumps(record[name], indent=1), flush=True)
        if options.out:
            options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
