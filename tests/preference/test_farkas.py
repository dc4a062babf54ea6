"""Judging each connected component alone gives the verdict of one linear program about all constraints."""

import random

import numpy as np
import pytest

from ferero.errors import ContradictionError
from ferero.preference import Preference, objectives
from ferero.preference import _farkas as farkas
from ferero.preference._consistency import check_consistent, read_linked, split
from ferero.preference._farkas import find_points, has_room, needed, read_system


def some_constraints(seed):
    """Components of one to four losses, in units of their own, mostly with a solution, in any order."""
    r = random.Random(seed)
    constraints = []
    for part in range(r.randint(1, 4)):
        f = objectives(*(f"x{part}_{j}" for j in range(r.choice([1, 1, 2, 2, 3, 4]))))
        point, scale = [r.gauss(0.7, 0.8) for _ in f], 10.0 ** r.choice([-6, -1, 0, 0, 3, 8])
        constraints += [_one(r, f, point, scale) for _ in range(r.randint(1, 6))]
    r.shuffle(constraints)
    return constraints


def _one(r, f, point, scale):
    chosen = r.sample(range(len(f)), r.randint(1, len(f)))
    coefficients = [r.choice([1, -1, 2, -0.5]) if r.random() < 0.5 else r.gauss(0, 1) for _ in chosen]
    left = sum((c * f[j] for c, j in zip(coefficients, chosen, strict=True)), start=0 * f[0])
    value = sum(c * point[j] for c, j in zip(coefficients, chosen, strict=True))
    slack = abs(r.gauss(0, 1)) * (-1 if r.random() < 0.06 else 1)
    kind = r.random()
    if kind < 0.4:
        return left <= (value + slack) * scale
    if kind < 0.8:
        return left >= (value - slack) * scale
    if kind < 0.93:
        return left == (value if r.random() < 0.9 else value + slack) * scale
    return (left <= (value + slack) * scale).with_margin(1.0)


@pytest.mark.parametrize("batch", range(6))
def test_components_and_one_program_agree(batch):
    found = [_compare(some_constraints(50 * batch + i)) for i in range(50)]
    assert 3 <= found.count("contradiction") <= 25  # both verdicts are tested


def _compare(constraints):
    """Verdict, culprits, redundancies and what no F >= 0 meets, against programs about all constraints at once."""
    whole = read_system(constraints, range(len(constraints)))
    clash = farkas.contradiction(whole)
    if clash is not None:
        with pytest.raises(ContradictionError) as caught:
            check_consistent(constraints)
        texts = _quoted(str(caught.value))
        if texts != _texts(constraints, clash):  # of two that are as bad, or bounds that are equal, either may be named
            named = sorted([constraint.text for constraint in constraints].index(text) for text in texts)
            assert farkas.contradiction(whole.only(named)).constraints == named
        return "contradiction"
    notes = check_consistent(constraints)
    candidates = [i for i, constraint in enumerate(constraints) if constraint.margin == 0]
    redundant = [_quoted(note) for note in notes if "redundant" in note]
    assert redundant == [[constraints[i].text] for i in farkas.redundant(whole, candidates)]
    unmet = [_quoted(note) for note in notes if note.startswith("no ")]
    assert sorted(unmet) == sorted(_texts(constraints, clash) for clash in farkas.unmet(whole))
    return "none"


def _quoted(sentence):
    return sentence.split("'")[1::2]


def _texts(constraints, clash):
    return [constraints[i].text for i in clash.constraints]


def test_components_share_no_loss():
    for seed in range(50):
        constraints = some_constraints(seed)
        parts = split(constraints)
        assert sorted(i for part in parts for i in part) == list(range(len(constraints)))
        names = [{name for i in part for name, _ in constraints[i].form.terms} for part in parts]
        assert sum(map(len, names)) == len(set.union(*names))


def test_points_have_room_and_do_not_call_needed_what_is_redundant():
    f = objectives("a", "b", "c")
    constraints = [f.a + f.b <= 1, 2 * f.a + 2 * f.b <= 3, f.b - f.c == 0.1, f.a >= 0.2, f.c >= 0.1, f.b >= 0.15]
    system = read_system(constraints, range(6))
    (x,) = find_points([system], nonnegative=True)
    assert has_room(system, x)
    assert (x >= 0).all()
    assert needed(system, x) == {0, 2, 3, 4}  # b >= 0.15 follows from c >= 0.1
    assert not has_room(system, np.zeros(3))


def test_no_program_is_asked_where_a_point_is_known(monkeypatch):
    f = objectives("a", "b", "c", "d")
    monkeypatch.setattr(farkas, "_certificate", None)
    monkeypatch.setattr(farkas, "_implies", None)
    bounds = [x <= 0.9 for x in f] + [x >= 0.1 for x in f]
    assert check_consistent([*bounds, abs(f.a - f.b) <= 0.1, f.c - f.d <= 0.3]) == ()
    linked = read_linked([f.a + f.b <= 1, f.a - f.b <= 1, f.a <= 0.9], [[0, 1, 2]])
    assert linked[0].point.tolist() == [0, 0]  # which has room, without any program


def test_bounds_of_one_loss_are_judged_by_their_own_size():
    f = objectives("a", "b")
    with pytest.raises(ContradictionError, match=r"both 'a <= 0\.001' and 'a >= 0\.002'"):
        Preference(f, [f.a <= 1e12, f.a <= 1e-3, f.a >= 2e-3])
    notes = Preference(f, [f.a <= -1, f.a == -2, f.b <= -1e-9, f.b >= -5]).notes
    assert notes == (
        "'a <= -1' is redundant: the other constraints imply it",
        "no non-negative losses can meet 'a == -2'",
        "no non-negative losses can meet 'a <= -1'",
        "no non-negative losses can meet 'b <= -1e-09'",
    )


def test_the_worst_of_several_contradictions_is_named():
    f = objectives("a", "b", "c")
    slight, bad = [f.a <= 1, f.a >= 1.01], [f.b + f.c <= 1, f.b >= 0.9, f.c >= 0.9]
    for constraints in ([*slight, *bad], [*bad, *slight]):
        with pytest.raises(ContradictionError, match=r"all of 'b \+ c <= 1', 'b >= 0.9' and 'c >= 0.9'"):
            Preference(f, constraints)
