"""Nothing is silently wrong: every case gives a right answer or a clear error."""

from collections import Counter

import pytest

import reliability
from reliability_faults import FAULTS

CASES = reliability.all_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case):
    reliability.outcome(case)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault(fault):
    found = fault()
    assert found.fine, found


def test_cases_are_many_and_differ():
    assert len(CASES) >= 1500
    names = Counter((case.door, case.kind, case.name) for case in CASES)
    assert not [name for name, count in names.items() if count > 1]
