"""Matrices by their terms: the same products as with all entries, at the cost of those that are not 0."""

from __future__ import annotations

import pytest
import torch

from ferero.methods import _rows as rows_module
from ferero.methods._rows import Sparse, rows_of
from ferero.preference import Preference

CPU = torch.device("cpu")
WANTED = Preference.from_matrices(
    B_g=[[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]], b_g=[0.5, -1.0], B_h=[[1.0, 1.0, 0.0], [0.0, 1.0, -3.0]], b_h=[0.0, 0.25]
)


@pytest.mark.parametrize("few", [0, 4096])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("stack", [(), (3,)])
def test_products_are_those_of_the_matrix(monkeypatch, few, batch, stack):
    monkeypatch.setattr(rows_module, "_FEW", few)  # 0: rows are sorted by their length
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor([0.0, 0.1, 0.1, 0.5, 1.0])[:, None]
    M = torch.randn(*stack, 5, 20, generator=generator, dtype=torch.float64)
    M = M * (torch.rand(*stack, 5, 20, generator=generator) < shares)
    x = torch.randn(*(batch or stack), 20, generator=generator, dtype=torch.float64)
    y = torch.randn(*(batch or stack), 5, generator=generator, dtype=torch.float64)
    sparse, terms = Sparse.of(M), M * x[..., None, :]
    torch.testing.assert_close(sparse.times(x), terms.sum(-1))
    torch.testing.assert_close(sparse.combine(y), (M * y[..., None]).sum(-2))
    torch.testing.assert_close(sparse.times_squared(x), terms.square().sum(-1))
    torch.testing.assert_close(sparse.sides(x), torch.stack([terms.clamp(min=0).sum(-1), terms.clamp(max=0).sum(-1)]))
    torch.testing.assert_close(sparse.largest(x), terms.abs().amax(-1))
    torch.testing.assert_close(sparse.least(x), torch.where(M != 0, x[..., None, :], torch.inf).amin(-1))
    marked, rows_marked = x > 0, y > 0
    assert torch.equal(sparse.name_any(marked), ((M != 0) & marked[..., None, :]).any(-1))
    assert torch.equal(sparse.name_only(marked), ((M == 0) | marked[..., None, :]).all(-1))
    assert torch.equal(sparse.named_by_any(rows_marked), ((M != 0) & rows_marked[..., None]).any(-2))


def test_a_wide_row_does_not_widen_the_others():
    B = torch.cat([torch.eye(1000), -torch.eye(1000), torch.ones(1, 1000)])
    sparse = Sparse.of(B)
    for terms in (sparse.by_row, sparse.by_column):
        assert sum(coefficients.numel() for _, coefficients in terms.blocks) <= 4000


def test_rows():
    rows = rows_of(WANTED, CPU, torch.float64)
    F = torch.tensor([0.3, 0.7, 0.2], dtype=torch.float64)
    torch.testing.assert_close(rows.values(F), torch.cat(WANTED.values(F)))
    assert (rows.count, rows.m_g, rows.k) == (4, 2, 3)
    assert rows_of(WANTED, CPU, torch.float64) is rows


def test_no_rows_at_all():
    rows = rows_of(Preference.pareto(2), CPU, torch.float64)
    assert rows.values(torch.ones(2, dtype=torch.float64)).shape == (0,)
    assert rows.B.combine(torch.ones(0, dtype=torch.float64)).tolist() == [0, 0]


def test_padding_of_a_stack_is_not_real():
    rows = rows_of(Preference.stack([WANTED, Preference.pareto(3)]), CPU, torch.float64)
    assert rows.is_real.tolist() == [[True] * 4, [False] * 4]


def test_margins_are_kept_only_where_there_are_any():
    assert rows_of(WANTED, CPU, torch.float64).margins is None
    careful = Preference.from_matrices(B_g=[[1.0, 0.0]], B_h=[[1.0, -1.0]], margins=1.64)
    assert rows_of(careful, CPU, torch.float64).margins.tolist() == [1.64, 0.0]
