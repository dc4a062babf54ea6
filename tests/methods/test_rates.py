import numpy as np
import pytest

from ferero_lab.bench.methods.ferero_sa import (
    CASES,
    HORIZONS,
    deterministic_merits,
    deviation,
    fitted_slope,
    project_by_bisection,
    stochastic_merits,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_five_steps_by_hand(case):
    assert max(deviation(case, seed) for seed in range(5)) <= 1e-12


def test_the_replay_projects_to_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, a, b = 3 * rng.standard_normal(4), rng.uniform(0.1, 2, 4), rng.uniform(0.5, 3)
        z = project_by_bisection(x, a, b)
        assert z.min() >= 0
        assert a @ z == pytest.approx(b, rel=1e-13)
        corners = np.diag(b / a)
        assert ((corners - z) @ (x - z)).max() <= 1e-12 * (1 + np.abs(x).max()) ** 2  # no corner lies nearer to x


@pytest.mark.slow
def test_algorithm_2_falls_like_one_over_T():
    assert fitted_slope(HORIZONS, deterministic_merits(HORIZONS)) <= -0.9


def test_algorithm_3_falls_like_one_over_the_root_of_T():
    horizons = HORIZONS[:4]
    assert fitted_slope(horizons, stochastic_merits(horizons)) <= -0.4


@pytest.mark.slow
def test_algorithm_3_does_so_up_to_ten_thousand_steps():
    assert fitted_slope(HORIZONS, stochastic_merits(HORIZONS)) <= -0.4
