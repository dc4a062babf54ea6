"""Families of losses: what is written once is a row for each member."""

from __future__ import annotations

import copy
import pickle
import time

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import ContradictionError, InputError, UnknownNameError, UnsupportedError
from ferero.preference import FamilyConstraint, FamilyExpression, Preference, objectives

f = objectives("ce", group=4, other=4, few=2)
M = 11
PLACES = {"group": 1, "other": 5, "few": 9}


def dense(*entries, constant=0.0):
    row = torch.zeros(M, dtype=torch.float64)
    for place, value in entries:
        row[place] += value
    return row.tolist(), constant


def rows(*constraints, minimize=f.ce):
    p = Preference(f, constraints, minimize=minimize)
    B, b = torch.cat([p.B_g, p.B_h]), torch.cat([p.b_g, p.b_h])
    return list(zip(B.tolist(), b.tolist(), strict=True))


def test_members_follow_the_other_names():
    assert f.names[:6] == ("ce", "group[0]", "group[1]", "group[2]", "group[3]", "other[0]")
    assert len(f) == M
    assert [(family.name, family.size, family.start) for family in f.families] == [
        (name, size, PLACES[name]) for name, size in (("group", 4), ("other", 4), ("few", 2))
    ]
    assert [str(x) for x in f][9:] == ["few[0]", "few[1]"]
    assert str(f["group[2]"]) == str(f.group[2]) == "group[2]"
    assert [str(x) for x in f.few] == ["few[0]", "few[1]"]
    assert str(f.group[-1]) == "group[3]"


def test_a_bound_is_a_row_for_each_member():
    assert rows(f.group <= 0.5) == [dense((1 + i, 1.0), constant=-0.5) for i in range(4)]
    assert rows(f.group <= 0.5) == rows(f.group <= 0.5)
    assert rows(f.group >= 0.5) == [dense((1 + i, -1.0), constant=0.5) for i in range(4)]
    assert rows(f.group == 0.5) == rows(f.group <= 0.5)


def test_numbers_and_expressions_count_for_every_member():
    found = rows(2 * f.group - f.ce / 4 + 1 <= np.float64(3.0))
    assert found == [dense((1 + i, 2.0), (0, -0.25), constant=-2.0) for i in range(4)]
    assert rows(f.ce <= f.group) == [dense((0, 1.0), (1 + i, -1.0)) for i in range(4)]


def test_two_families_of_one_size_are_taken_member_by_member():
    assert rows(f.group - f.other <= 0) == [dense((1 + i, 1.0), (5 + i, -1.0)) for i in range(4)]
    assert rows(f.group + f.group - 2 * f.group + f.other <= 1) == rows(f.other <= 1)


def test_means_and_sums_are_ordinary_expressions():
    quarter = [(1 + i, 0.25) for i in range(4)]
    assert rows(f.group.mean() <= 1) == [dense(*quarter, constant=-1.0)]
    assert rows(f.group.sum() <= 1) == [dense(*((j, 1.0) for j, _ in quarter), constant=-1.0)]
    assert rows((f.group - f.ce).mean() <= 1) == [dense(*quarter, (0, -1.0), constant=-1.0)]
    found = rows(f.group - f.group.mean() <= 0.25)
    minus = [(j, -c) for j, c in quarter]
    assert found == [dense((1 + i, 1.0), *minus, constant=-0.25) for i in range(4)]
    assert rows(f.group[2] - f.group.mean() <= 0.25) == [found[2]]


def test_abs_has_all_rows_from_above_then_all_from_below():
    assert rows(abs(f.few - f.ce) <= 0.5) == rows(f.few - f.ce <= 0.5, f.few - f.ce >= -0.5)
    p = Preference(f, [(abs(f.few) <= 0.5).named("band")], minimize=f.ce)
    assert p.metric_keys == ("band/upper", "band/lower")
    assert p.labels_g[0] == "band/upper[0]: few[0] <= 0.5"
    assert p.labels_g[3] == "band/lower[1]: few[1] >= -0.5"


def test_what_is_minimised():
    p = Preference(f, minimize=f.ce + 0.1 * f.few.mean())
    assert p.A.tolist() == [dense((0, 1.0), (9, 0.05), (10, 0.05))[0]]
    assert Preference(f, minimize=f.few).A.tolist() == [dense((9, 1.0))[0], dense((10, 1.0))[0]]
    assert torch.equal(Preference(f).A, torch.eye(M, dtype=torch.float64))


def test_equalities_come_after_inequalities():
    p = Preference(f, [f.few == 1, f.group <= 2, f.ce <= 3], minimize=f.ce)
    assert (p.m_g, p.m_h) == (5, 2)
    assert [block.part.text for block in p.blocks] == ["group <= 2", "ce <= 3", "few == 1"]
    assert [(block.start, block.stop) for block in p.blocks] == [(0, 4), (4, 5), (5, 7)]


def test_it_prints_as_it_was_written_and_reads_back():
    p = Preference(
        f,
        [f.group <= 0.1, abs(f.group - f.group.mean()) <= 0.02, f.group[3] >= 0.01, f.few + f.ce == 2],
        minimize=f.ce + 0.1 * f.group.mean(),
    ).with_margin(1.5)
    text = "group <= 0.1 (margin 1.5 standard errors)"
    assert str(p).splitlines()[:2] == ["minimize ce + 0.1*mean(group)", f"subject to {text}"]
    assert repr(p).startswith("Preference(ce, group[0] to group[3], other[0] to other[3], few[0] to few[1]: 13 ineq")
    again = Preference.parse(str(p), names=f)
    for name in ("A", "B_g", "b_g", "B_h", "b_h", "margins"):
        assert torch.equal(getattr(again, name), getattr(p, name))
    everything = Preference(f, [f.group <= 0.1])
    assert str(everything).startswith("minimize ce, group, other, few\n")
    assert torch.equal(Preference.parse(str(everything), names=f).A, everything.A)
    assert rows(*Preference.parse("sum(few) <= 1; minimize ce", names=f).constraints) == rows(f.few.sum() <= 1)


def test_margins_of_a_family_and_of_single_members():
    p = Preference(f, [f.few <= 1, f.ce <= 1], minimize=f.ce)
    assert p.with_margin(2.0).constraints[0].margin == 2.0
    assert p.with_margin([1.0, 2.0, 3.0]).margins.tolist() == [1.0, 2.0, 3.0]
    assert torch.equal(p.with_margin([1.0, 2.0, 3.0]).B_g, p.B_g)
    assert Preference(f, (f.few <= 1).with_margin(2), minimize=f.ce).margins.tolist() == [2.0, 2.0]


def test_both_of_two_preferences_and_stacks():
    one, other = (Preference(f, [c], minimize=f.ce) for c in (f.group <= 1, f.few >= 0.5))
    both = one & other
    assert both.families == f.families
    assert rows(*both.constraints) == rows(f.group <= 1, f.few >= 0.5)
    stack = Preference.stack([one, both])
    assert (stack.families, stack.B_g.shape) == (f.families, (2, 6, M))
    assert torch.equal(stack.B_g[1], both.B_g)


def test_values_and_violations():
    losses = torch.arange(M, dtype=torch.float64)
    G, H = Preference(f, [f.group <= 2, f.few == f.ce], minimize=f.ce).values(losses)
    assert (G.tolist(), H.tolist()) == ([-1.0, 0.0, 1.0, 2.0], [9.0, 10.0])


def test_a_measured_family():
    g = objectives("ce", rate=3, measured=("rate",))
    assert g.measured == ("rate[0]", "rate[1]", "rate[2]")
    assert Preference(g, [g.rate <= 0.1], minimize=g.ce).measured == g.measured


def test_copies_and_pickles():
    p = Preference(f, [f.group <= 1], minimize=f.ce)
    for again in (copy.deepcopy(p), pickle.loads(pickle.dumps(p)), p.to(dtype=torch.float32).to(dtype=torch.float64)):
        assert again.families == p.families
        assert torch.equal(again.B_g, p.B_g)
    assert p.to(dtype=torch.float32).B_g.dtype == torch.float32


# contradictions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ([f.group <= 0.1, f.group >= 0.2], "both 'group <= 0.1' and 'group >= 0.2'"),
        ([f.group <= 0.1, f.group[2] >= 0.2], r"both 'group\[2\] <= 0.1' and 'group\[2\] >= 0.2'"),
        ([f.group <= 0.1, f.group.mean() >= 0.2], r"both 'group <= 0.1' and 'mean\(group\) >= 0.2'"),
        ([f.group <= 0.1, f.group.sum() >= 0.5], r"'group <= 0.1' and '4\*mean\(group\) >= 0.5'"),
        ([f.group <= f.ce, f.ce <= 0.1, f.group >= 0.2], "all of 'group <= ce', 'ce <= 0.1' and 'group >= 0.2'"),
        ([f.group <= f.other - 1, f.other <= f.group], "both 'group <= other - 1' and 'other <= group'"),
        ([f.group <= f.group.mean() - 1], r"'group <= mean\(group\) - 1' for all 4 members; relax it"),
        ([f.group[1] <= f.group.mean() - 1, f.group <= 0.1, f.group[1] >= 0], r"group\[1\] <= mean\(group\) - 1"),
    ],
)
def test_contradictions_are_found(constraints, words):
    with pytest.raises(ContradictionError, match=f"no losses satisfy .*{words}"):
        Preference(f, constraints, minimize=f.ce)


@pytest.mark.parametrize(
    "constraints",
    [
        [f.group <= 0.1, f.group >= 0.1],
        [f.group - f.group.mean() <= 0.0],
        [f.group[0] >= 0.2, f.group.mean() <= 0.1],
        [f.group[0] - f.group.mean() >= 0.5, f.group <= 1],
        [f.group <= f.ce, f.group[1] >= f.ce - 0.1],
    ],
)
def test_what_can_be_met_is_built_and_agrees_with_its_members(constraints):
    p = Preference(f, constraints, minimize=f.ce)
    spelled = [part.member(i) for part in _parts(constraints) for i in range(part.size)]
    single = [c for c in constraints if not isinstance(c, FamilyConstraint)]
    q = Preference(f, [*spelled, *single], minimize=f.ce)
    assert sorted(map(str, p.B_g.tolist())) == sorted(map(str, q.B_g.tolist()))


def _parts(constraints):
    return [part for c in constraints if isinstance(c, FamilyConstraint) for part in c.parts]


def test_redundancies_are_noted_once():
    assert Preference(f, [f.group <= 0.1, f.group <= 0.2], minimize=f.ce).notes == (
        "'group <= 0.2' is redundant: the other constraints imply it",
    )
    assert Preference(f, [f.group <= -1], minimize=f.ce).notes == ("no non-negative losses can meet 'group <= -1'",)


def test_a_member_away_from_the_mean_is_not_called_redundant():
    """All members alike would meet it, which says nothing of others."""
    assert Preference(f, [f.group - f.group.mean() <= 0.1], minimize=f.ce).notes == ()


# size ----------------------------------------------------------------------------------------------------


def bounded(n):
    g = objectives("ce", group=n)
    return Preference(g, [g.group <= 0.1, g.group >= -1], minimize=g.ce)


def test_a_thousand_bounds_are_built_at_once():
    start = time.perf_counter()
    assert bounded(1000).m_g == 2000
    assert time.perf_counter() - start < 3


def test_a_hundred_thousand_are_built_without_their_matrix():
    start = time.perf_counter()
    p = bounded(100_000)
    assert time.perf_counter() - start < 20
    losses = torch.full((100_001,), 0.2, dtype=torch.float64)
    assert p.violation(losses).sum().item() == pytest.approx(10_000.0)
    with pytest.raises(UnsupportedError, match=r"B_g: expected a matrix of at most .*found 200000 x 100001; fam"):
        _ = p.B_g
    g = objectives("ce", group=100_000)
    with pytest.raises(ContradictionError, match=r"both 'group <= 0\.1' and 'group >= 0\.2'"):
        Preference(g, [g.group <= 0.1, g.group >= 0.2], minimize=g.ce)


# what is refused -----------------------------------------------------------------------------------------

BIG = objectives("ce", group=100_000)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: f.group[4], UnknownNameError, r"\[4\]: expected a member of 'group', from 0 to 3, found none"),
        (lambda: f.group[1:3], InputError, "expected the number of a member of 'group', found slice"),
        (lambda: f["group[9]"], UnknownNameError, r"'group\[9\]' is none of the objectives"),
        (lambda: f.grup, UnknownNameError, "did you mean 'group'"),
        (lambda: f.group + f.few, InputError, "expected families of one size, found 'group' of 4 and 'few' of 2"),
        (lambda: f.group + {}, InputError, r"\+: expected a number or an expression, found {}"),
        (lambda: f.group - torch.ones(4), InputError, r"-: expected a number or an expression, found an array"),
        (lambda: f.group * f.ce, InputError, "the product of 'group' and 'ce' is not linear"),
        (lambda: f.group / f.ce, InputError, "dividing by the expression 'ce' is not linear"),
        (lambda: 1 / f.group, InputError, "is not linear"),
        (lambda: f.group / 0, InputError, "divided by zero"),
        (lambda: f.group < 1, InputError, "no strict inequalities"),
        (lambda: f.group != 1, InputError, "is no constraint"),
        (lambda: bool(f.group), InputError, "neither true nor false"),
        (lambda: f.group <= np.inf, InputError, "<=: expected a finite number"),
        (lambda: abs(f.group) >= 1, InputError, r"abs\(...\) takes only '<='"),
        (lambda: abs(f.group) <= -1, InputError, "can never hold"),
        (lambda: abs(f.group) + 1, InputError, "can only be compared"),
        (lambda: abs(f.ce) <= f.group, InputError, "'group' is a family of 4, expected a single expression"),
        (lambda: f.group <= abs(f.group), InputError, "write abs\\(\\) on the left side"),
        (lambda: (f.group <= 1).named("a b"), InputError, "named: expected a name"),
        (lambda: objectives("ce", group=0), InputError, "group: expected the number of a family's members, found 0"),
        (lambda: objectives("ce", group=2.0), InputError, r"found 2\.0; write group=100"),
        (lambda: objectives("ce", ce=2), InputError, "names must differ, found ce"),
        (lambda: objectives("ce", families=2), InputError, "'families' is reserved"),
        (lambda: Preference(objectives("ce", group=3), [f.group <= 1]), InputError, "of a family of 4, expected the 3"),
        (lambda: Preference(objectives("ce"), [f.group <= 1]), UnknownNameError, "'group' is none of the objectives"),
        (lambda: Preference(BIG), InputError, "at most 4096 expressions, found 100001; .* minimize=f.ce"),
        (lambda: Preference(BIG, [BIG.group <= BIG.group.mean()], minimize=BIG.ce), InputError, "make the mean a loss"),
        (lambda: Preference.parse("group[7] <= 1", names=f), UnknownNameError, r"\[7\]: expected a member.*\n.*\n  \^"),
        (lambda: Preference.parse("group[0.5] <= 1", names=f), InputError, "expected the number of a member"),
        (lambda: Preference.parse("mean(ce) <= 1", names=f), InputError, r"mean\(...\) takes a family, 'ce' is a"),
        (lambda: Preference.parse("grup <= 1", names=f), UnknownNameError, "did you mean 'group'"),
    ],
)  # fmt: skip
def test_one_sentence_says_what_to_do(call, kind, words):
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, ferero.FereroError)


def test_the_objects_are_what_they_are_called():
    assert isinstance(f.group, FamilyExpression)
    assert isinstance(f.group <= 1, FamilyConstraint)
    assert repr(f.group) == "FamilyExpression(group: 4 members)"
    assert len(f.group) == 4


def test_losses_may_still_be_called_mean_or_sum():
    g = objectives("mean", "sum", group=2)
    assert str(Preference.parse("mean <= 1; sum <= 2", names=g).constraints[0]) == "mean <= 1"


# beside ratios, logarithms and levels that move -----------------------------------------------------------------


def test_a_ratio_may_name_a_member_and_a_mean():
    p = Preference(f, [f.group <= 3, f.group[1] / f.other.mean() <= 2, f.ce.log() <= 0], minimize=f.ce)
    losses = torch.ones(M, dtype=torch.float64)
    assert p.B_g[4].tolist() == dense((2, 1.0), *((place, -0.5) for place in range(5, 9)))[0]
    assert bool(p.is_satisfied(losses))
    losses[5:9] = torch.tensor([-4.0, 1.0, 1.0, 1.0])
    losses[2] = -1.0  # -1 / -0.25 is 4, and no violation of the linear row
    assert bool((p.violation(losses) <= 0).all())
    assert not bool(p.is_satisfied(losses))


def test_a_level_may_move_beside_a_family():
    p = Preference(f, [f.group <= 3, f.ce <= ferero.ramp(1.0, 0.5, steps=10), f.few >= 0.1], minimize=f.ce)
    assert p.labels_g[4] == "ce <= ramp(1, 0.5, steps=10)"
    halfway = p.at(5)
    assert halfway.b_g.tolist() == [-3.0] * 4 + [-0.75] + [0.1] * 2
    assert halfway.labels_g[4] == "ce <= 0.75"
    with pytest.raises(ContradictionError, match="at step 10 of training"):
        Preference(f, [f.group <= ferero.objectives("ce").ce, f.ce <= ferero.ramp(1, 0, steps=10), f.group >= 0.1])


@pytest.mark.parametrize("level", [ferero.ramp(1.0, 0.5, steps=10), f.ce / f.few[0], f.ce.log()], ids=str)
def test_beside_a_family_stands_what_is_linear(level):
    for compared in (
        lambda: f.group <= level,
        lambda: f.group >= level,
        lambda: f.group + level,
        lambda: abs(f.group) <= level,
    ):
        with pytest.raises(
            InputError, match=r"expected a number or a linear expression beside a family|stands alone|ratio|log"
        ):
            compared()
