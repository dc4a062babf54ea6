"""Contradictions raise and name their causes; redundancies and the unreachable are noted."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import ContradictionError
from ferero.preference import Preference, objectives

f = objectives("a", "b", "c")


@pytest.mark.parametrize(
    ("constraints", "named"),
    [
        ([f.a <= 1, f.b <= 5, f.a >= 2], "both 'a <= 1' and 'a >= 2'"),
        ([f.a == 1, f.a == 2], "both 'a == 1' and 'a == 2'"),
        ([f.a <= f.b, f.b <= f.c, f.c <= f.a - 1, f.c <= 9], "all of 'a <= b', 'b <= c' and 'c <= a - 1'"),
        ([abs(f.a - f.b) <= 0.1, f.a - f.b == 0.2], "both 'a - b <= 0.1' and 'a - b == 0.2'"),
        ([f.a + f.b == 1, 2 * f.a + 2 * f.b == 3], "both 'a \\+ b == 1' and '2\\*a \\+ 2\\*b == 3'"),
        ([f.a <= 1e9, f.b <= 1e-3, f.b >= 2e-3], "both 'b <= 0.001' and 'b >= 0.002'"),
        ([f.a <= 1e-12, f.a >= 1], "both 'a <= 1e-12' and 'a >= 1'"),
        ([1e9 * f.a <= 1, f.a >= 1], "both"),
        ([f.a <= -1, f.a >= 0], "both 'a <= -1' and 'a >= 0'"),
        ([f.a - f.a >= 1], "'0 >= 1' contains no objective and never holds"),
    ],
)
def test_contradictions_are_named(constraints, named):
    with pytest.raises(ContradictionError, match=named):
        Preference(f, constraints)


@pytest.mark.parametrize("scale", [1e-10, 1e-3, 1.0, 1e10])
def test_verdicts_do_not_depend_on_scale(scale):
    with pytest.raises(ContradictionError, match="both"):
        Preference(f, [f.a <= scale, f.a >= (1 + 1e-6) * scale])
    Preference(f, [f.a <= scale, f.a >= (1 - 1e-6) * scale])
    Preference(f, [scale * f.a <= 1, scale * f.a >= 1, f.a + f.b == scale])


def test_rounding_is_no_contradiction():
    p = Preference(f, [f.a == 0.1, f.b == 0.2, f.a + f.b == 0.3, f.a <= 0.1])
    assert p.notes == (
        "'a + b == 0.3' is redundant: the other constraints imply it",
        "'a <= 0.1' is redundant: the other constraints imply it",
    )


def test_negative_losses_are_no_contradiction_but_noted():
    p = Preference(f, [f.a <= -1, f.b >= 2, f.c + f.b <= 1])
    assert p.notes == (
        "no non-negative losses can meet 'a <= -1'",
        "no non-negative losses can meet both 'b >= 2' and 'c + b <= 1'",
    )


def test_redundant_ones_are_noted_and_kept():
    p = Preference(f, [f.a <= 1, f.a <= 2, f.b == f.a, f.b <= 3, abs(f.c) <= 1, f.c <= 1, f.b >= 0])
    assert p.m_g == 7
    assert [note.split("'")[1] for note in p.notes] == ["a <= 2", "b <= 3", "c <= 1"]
    assert all("is redundant: the other constraints imply it" in note for note in p.notes)


def test_constant_constraints_are_noted_and_kept():
    p = Preference(f, [f.a - f.a <= 1, f.b <= 1])
    assert p.notes == ("'0 <= 1' contains no objective and always holds",)
    assert p.B_g.tolist() == [[0, 0, 0], [0, 1, 0]]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 7), st.integers(0, 3), st.integers(-8, 8))
def test_what_has_a_solution_is_accepted(seed, m, k, h, exponent):
    generator = torch.Generator().manual_seed(seed)
    B = torch.randn(k + h, m, generator=generator, dtype=torch.float64)
    F = torch.randn(m, generator=generator, dtype=torch.float64) * 10.0**exponent
    slack = torch.rand(k, generator=generator, dtype=torch.float64) * 10.0**exponent
    b = -B @ F
    p = Preference.from_matrices(B_g=B[:k], b_g=b[:k] - slack, B_h=B[k:], b_h=b[k:])
    assert (p.m_g, p.m_h) == (k, h)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5), st.integers(-8, 8))
def test_farkas_combinations_are_refused_and_irreducible(seed, m, k, exponent):
    """Rows and minus their positive combination, with offsets that add up to something positive."""
    generator = torch.Generator().manual_seed(seed)
    B = torch.randn(k, m, generator=generator, dtype=torch.float64)
    y = 0.1 + torch.rand(k, generator=generator, dtype=torch.float64)
    b = torch.randn(k, generator=generator, dtype=torch.float64) * 10.0**exponent
    rows = torch.cat([B, -(y @ B)[None]])
    offsets = torch.cat([b, -(y @ b)[None] + 0.1 * 10.0**exponent])
    with pytest.raises(ContradictionError, match="no losses satisfy") as caught:
        Preference.from_matrices(B_g=rows, b_g=offsets)
    quoted = str(caught.value).split("'")[1::2]
    named = set(quoted)
    labels = [str(c) for c in _constraints(rows, offsets)]
    kept = [i for i, label in enumerate(labels) if label in named]
    assert len(kept) == len(quoted) <= m + 1
    for dropped in kept:  # irreducible: without any one of them it is consistent
        rest = [i for i in kept if i != dropped]
        Preference.from_matrices(B_g=rows[rest], b_g=offsets[rest])


def _constraints(rows, offsets):
    g = objectives(*(f"f{i + 1}" for i in range(rows.shape[1])))
    return [
        sum((c * x for c, x in zip(row, g, strict=True)), start=0 * g[0]) <= -offset
        for row, offset in zip(rows.tolist(), offsets.tolist(), strict=True)
    ]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 6))
def test_dropping_what_is_noted_as_redundant_changes_nothing(seed, m, k):
    generator = torch.Generator().manual_seed(seed)
    B = torch.randn(k, m, generator=generator, dtype=torch.float64)
    b = -torch.rand(k, generator=generator, dtype=torch.float64)
    p = Preference.from_matrices(B_g=B, b_g=b)
    redundant = {note.split("'")[1] for note in p.notes if "redundant" in note}
    kept = [i for i, label in enumerate(p.labels_g) if label not in redundant]
    q = Preference.from_matrices(B_g=B[kept], b_g=b[kept])
    F = 3 * torch.randn(500, m, generator=generator, dtype=torch.float64)
    assert torch.equal(p.is_satisfied(F), q.is_satisfied(F))


def test_forty_objectives():
    g = objectives(*(f"x{i}" for i in range(40)))
    p = Preference(g, [x <= 1 for x in g] + [x >= 0.1 for x in g])
    assert p.notes == ()
    with pytest.raises(ContradictionError, match="both 'x7 <= 1' and 'x7 >= 2'"):
        Preference(g, [x <= 1 for x in g] + [g.x7 >= 2])
