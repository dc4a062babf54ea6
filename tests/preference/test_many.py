"""Two thousand constraints on a thousand losses: built at once, in time that grows with their number."""

import time

import pytest
import torch

from ferero.errors import ContradictionError
from ferero.preference import Preference, objectives


def bounds(m):
    f = objectives(*(f"x{i}" for i in range(m)))
    return f, [x <= 0.9 for x in f] + [x >= 0.1 for x in f]


def build(m):
    f, constraints = bounds(m)
    return Preference(f, constraints, minimize=f[0])


def seconds(action, *args):
    start = time.perf_counter()
    action(*args)
    return time.perf_counter() - start


def test_two_thousand_bounds_are_built_within_three_seconds():
    assert min(seconds(build, 1000) for _ in range(2)) < 3
    p = build(1000)
    assert (p.m, p.m_g, p.notes) == (1000, 2000, ())
    assert torch.equal(p.B_g, torch.cat([torch.eye(1000), -torch.eye(1000)]).double())
    assert p.b_g.tolist() == [-0.9] * 1000 + [0.1] * 1000


def test_the_time_to_build_grows_with_the_number_of_constraints():
    times = [(seconds(build, 250), seconds(build, 1000)) for _ in range(5)]
    few, many = (min(column) for column in zip(*times, strict=True))
    assert many < 9 * few  # 4 if linear, 16 if quadratic


def test_text_and_matrices_are_read_within_three_seconds():
    p = build(1000)
    text = str(p)
    assert seconds(Preference.parse, text, p.names) < 3
    assert seconds(Preference.from_matrices, p.A, p.B_g, p.b_g) < 3
    read = Preference.parse(text, p.names)
    made = Preference.from_matrices(p.A, p.B_g, p.b_g, names=p.names)
    for other in (read, made):
        assert torch.equal(other.B_g, p.B_g)
        assert torch.equal(other.b_g, p.b_g)
    assert read.labels_g == p.labels_g


def test_a_contradiction_among_many_is_named():
    f, constraints = bounds(1000)
    with pytest.raises(ContradictionError, match=r"both 'x7 <= 0\.9' and 'x7 >= 0\.95'"):
        Preference(f, [*constraints, f.x7 >= 0.95])
    total = sum(f, start=0 * f[0])
    start = time.perf_counter()
    with pytest.raises(ContradictionError, match=r"all of 'x0 >= 0.1', .*'x999 >= 0.1' and 'x0 \+ x1"):
        Preference(f, [*constraints, total <= 50])
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    "links",
    [
        lambda f: [abs(f[i] - f[i + 1]) <= 0.1 for i in range(0, len(f), 2)],
        lambda f: [f[i] - f[i + 1] <= 0.1 for i in range(len(f) - 1)],
        lambda f: [sum(f, start=0 * f[0]) <= len(f) / 2],
    ],
    ids=["pairs", "chain", "sum"],
)
def test_bounds_that_are_linked_need_few_programs(links):
    f, constraints = bounds(200)
    start = time.perf_counter()
    assert Preference(f, [*constraints, *links(f)]).notes == ()
    assert time.perf_counter() - start < 10


def test_five_hundred_equalities_that_share_no_loss():
    f = objectives(*(f"x{i}" for i in range(1000)))
    equalities = [f[i] - f[i + 1] == 0.1 for i in range(0, 1000, 2)]
    assert seconds(Preference, f, equalities) < 3
    with pytest.raises(ContradictionError, match=r"both 'x0 - x1 == 0\.1' and '2\*x0 - 2\*x1 == 0\.3'"):
        Preference(f, [*equalities, 2 * f[0] - 2 * f[1] == 0.3])
