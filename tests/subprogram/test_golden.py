"""The golden subprograms: solved in the primal by a conic solver, confirmed by an independent dual solve."""

import numpy as np
import pytest

from ferero_lab.bench.core.subprograms import solve_golden
from ferero_lab.bench.golden import golden

INSTANCES = golden("subprograms")


def error(found, wanted):
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_there_are_many():
    assert len(INSTANCES) >= 100


@pytest.mark.parametrize("solver", ["exact", "batched"])
def test_slopes_c_and_psi(solver):
    chosen = INSTANCES if solver == "exact" else [i for i in INSTANCES if len(i["losses"]) <= 6]
    for instance in chosen:
        s = solve_golden(instance, solver=solver)
        size = max(abs(instance["c"]), abs(instance["psi"]), instance["d_norm"] ** 2)
        assert s.status == "optimal"
        assert s.residual <= 1e-8
        assert error(s.slopes, instance["slopes"]) <= 1e-7
        assert abs(float(s.c) - instance["c"]) <= 1e-7 * size
        assert abs(float(s.psi) - instance["psi"]) <= 1e-7 * size
        assert float(-s.weights @ s.slopes) ** 0.5 == pytest.approx(instance["d_norm"], rel=1e-6)
