"""The constraints as one block, and the metric that makes violations and multipliers comparable."""

from __future__ import annotations

import pytest
import torch

from ferero.methods.rows import rows_of
from ferero.preference import Preference

CPU = torch.device("cpu")
WANTED = Preference.from_matrices(
    B_g=[[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]], b_g=[0.5, -1.0], B_h=[[1.0, 1.0, 0.0], [0.0, 1.0, -3.0]], b_h=[0.0, 0.25]
)
ONES = torch.ones(4, dtype=torch.float64)


def test_rows_and_channels():
    rows = rows_of(WANTED, CPU, torch.float64)
    F = torch.tensor([0.3, 0.7, 0.2], dtype=torch.float64)
    G, H = WANTED.values(F)
    torch.testing.assert_close(rows.values(F), torch.cat([G, H]))
    assert rows.channel.tolist() == [0, 1, 2, 2]  # all equalities are one
    assert rows.first.tolist() == [0, 1, 2]
    assert rows.is_inequality.tolist() == [True, True, False, False]
    assert rows.names.tolist() == (torch.cat([WANTED.B_g, WANTED.B_h]) != 0).tolist()
    assert rows.by_row(torch.tensor([1.0, 2.0, 3.0])).tolist() == [1, 2, 3, 3]
    assert rows.by_channel(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [1, 2, 3]
    assert rows_of(WANTED, CPU, torch.float64) is rows


def test_the_metric_is_the_squared_size_of_the_terms():
    size = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    metric = rows_of(WANTED, CPU, torch.float64).metric(size, ONES)
    assert metric.D[0, 0].item() == pytest.approx(1 + 4 + 0.25)
    assert metric.D[1, 1].item() == pytest.approx(1 + 1)
    B = WANTED.B_h * size
    torch.testing.assert_close(metric.D[2:, 2:], B @ B.T + torch.outer(WANTED.b_h, WANTED.b_h))
    assert (metric.D[:2, 2:] == 0).all()
    assert metric.D[0, 1] == 0
    v = torch.tensor([0.1, -0.2, 0.3, 0.4], dtype=torch.float64)
    torch.testing.assert_close(metric.divide(v), torch.linalg.solve(metric.D, v))
    wanted = [
        v[0] ** 2 / metric.D[0, 0],
        v[1] ** 2 / metric.D[1, 1],
        v[2:] @ torch.linalg.solve(metric.D[2:, 2:], v[2:]),
    ]
    torch.testing.assert_close(metric.squares(v[None])[0], torch.stack(wanted))
    torch.testing.assert_close(metric.sizes(metric.divide(v)).square(), metric.squares(v[None])[0])


def test_relative_sizes_do_not_depend_on_basis_or_units():
    generator = torch.Generator().manual_seed(0)
    change = torch.randn(2, 2, generator=generator, dtype=torch.float64)
    units = torch.tensor([1e-5, 1.0, 1e4], dtype=torch.float64)
    other = Preference.from_matrices(
        B_g=WANTED.B_g / units * 7, b_g=WANTED.b_g * 7, B_h=change @ WANTED.B_h / units, b_h=change @ WANTED.b_h
    )
    size = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    F = torch.tensor([0.3, 0.7, 0.2], dtype=torch.float64)
    squares = []
    for preference, c in ((WANTED, 1.0), (other, units)):
        rows = rows_of(preference, CPU, torch.float64)
        squares.append(rows.metric(size * c, ONES).squares(rows.values(F * c)[None])[0])
    torch.testing.assert_close(squares[1], squares[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_no_size_breaks_it(size):
    bare = Preference.from_matrices(B_g=[[1.0, 0.0]], B_h=[[1.0, -1.0], [2.0, -2.0]])
    sizes = torch.full((2,), size, dtype=torch.float64)
    metric = rows_of(bare, CPU, torch.float64).metric(sizes, torch.ones(3, dtype=torch.float64))
    assert torch.isfinite(metric.inverse).all()
    assert torch.isfinite(metric.divide(size * torch.ones(3, dtype=torch.float64))).all()


def test_rows_that_have_not_arrived_do_not_enter():
    size = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    rows = rows_of(WANTED, CPU, torch.float64)
    arrived = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    v = torch.tensor([0.1, 0.0, 0.3, 0.0], dtype=torch.float64)
    part, whole = rows.metric(size, arrived), rows.metric(size, ONES)
    assert part.divide(v)[2].item() == pytest.approx(0.3 / whole.D[2, 2].item())
    assert part.divide(v)[3].item() == 0


def test_no_rows_at_all():
    rows = rows_of(Preference.pareto(2), CPU, torch.float64)
    metric = rows.metric(torch.ones(2, dtype=torch.float64), torch.ones(0, dtype=torch.float64))
    assert metric.D.shape == metric.inverse.shape == (0, 0)
    assert rows.values(torch.ones(2, dtype=torch.float64)).shape == (0,)


def test_padding_of_a_stack_is_not_real():
    rows = rows_of(Preference.stack([WANTED, Preference.pareto(3)]), CPU, torch.float64)
    assert rows.is_real.tolist() == [[True] * 4, [False] * 4]


def test_margins_are_kept_only_where_there_are_any():
    assert rows_of(WANTED, CPU, torch.float64).margins is None
    careful = Preference.from_matrices(B_g=[[1.0, 0.0]], B_h=[[1.0, -1.0]], margins=1.64)
    assert rows_of(careful, CPU, torch.float64).margins.tolist() == [1.64, 0.0]
