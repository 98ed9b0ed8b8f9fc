import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from ejop import OuterProduct, outer_product


def jacobians(m=50, c=3, d=4, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(m, c, d)).astype(dtype)


def test_mean_is_the_mean_of_outer_products():
    J = jacobians()
    w = np.random.default_rng(1).uniform(0, 2, len(J))
    np.testing.assert_allclose(outer_product(J), reference.mean_outer_product(J), rtol=1e-12)
    for batch in (1, 7):
        total = OuterProduct(3, 4, batch=batch).add(J, w)
        np.testing.assert_allclose(total.mean(), reference.mean_outer_product(J, w), rtol=1e-12)
        assert total.count == len(J)


def test_standard_error_is_that_of_a_mean():
    J = jacobians()
    G = np.einsum("mcd,mce->mde", J, J)
    expected = G.std(0, ddof=1) / np.sqrt(len(J))
    np.testing.assert_allclose(OuterProduct(3, 4).add(J).stderr(), expected, rtol=1e-10)
    diagonal = OuterProduct(3, 4, diagonal=True).add(J)
    np.testing.assert_allclose(diagonal.stderr(), np.diag(np.diag(expected)), rtol=1e-10)
    np.testing.assert_allclose(diagonal.mean(), np.diag(np.diag(G.mean(0))), rtol=1e-12)


def test_standard_error_between_groups_estimates_the_same():
    J = jacobians(m=20_000)
    one, groups = (OuterProduct(3, 4, batch=b).add(J).stderr() for b in (1, 50))
    np.testing.assert_allclose(groups, one, rtol=0.3)
    true = np.sqrt(np.mean([_spread(s) for s in range(300)], axis=0))
    reported = np.mean([OuterProduct(3, 4).add(jacobians(seed=s)).stderr() for s in range(50)], 0)
    np.testing.assert_allclose(reported, true, rtol=0.25)


def _spread(seed):
    return (outer_product(jacobians(seed=seed)) - 3 * np.eye(4)) ** 2


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.randoms(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_merge_in_any_split_and_order_equals_one_pass(sizes, random, weighted):
    J = jacobians(m=sum(sizes) + 2)
    w = np.random.default_rng(1).uniform(0.1, 2, len(J)) if weighted else None
    cuts = np.cumsum([2, *sizes])
    pieces = [slice(a, b) for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
    parts = [OuterProduct(3, 4).add(J[p], None if w is None else w[p]) for p in pieces]
    random.shuffle(parts)
    total = OuterProduct(3, 4)
    for part in parts:
        total.merge(part)
    whole = OuterProduct(3, 4).add(J, w)
    assert total.count == whole.count
    for name in ("mean", "stderr", "shares", "output_importances"):
        np.testing.assert_allclose(
            getattr(total, name)(), getattr(whole, name)(), rtol=1e-9, atol=1e-12, err_msg=name
        )


def test_shares_are_traces_by_output():
    J = jacobians() * np.array([1.0, 2.0, 0.0])[None, :, None]
    shares = OuterProduct(3, 4).add(J).shares()
    traces = (J**2).sum((0, 2))
    np.testing.assert_allclose(shares, traces / traces.sum())
    assert shares[2] == 0


def test_float32_sums_are_accumulated_in_float64():
    J = jacobians(m=3000, dtype=np.float32)
    total = OuterProduct(3, 4, batch=16).add(J)
    assert total.mean().dtype == np.float64
    np.testing.assert_allclose(total.mean(), outer_product(J), rtol=1e-5, atol=1e-6)


def test_errors_name_what_was_wrong():
    with pytest.raises(ValueError, match=r"`J` has shape \(5, 2, 4\).*3, 4"):
        OuterProduct(3, 4).add(np.zeros((5, 2, 4)))
    with pytest.raises(ValueError, match="cannot merge"):
        OuterProduct(3, 4).merge(OuterProduct(3, 5))
    with pytest.raises(ValueError, match="call `add` first"):
        OuterProduct(3, 4).mean()
    assert np.isnan(OuterProduct(3, 4).add(jacobians(m=1)).stderr()).all()
    assert OuterProduct(3, 4).add(jacobians(m=1)).relative_error() == np.inf
