"""The golden subprograms: solved in the primal by a conic solver, confirmed by an independent dual solve."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ferero.preference import Preference
from ferero.subprogram import solve_subprogram

PATH = Path(__file__).parent / "golden" / "subprogram.json.gz"
INSTANCES = json.loads(gzip.decompress(PATH.read_bytes()))


def preference_of(instance):
    """The preference of an instance, with the order's rows exactly as given: their lengths matter."""
    m = len(instance["losses"])
    matrices = {name: np.reshape(instance[name], (-1, m)) for name in ("A", "B_g", "B_h")}
    p = Preference.from_matrices(**matrices, b_g=instance["b_g"], b_h=instance["b_h"])
    object.__setattr__(p, "A", torch.from_numpy(matrices["A"]).double())
    return p


def solve(instance, **options):
    return solve_subprogram(
        preference_of(instance),
        instance["losses"],
        instance["gramian"],
        c_g=instance["c_g"],
        c_h=instance["c_h"],
        domain=instance["domain"],
        **options,
    )


def error(found, wanted):
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_there_are_many():
    assert len(INSTANCES) >= 100


@pytest.mark.parametrize("solver", ["exact", "batched"])
def test_slopes_c_and_psi(solver):
    chosen = INSTANCES if solver == "exact" else [i for i in INSTANCES if len(i["losses"]) <= 6]
    for instance in chosen:
        s = solve(instance, solver=solver)
        size = max(abs(instance["c"]), abs(instance["psi"]), instance["d_norm"] ** 2)
        assert s.status == "optimal"
        assert s.residual <= 1e-8
        assert error(s.slopes, instance["slopes"]) <= 1e-7
        assert abs(float(s.c) - instance["c"]) <= 1e-7 * size
        assert abs(float(s.psi) - instance["psi"]) <= 1e-7 * size
        assert float(-s.weights @ s.slopes) ** 0.5 == pytest.approx(instance["d_norm"], rel=1e-6)
