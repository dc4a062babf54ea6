"""The preference as a whole: its matrices, what it says of losses, its text."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import ConeError, ContradictionError, InputError, UnknownNameError
from ferero.geometry import Cone
from ferero.preference import Preference, objectives

f = objectives("cpc", "zh", "en")
wanted = [f.cpc <= 1.2, f.zh - f.en == 0.5, f.en >= 0.1]


def tensor(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_rows_as_written_in_order():
    p = Preference(f, wanted)
    assert torch.equal(p.B_g, tensor([1, 0, 0], [0, 0, -1]))
    assert torch.equal(p.b_g, tensor(-1.2, 0.1))
    assert torch.equal(p.B_h, tensor([0, 1, -1]))
    assert torch.equal(p.b_h, tensor(-0.5))
    assert torch.equal(p.A, torch.eye(3, dtype=torch.float64))
    assert (p.m, p.m_g, p.m_h, p.batch_shape, p.members) == (3, 2, 1, (), ())
    assert (p.labels_g, p.labels_h) == (("cpc <= 1.2", "en >= 0.1"), ("zh - en == 0.5",))
    assert p.cone is None
    assert p.ray is None
    assert p.through is None
    assert p.notes == ()
    assert not torch.signbit(p.B_g[p.B_g == 0]).any()


def test_empty_matrices_keep_their_shape():
    p = Preference.pareto(3)
    assert p.B_g.shape == p.B_h.shape == (0, 3)
    assert p.b_g.shape == p.b_h.shape == (0,)
    assert p.names == ("f1", "f2", "f3")
    assert p.violation(torch.rand(5, 3)).shape == (5, 0)
    assert bool(p.is_satisfied([1.0, 2.0, 3.0]))


def test_print_reads_as_written():
    p = Preference(f, [f.cpc <= 1.2, f.zh - f.en == 0.5, abs(f.zh) <= 2])
    assert str(p) == "minimize cpc, zh, en\nsubject to cpc <= 1.2\n           zh - en == 0.5\n           abs(zh) <= 2"
    assert repr(p) == "Preference(cpc, zh, en: 3 inequalities, 1 equality)"
    assert str(Preference.pareto(2)) == "minimize f1, f2"
    assert str(Preference(f, f.cpc <= 1, minimize=f.zh + f.en)) == "minimize zh + en\nsubject to cpc <= 1"
    assert "with respect to Cone" in str(Preference.pareto(2, cone=Cone.orthant(2)))


def test_minimize_makes_the_order():
    p = Preference(f, [f.cpc <= 1], minimize=[f.zh + f.en + 7, 3 * f.zh])
    assert torch.equal(p.A, tensor([0, 1, 1], [0, 3, 0]))  # as written
    assert p.cone is not None
    torch.testing.assert_close(p.cone.matrix, tensor([0, 0.5**0.5, 0.5**0.5], [0, 1, 0]))
    single = Preference(f, minimize=f.zh)
    assert torch.equal(single.A, tensor([0, 1, 0]))


def test_cone_is_kept():
    cone = Cone([[1.0, 2.0], [2.0, 1.0]])
    p = Preference.ray([1.0, 1.0], cone=cone)
    assert p.cone is cone
    assert torch.equal(p.A, cone.matrix)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: Preference(f, minimize=f.zh, cone=Cone.orthant(3)),
            InputError,
            "minimize, cone: expected one",
        ),
        (
            lambda: Preference(f, minimize=f.zh - f.zh),
            InputError,
            "an expression with an objective, found '0'",
        ),
        (lambda: Preference(f, minimize=[]), InputError, "minimize: expected an expression, found none"),
        (lambda: Preference(f, minimize=abs(f.zh)), InputError, r"found abs\(zh\) \(AbsExpression\)"),
        (lambda: Preference(f, minimize=3.0), InputError, r"found 3.0 \(float\)"),
        (lambda: Preference(f, minimize=[f.zh, -f.zh]), ConeError, "interior"),
        (lambda: Preference(f, cone=Cone.orthant(2)), InputError, "cone: expected m = 3 .*found m = 2"),
        (lambda: Preference(f, cone=np.eye(3)), InputError, r"expected a ferero.Cone, found ndarray"),
        (lambda: Preference(f, [f.zh]), InputError, r"constraints\[0\]: expected a comparison .* found zh"),
        (lambda: Preference(f, [f.zh <= 1, True]), InputError, r"constraints\[1\].*found True"),
        (lambda: Preference(f, [objectives("zz").zz <= 1]), UnknownNameError, r"'zz' is none .*cpc, zh, en"),
        (lambda: Preference(f, minimize=objectives("zz").zz), UnknownNameError, "'zz' is none"),
        (
            lambda: Preference(f, 1e308 * f.zh >= -1e308 * f.zh),
            InputError,
            "not finite after left minus right",
        ),
        (lambda: Preference("cpc"), InputError, "names: expected ferero.objectives"),
        (lambda: Preference(7), InputError, r"found 7 \(int\)"),
        (lambda: Preference.pareto(0), InputError, "m: expected .* found 0"),
        (lambda: Preference.pareto(2.5), InputError, "m: expected .* found 2.5"),
        (lambda: Preference.pareto(2, names=["a"]), InputError, r"names: expected 2, found 1 \(a\)"),
    ],
)
def test_bad_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


# losses ---------------------------------------------------------------------------------------------------

losses_lists = st.lists(st.floats(-10, 10), min_size=3, max_size=3)


@settings(derandomize=True, deadline=None)
@given(losses_lists)
def test_violation_is_what_the_words_say(F):
    p = Preference(f, wanted)
    cpc, zh, en = F
    expected = [max(cpc - 1.2, 0), max(0.1 - en, 0), abs(zh - en - 0.5)]
    np.testing.assert_allclose(p.violation(F), expected, atol=1e-14)
    assert bool(p.is_satisfied(F)) == (max(expected) <= 1e-6)


@settings(derandomize=True, deadline=None)
@given(losses_lists, st.permutations(range(3)))
def test_permuting_names_permutes_columns_only(F, order):
    p = Preference(f, wanted)
    q = Preference([f.names[i] for i in order], wanted)
    assert torch.equal(q.B_g, p.B_g[:, order])
    assert torch.equal(q.B_h, p.B_h[:, order])
    torch.testing.assert_close(q.violation([F[i] for i in order]), p.violation(F))


@settings(derandomize=True, deadline=None)
@given(losses_lists, st.floats(0, 1))
def test_margins_tighten_by_exactly_z(F, z):
    p = Preference(f, [*wanted, abs(f.cpc - f.en) <= 5])
    (G, H), (G_tight, H_tight) = p.values(F), p.with_margin(z).values(F)
    torch.testing.assert_close(G_tight, G + z)
    assert torch.equal(H_tight, H)


@pytest.mark.parametrize(
    ("dtype", "computed"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.int64, torch.float64),
    ],
)
def test_dtypes(dtype, computed):
    losses = torch.ones(2, 4, 3, dtype=dtype)
    G, H = Preference(f, wanted).values(losses)
    assert G.dtype == H.dtype == computed
    assert (G.shape, H.shape) == ((2, 4, 2), (2, 4, 1))
    assert torch.equal(losses, torch.ones(2, 4, 3, dtype=dtype))
    assert Preference(f, wanted).is_satisfied(losses).shape == (2, 4)


def test_numpy_and_lists():
    p = Preference(f, wanted)
    assert p.violation(np.ones(3, dtype=np.float32)).dtype == torch.float32
    assert p.violation(np.ones(3)).dtype == torch.float64
    assert p.violation([1, 1, 1]).dtype == torch.float64


def test_values_keep_the_graph():
    losses = torch.ones(3, requires_grad=True)
    Preference(f, wanted).values(losses)[1].sum().backward()
    assert losses.grad is not None
    assert losses.grad.tolist() == [0, 1, -1]


def test_losses_of_the_wrong_size():
    for bad in (torch.ones(2), torch.tensor(1.0), np.ones((3, 4))):
        with pytest.raises(InputError, match=r"losses: expected shape \(\.\.\., 3\), found"):
            Preference(f, wanted).violation(bad)


def test_nan_is_never_satisfied():
    assert not Preference(f, wanted).is_satisfied([float("nan"), 1.0, 0.5])


# combinations ---------------------------------------------------------------------------------------------


def test_and_concatenates():
    p, q = Preference(f, wanted[:1]), Preference(f, wanted[1:], minimize=f.zh)
    both = p & q
    assert both.constraints == tuple(wanted)
    assert torch.equal(both.A, q.A)
    assert both.minimized == q.minimized
    measured = objectives("cpc", "zh", "en", measured=("en",))
    assert (p & Preference(measured)).measured == ("en",)


def test_and_with_nothing_keeps_the_ray():
    p = Preference.ray([1, 2])
    assert (p & Preference.pareto(2)).ray is not None
    assert (Preference.pareto(2) & p).ray is not None
    g = objectives("f1", "f2")
    mixed = p & Preference(g, g.f1 <= 1)
    assert mixed.ray is None
    assert str(mixed) == "minimize f1, f2\nsubject to F along (0.45, 0.89)\n           f1 <= 1"


def test_and_refuses():
    with pytest.raises(InputError, match="&: expected the same names"):
        Preference(f) & Preference.pareto(3)
    with pytest.raises(InputError, match="&: expected the same cone"):
        Preference(f, minimize=f.zh) & Preference(f, minimize=f.en)
    with pytest.raises(ContradictionError, match="both 'zh <= 1' and 'zh >= 2'"):
        Preference(f, f.zh <= 1) & Preference(f, f.zh >= 2)
    with pytest.raises(TypeError):
        Preference(f) & 3


def test_margins_of_a_preference():
    p = Preference(f, wanted, minimize=f.zh)
    tight = p.with_margin([0.1, 0.2])
    torch.testing.assert_close(tight.b_g, p.b_g + tensor(0.1, 0.2))
    assert torch.equal(tight.A, p.A)
    assert str(p.with_margin(0.5)).splitlines()[1:] == [
        "subject to cpc <= 0.7",
        *str(p).splitlines()[2:3],
        "           en >= 0.6",
    ]
    with pytest.raises(InputError, match="z: expected 2 numbers, found 3"):
        p.with_margin([1, 2, 3])
    with pytest.raises(InputError, match="only inequalities take a margin, found none"):
        Preference(f, wanted[1:2]).with_margin(0.1)


def test_margin_of_a_ray_with_a_start_keeps_the_ray():
    p = Preference.ray([1, 0], through=[1, 1])
    tight = p.with_margin(0.5)
    assert torch.equal(tight.ray, p.ray)
    assert bool(tight.is_satisfied([1.5, 1.0]))
    assert not tight.is_satisfied([1.4, 1.0])


# matrices -------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 10**6))
def test_from_matrices_keeps_them_exactly(m, k, seed):
    generator = torch.Generator().manual_seed(seed)
    B_g = torch.randn(k, m, generator=generator, dtype=torch.float64)
    inside = torch.randn(m, generator=generator, dtype=torch.float64)
    b_g = -B_g @ inside - 0.1  # consistent by construction
    p = Preference.from_matrices(B_g=B_g, b_g=b_g)
    assert torch.equal(p.B_g, B_g)
    assert torch.equal(p.b_g, b_g)
    assert p.B_h.shape == (0, m)
    assert bool(p.is_satisfied(inside))


def test_from_matrices_order_and_names():
    p = Preference.from_matrices(A=[[3, 0], [0, 2]], B_h=[[1, -2]], names=["a", "b"])
    assert torch.equal(p.A, tensor([3, 0], [0, 2]))
    assert p.cone is not None
    assert torch.equal(p.cone.matrix, torch.eye(2, dtype=torch.float64))
    assert p.labels_h == ("a - 2*b == 0",)
    assert torch.equal(p.b_h, torch.zeros(1, dtype=torch.float64))


def test_from_matrices_takes_padding():
    p = Preference.from_matrices(B_g=[[0, 0], [1, 0]], b_g=[-1, -2])
    assert p.m_g == 2
    assert p.notes == ("'0 <= 1' contains no objective and always holds",)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "expected A, B_g or B_h, found none; use pareto"),
        ({"b_g": [1]}, "b_g: expected B_g beside it"),
        ({"B_g": [[1, 2]], "b_g": [1, 2]}, "b_g: expected 1 numbers, found 2"),
        ({"B_g": [1, 2]}, r"B_g: expected a matrix \(k, m\), found shape \(2,\)"),
        ({"B_h": np.zeros((2, 2, 2))}, "use Preference.stack"),
        ({"B_g": [[1, 2]], "B_h": [[1, 2, 3]]}, "2 in B_g, 3 in B_h"),
        ({"A": np.eye(3), "B_h": [[1, 2]]}, "2 in B_h, 3 in A"),
        ({"A": np.eye(2), "cone": Cone.orthant(2)}, "A, cone: expected one of them"),
        ({"B_g": [[float("nan"), 1]]}, "B_g: expected finite numbers"),
        ({"B_g": [["x", "y"]]}, "B_g: expected"),
    ],
)
def test_from_matrices_refuses(arguments, text):
    with pytest.raises(InputError, match=text):
        Preference.from_matrices(**arguments)


# an immutable value ---------------------------------------------------------------------------------------


def test_frozen():
    p = Preference.ray([1, 2])
    for name in ("A", "ray", "names"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(p, name, None)


def test_inputs_are_copied():
    B, cone = torch.ones(1, 2, dtype=torch.float64), Cone.orthant(2)
    p = Preference.from_matrices(B_g=B, b_g=[-1.0], cone=cone)
    p.B_g.mul_(2)
    p.A.mul_(2)
    assert torch.equal(B, torch.ones(1, 2, dtype=torch.float64))
    assert torch.equal(cone.matrix, torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("p", [Preference(f, wanted), Preference.ray([1, 2], through=[0, 1])], ids=str)
def test_copies_and_pickle(p):
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert str(other) == str(p)
        assert torch.equal(other.B_h, p.B_h)
        assert (other.ray is None) == (p.ray is None)


def test_forty_and_one():
    assert Preference.ray(torch.arange(1.0, 41)).m_h == 39
    one = objectives("only")
    p = Preference(one, [one.only <= 1])
    assert p.B_g.tolist() == [[1.0]]
