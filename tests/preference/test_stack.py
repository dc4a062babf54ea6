"""A stack is its members, side by side: padding never binds."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import InputError
from ferero.geometry import Cone
from ferero.preference import Preference, objectives

g = objectives("f1", "f2", "f3")
members = [
    Preference.ray([1, 2, 3]),
    Preference(g, [g.f1 <= 1, g.f2 >= 0.1, abs(g.f3) <= 2]),
    Preference.pareto(3),
    Preference(g, [g.f1 == g.f2], minimize=g.f1 + g.f3),
]
batch = Preference.stack(members)


def test_shapes_and_padding():
    assert (batch.A.shape, batch.B_g.shape, batch.b_g.shape) == ((4, 3, 3), (4, 4, 3), (4, 4))
    assert (batch.B_h.shape, batch.b_h.shape) == ((4, 2, 3), (4, 2))
    assert batch.batch_shape == (4,)
    assert (len(batch), batch.m, batch.m_g, batch.m_h) == (4, 3, 4, 2)
    assert batch.b_g[2].tolist() == [-1] * 4
    assert not batch.B_g[2].any()
    assert not batch.B_h[2].any()
    assert not batch.b_h[2].any()
    assert not batch.A[3, 1:].any()
    assert not batch.margins.any()


def test_margins_are_padded_with_zeros():
    p = Preference.stack([members[1].with_margin([1, 2, 3, 4]), Preference(g, (g.f1 <= 1).with_margin(5)), members[0]])
    assert p.margins.tolist() == [[1, 2, 3, 4], [5, 0, 0, 0], [0, 0, 0, 0]]
    assert "f1 <= 1 (margin 5 standard errors)" in str(p)


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 10**6))
def test_violations_are_those_of_the_members(seed):
    losses = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    violation = batch.violation(losses)
    assert violation.shape == (5, 4, 6)
    for i, p in enumerate(members):
        own = p.violation(losses[:, i])
        torch.testing.assert_close(violation[:, i, : p.m_g], own[:, : p.m_g])
        torch.testing.assert_close(violation[:, i, 4 : 4 + p.m_h], own[:, p.m_g :])
        assert not violation[:, i, p.m_g : 4].any()
        assert not violation[:, i, 4 + p.m_h :].any()
        assert torch.equal(batch.is_satisfied(losses)[:, i], p.is_satisfied(losses[:, i]))


def test_one_point_for_all():
    torch.testing.assert_close(
        batch.violation([1.0, 2.0, 3.0]), batch.violation(torch.tensor([[1.0, 2, 3]] * 4).double())
    )


def test_members_come_back():
    assert batch[1] is members[1]
    assert batch[-1] is members[-1]
    assert list(batch) == members
    assert batch.members == tuple(members)
    assert str(batch).startswith("[0] minimize f1, f2, f3\n    subject to F along")
    assert repr(batch) == "Preference(4 preferences; f1, f2, f3: 4 inequalities, 2 equalities)"
    assert len(copy.deepcopy(batch)) == 4


def test_rays():
    rays = [Preference.ray([1, 2]), Preference.ray([2, 1])]
    p = Preference.stack(rays)
    assert p.ray.shape == (2, 2)
    assert p.through is None
    q = Preference.stack([*rays, Preference.ray([1, 1], through=[0, 1])])
    assert q.through.tolist() == [[0, 0], [0, 0], [0, 1]]
    assert batch.ray is None
    assert batch.through is None


def test_cones_and_notes():
    cone = Cone.orthant(2)
    same = Preference.stack([Preference.ray([1, 2], cone=cone), Preference.ray([2, 1], cone=Cone.orthant(2))])
    assert same.cone is not None
    assert batch.cone is None
    assert Preference.stack([Preference.pareto(2), Preference.ray([1, -1])]).notes[0].startswith("[1] no non-negative")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Preference.stack([]), "expected at least one"),
        (
            lambda: Preference.stack([Preference.pareto(2), Preference.pareto(3)]),
            r"preferences\[1\]: expected the names",
        ),
        (
            lambda: Preference.stack([Preference.pareto(2), 3]),
            r"preferences\[1\]: expected a Preference, found int",
        ),
        (lambda: Preference.stack([batch]), "found a stack; pass its members"),
        (lambda: batch & batch, "&: expected a single preference, found a stack"),
        (lambda: batch.with_margin(1), "with_margin: expected a single preference"),
        (lambda: len(members[0]), r"len\(\): expected a stack, found a single"),
        (lambda: members[0][0], "expected a stack"),
        (lambda: list(members[0]), "expected a stack"),
        (
            lambda: batch.violation(torch.ones(5, 3)),
            r"losses: expected shape \(\.\.\., 4, 3\), found \(5, 3\)",
        ),
    ],
)
def test_refusals(make, text):
    with pytest.raises(InputError, match=text):
        make()


def test_preferences_are_true():
    assert members[0]
    assert batch
