"""The comparison with fairlearn, on the stand-in for a census."""

import pytest
import torch

from ferero import rates
from ferero_lab.bench.rates import BOUNDS, GAPS, Fitted, measured, reduced, split_of, steered, summary, table
from ferero_lab.data import adult_like

PEOPLE = adult_like(n=1000).train


@pytest.mark.filterwarnings("ignore:Setting a value on a Series via .at")  # fairlearn 0.15 with pandas 3.1
@pytest.mark.filterwarnings("ignore:Setting an item of incompatible dtype")
def test_a_model_is_fitted_by_both_and_measured_on_others():
    train, test = split_of(PEOPLE, 400, seed=1)
    assert (len(train), len(test)) == (400, 200)
    model = steered(train, rates.demographic_parity(0.1), 0, steps=20)
    gap, error = measured("demographic parity", model(test.features)[:, 0] > 0, test)
    assert abs(gap) < 1
    assert error < 0.5
    pytest.importorskip("fairlearn")
    gap, error = measured("true positive rates", reduced(train, "true positive rates", 0.1, test, 0), test)
    assert abs(gap) < 1
    assert error < 0.5


def test_gaps_are_those_of_decisions_and_of_whom_they_are_about():
    _, test = split_of(PEOPLE, 400, seed=0)
    everyone, nobody = torch.ones(200, dtype=torch.bool), torch.zeros(200, dtype=torch.bool)
    assert measured("demographic parity", everyone, test)[0] == 0
    assert measured("demographic parity", test.groups == 1, test)[0] == 1
    assert measured("true positive rates", test.groups == 0, test)[0] == -1
    assert measured("true positive rates", nobody, test)[1] == pytest.approx(float(test.labels.mean()))


def test_the_table_has_means_and_standard_errors_of_splits():
    found = [
        Fitted("german", gap, bound, method, split, (-1) ** split * 0.1, 0.2 + 0.1 * split, 1.0)
        for gap in GAPS
        for bound in BOUNDS
        for method in ("ferero", "fairlearn")
        for split in range(2)
    ]
    header, lines = table(summary(found))
    assert len(lines) == 6
    assert dict(zip(header, lines[0], strict=True)) == {
        "data": "german",
        "gap of": "demographic parity",
        "asked": "0.02",
        "gap, ferero": "0.100 ± 0.000",
        "gap, fairlearn": "0.100 ± 0.000",
        "error, ferero": "0.250 ± 0.050",
        "error, fairlearn": "0.250 ± 0.050",
    }
