"""EJOP on a card: ``python -m benchmarks.gpu [--out FILE]``; needs torch and a CUDA device.

Each figure is the median of repeats after a warm-up, with the card idle before and after.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ejop.backends.torch import Engine

from benchmarks.data import blobs, mnist
from ejop import EJOP
from ejop.metric import components
from ejop.neighbors import nearest, vote

BANDWIDTH = 1.36  # what bandwidth="auto" takes on these rows
#: what is measured beside the Gaussian smoother: name, options, rows
FUNCTIONS: list[tuple[str, dict[str, Any], int]] = [
    ("ball, 2,000 queries", {"function": "ball", "bandwidth": 8.0, "n_queries": 2000}, 60_000),
    ("15 nearest, 2,000 queries", {"function": "knn", "n_queries": 2000}, 60_000),
    ("ridge", {"function": "ridge", "bandwidth": 6.0, "penalty": 1e-3}, 10_000),
    (
        "ridge, every row a centre, 2,000 queries",
        {"function": "ridge", "bandwidth": 6.0, "penalty": 1e-3, "n_queries": 2000},
        50_000,
    ),
]


def median_seconds(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Median seconds of a call after one to warm up, and its last result."""
    result, seconds = call(), []
    for _ in range(repeat):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def gemm_rates(side: int = 8192) -> dict[str, float]:
    """TFLOP/s of square products in each precision."""
    rates = {}
    for precision in ("float32", "tf32", "bf16", "float64"):
        engine = Engine(torch.device("cuda"), precision)
        A = torch.randn(side, side, device="cuda", dtype=engine.dtype)
        factor = engine.factor(A)
        seconds, _ = median_seconds(lambda e=engine, a=A, f=factor: e.matmul(a, f), 5)
        rates[precision] = 2 * side**3 / seconds / 1e12
    A = torch.randn(side, side, device="cuda")
    seconds, _ = median_seconds(lambda: A @ A, 5)
    rates["plain float32"] = 2 * side**3 / seconds / 1e12
    return rates


def ejop_of_mnist(repeat: int) -> list[dict[str, Any]]:
    """All 60,000 rows, the paper's differences, in each precision; agreement with float64."""
    (X, y), remark = mnist()
    n, d = X.shape
    c = len(np.unique(y))
    rows, exact = [], None
    for precision in ("float64", "float32", "tf32", "bf16"):
        times = 1 if precision == "float64" else repeat
        data = X.astype(np.float64) if precision == "float64" else X
        model = EJOP(bandwidth=BANDWIDTH, device="cuda", precision=precision)
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


def sum_seconds(fitted: EJOP, repeat: int) -> float:
    """Seconds of the sum itself, with rows on the card and tables made each time."""
    from ejop.backends.torch_functions import twin
    from ejop.backends.torch_sum import expected_outer_product, make_plan

    queries = np.arange(len(fitted.function_.X_))
    step = np.broadcast_to(np.asarray(fitted.step_), (fitted.n_features_in_,))
    ready = twin(fitted.function_, fitted._devices[0], step)

    def run() -> Any:
        ready.prepare()
        plan = make_plan([ready], len(queries))
        return expected_outer_product([ready], queries, plan, softmax=True)

    return median_seconds(run, repeat)[0]


def profile() -> str:
    """Where the time of the sum goes, by kernel."""
    from torch.profiler import ProfilerActivity

    (X, y), _ = mnist()
    text = []
    for precision in ("float32", "tf32"):
        model = EJOP(bandwidth=BANDWIDTH, device="cuda", precision=precision).fit(X, y)
        with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as seen:
            sum_seconds(model, 1)
        table = seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=14)
        text.append(
            precision + "\n" + "\n".join(line[:60] + line[-90:] for line in table.split("\n"))
        )
    print("\n".join(text), flush=True)
    return "printed"


def other_functions(repeat: int) -> list[dict[str, Any]]:
    """Balls, neighbours and ridge on MNIST, each with its size."""
    (X, y), _ = mnist()
    rows = []
    for what, options, n in FUNCTIONS:
        model = EJOP(**options, device="cuda", random_state=0)
        seconds, fitted = median_seconds(lambda m=model, k=n: m.fit(X[:k], y[:k]), repeat)
        rows.append(
            {"what": f"MNIST, {what}, {n} rows", "fit_seconds": seconds, "plan": str(fitted.plan_)}
        )
    return rows


def beside_xrfm(repeat: int, n: int = 10_000) -> dict[str, Any]:
    """The AGOP of xRFM's kernel and ours for the same f = sum_i a_i K(x, x_i), all rows.

    Its kernel exp(-(r / L)^p) with p = 2 and L = sqrt(2) h is the Gaussian. It wants all gradients
    at once and a matrix of n times n; ours leave no row out here, and are exact derivatives.
    """
    try:
        from xrfm.rfm_src.kernels import LightLaplaceKernel
    except ModuleNotFoundError:
        return {"skipped": "xrfm is not installed"}
    from ejop.backends.torch_functions import twin
    from ejop.backends.torch_sum import expected_outer_product, make_plan

    (X, y), _ = mnist()
    X, y, h = X[:n].astype(np.float64), y[:n], 6.0
    options = {"bandwidth": h, "penalty": 1e-3, "leave_one_out": False, "softmax": False}
    fitted = EJOP("ridge", differences="analytic", device="cuda", **options).fit(X, y)
    ready = twin(fitted.function_, fitted._devices[0], None)
    plan, queries = make_plan([ready], n), np.arange(n)
    ours, total = median_seconds(
        lambda: expected_outer_product([ready], queries, plan, leave_one_out=False), repeat
    )
    kernel = LightLaplaceKernel(bandwidth=float(np.sqrt(2) * h), exponent=2.0)
    kernel.handle_categorical = False
    rows = torch.as_tensor(X, device="cuda")
    coefficients = torch.as_tensor(fitted.function_.coefficients_.T.copy(), device="cuda")

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
        "what": f"AGOP of one kernel machine, MNIST {n} x 784, all rows, float64",
        "ours_seconds": ours,
        "xrfm_seconds": seconds,
        "xrfm_float32_seconds": fast,
        "apart": float(np.abs(agop.cpu().numpy() - M).max() / np.abs(M).max()),
    }


def prediction(repeat: int) -> dict[str, Any]:
    """The 7 nearest of 60,000 rows for 10,000, on the card and by scikit-learn."""
    (X, _), _ = mnist()
    Q = X[:10_000] + np.float32(0.01)
    card, ours = median_seconds(lambda: nearest(Q, X, 7, device="cuda"), repeat)
    start = time.perf_counter()
    theirs = nearest(Q[:1000], X, 7)
    cpu = 10 * (time.perf_counter() - start)
    return {
        "what": "7 nearest of 60,000 rows for 10,000",
        "seconds": card,
        "cpu_seconds": cpu,
        "same": bool((ours[1][:1000] == theirs[1]).all()),
    }


def million(n: int = 1_000_000, d: int = 100) -> dict[str, Any]:
    """Every row of a million against every row."""
    X, y = blobs(n, d)
    model = EJOP(bandwidth=6.0, device="cuda", precision="tf32")
    start = time.perf_counter()
    fitted = model.fit(X.astype(np.float32), y)
    return {
        "what": f"{n} x {d}, all rows, tf32",
        "fit_seconds": time.perf_counter() - start,
        "plan": str(fitted.plan_),
    }


def table1() -> dict[str, Any]:
    """MNIST 50,000 / 10,000 / 10,000: bandwidth, power and k tuned, then tested, in one go."""
    (X, y), _ = mnist(60_000)
    test, truth = mnist_test()
    start = time.perf_counter()
    A, V = X[:50_000], X[50_000:]
    Y = np.eye(10)[y[:50_000]]
    best: tuple[float, Any] = (np.inf, None)
    for h in (0.8, 1.1, 1.36, 1.7, 2.1):
        fitted = EJOP(bandwidth=h, softmax=False, device="cuda", precision="tf32").fit(
            A, y[:50_000]
        )
        for power in (0.25, 0.5, 0.75, 1.0):
            L = components(fitted.eigenvalues_, fitted.eigenvectors_, power=power)
            L = L.astype(np.float32)
            near = nearest(V @ L.T, A @ L.T, 15, device="cuda")
            for k in (1, 3, 5, 7, 9, 11, 15):
                error = _error([a[:, :k] for a in near], Y, y[50_000:])
                if error < best[0]:
                    best = (error, (h, power, k, L))
    h, power, k, L = best[1]
    near = nearest(test @ L.T, A @ L.T, 15, device="cuda")
    seconds = time.perf_counter() - start
    return {
        "what": "Table 1: 5 bandwidths x 4 powers x 7 k tuned on 10,000 rows, then tested",
        "seconds": seconds,
        "chosen": {"bandwidth": h, "power": power, "k": k},
        "validation_error": 100 * best[0],
        "test_error": 100 * _error([a[:, :k] for a in near], Y, truth),
        "test_error_at_7": 100 * _error([a[:, :7] for a in near], Y, truth),
    }


def mnist_test() -> tuple[np.ndarray, np.ndarray]:
    (X, y), _ = mnist(70_000)
    return X[60_000:], y[60_000:]


def _error(near: list[np.ndarray], Y: np.ndarray, truth: np.ndarray) -> float:
    winners = vote(*near, Y, weights="uniform", row_weights=None).winners()
    return float(np.mean(winners != truth))


def on_cpu() -> list[dict[str, Any]]:
    """The same with NumPy and compiled loops on this machine's cores, once each.

    Not ridge beyond 10,000 rows: there the CPU takes fewer centres, which is another function.
    """
    (X, y), _ = mnist()
    rows = []
    for what, options, n in [("Gaussian", {"bandwidth": BANDWIDTH}, 60_000), *FUNCTIONS[:3]]:
        start = time.perf_counter()
        fitted = EJOP(**options, random_state=0).fit(X[:n], y[:n])
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
    options = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "gemm": gemm_rates,
        "mnist": lambda: ejop_of_mnist(options.repeat),
        "profile": profile,
        "functions": lambda: other_functions(options.repeat),
        "xrfm": lambda: beside_xrfm(options.repeat),
        "prediction": lambda: prediction(options.repeat),
        "table1": table1,
        "million": million,
        "cpu": on_cpu,
    }
    record: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "card": torch.cuda.get_device_name(),
        "capability": torch.cuda.get_device_capability(),
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
        print(name, json.dumps(record[name], indent=1), flush=True)
        if options.out:
            options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
