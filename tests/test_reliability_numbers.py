"""Every case of ``reliability_numbers`` gives what it must."""

from collections import Counter

import pytest

from reliability_numbers import CASES, attempt


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.door}: {case.name}")
def test_case(case):
    attempt(case)


def test_cases_are_many_and_differ():
    assert len(CASES) >= 200
    names = Counter((case.door, case.kind, case.name) for case in CASES)
    assert not [name for name, count in names.items() if count > 1]
