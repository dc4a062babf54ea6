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
        (lambda: Preference(f, minimize=[f.zh, 0 * f.en + 2]), InputError, "with an objective, found '2'; remove it"),
        (lambda: Preference.parse("minimize 3; a <= 1"), InputError, "with an objective, found '3'"),
        (lambda: Preference.from_matrices(A=[[0.0, 0.0]]), ConeError, "A: expected no zero row"),
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


@settings(derandomize=True, deadline=None, max_examples=30)
@given(losses_lists, st.floats(0, 1))
def test_margins_change_no_value(F, z):
    p = Preference(f, [*wanted, abs(f.cpc - f.en) <= 5])
    given = p.with_margin(z)
    for one, other in zip(p.values(F), given.values(F), strict=True):
        assert torch.equal(one, other)
    assert bool(given.is_satisfied(F)) == bool(p.is_satisfied(F))


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
    assert torch.equal(p.margins, tensor(0, 0))
    given = p.with_margin([1.64, 0.5])
    assert torch.equal(given.margins, tensor(1.64, 0.5))
    assert torch.equal(given.with_margin(2).margins, tensor(2, 2))
    for name in ("A", "B_g", "b_g", "B_h", "b_h"):
        assert torch.equal(getattr(given, name), getattr(p, name))
    assert (given.labels_g, given.labels_h) == (p.labels_g, p.labels_h)
    assert str(given).splitlines()[1:] == [
        "subject to cpc <= 1.2 (margin 1.64 standard errors)",
        "           zh - en == 0.5",
        "           en >= 0.1 (margin 0.5 standard errors)",
    ]
    assert str(given.with_margin(0)) == str(p)
    with pytest.raises(InputError, match=r"with_margin: z must be finite and >= 0, found -1\.0"):
        p.with_margin(-1)
    with pytest.raises(InputError, match="z: expected finite numbers"):
        p.with_margin([float("nan"), 1])
    with pytest.raises(InputError, match="z: expected 2 numbers, found 3"):
        p.with_margin([1, 2, 3])
    with pytest.raises(InputError, match="only inequalities take a margin, found none"):
        Preference(f, wanted[1:2]).with_margin(0.1)


def test_margin_of_a_ray_with_a_start_keeps_the_ray():
    p = Preference.ray([1, 0], through=[1, 1])
    given = p.with_margin(0.5)
    assert torch.equal(given.ray, p.ray)
    assert torch.equal(given.through, p.through)
    assert given.margins.tolist() == [0.5]
    assert given.notes == p.notes
    assert str(given) == f"{p}\n           (F - (1, 1)) . (1, 0) >= 0 (margin 0.5 standard errors)"
    assert Preference.ray([1, 2]).margins.shape == (0,)


def test_margins_follow_their_rows():
    p = Preference(f, [f.zh == 1, (f.cpc <= 1).with_margin(2), abs(f.en) <= 1])
    q = Preference(f, (abs(f.zh - f.en) <= 3).with_margin(1))
    assert p.margins.tolist() == [2, 0, 0]
    assert (p & q).margins.tolist() == [2, 0, 0, 1, 1]
    assert (q & p).margins.tolist() == [1, 1, 2, 0, 0]
    assert (q & Preference(f, minimize=f.zh)).margins.tolist() == [1, 1]
    matrices = Preference.from_matrices(B_g=p.B_g, b_g=p.b_g, margins=p.margins)
    assert torch.equal(matrices.margins, p.margins)
    assert Preference.from_matrices(B_g=p.B_g, b_g=p.b_g, margins=3).margins.tolist() == [3, 3, 3]
    assert Preference.from_matrices(B_h=[[1, 2]], margins=Preference.pareto(2).margins).margins.shape == (0,)
    with pytest.raises(InputError, match="margins: expected 3 numbers, found 2"):
        Preference.from_matrices(B_g=p.B_g, b_g=p.b_g, margins=[1, 2])


def test_a_constraint_with_a_margin_is_not_redundant():
    bound = f.cpc <= 1
    assert Preference(f, [bound, bound]).notes == ("'cpc <= 1' is redundant: the other constraints imply it",)
    assert Preference(f, [bound.with_margin(1), bound.with_margin(2)]).notes == ()
    noted = Preference(f, [bound, bound.with_margin(2)])
    assert noted.notes == ("'cpc <= 1' is redundant: the other constraints imply it",)
    assert Preference(f, [bound, bound]).with_margin([0, 2]).notes == noted.notes
    with pytest.raises(ContradictionError, match="no losses satisfy both 'cpc <= 1' and 'cpc >= 2'; drop"):
        Preference(f, [bound.with_margin(2), f.cpc >= 2])


# quantities and places ------------------------------------------------------------------------------------


def test_quantities_are_what_is_not_minimised():
    assert Preference(f, wanted).quantities == ()
    assert Preference(f, wanted, minimize=f.zh).quantities == ("cpc", "en")
    assert Preference(f, [f.cpc <= 1], minimize=[f.zh + f.en, f.zh]).quantities == ("cpc",)
    assert Preference(f, minimize=f.zh + 0 * f.en).quantities == ("cpc", "en")
    assert Preference.from_matrices(A=[[0, 1]]).quantities == ("f1",)
    both = Preference.stack([Preference(f, minimize=f.zh), Preference(f, minimize=[f.zh, f.en])])
    assert both.quantities == ("cpc",)


TENSORS = ("A", "B_g", "b_g", "margins", "B_h", "b_h", "ray", "through")


@pytest.mark.parametrize(
    "p",
    [
        Preference(f, wanted, minimize=f.zh).with_margin(1),
        Preference.ray([1, 2], through=[0, 1]),
        Preference.pareto(2),
        Preference.stack([Preference.ray([1, 2], through=[0, 1]), Preference.ray([2, 1])]),
    ],
    ids=["constraints", "ray", "pareto", "stack"],
)
@pytest.mark.parametrize(("device", "dtype"), [(None, torch.float32), ("meta", None), ("meta", torch.bfloat16)])
def test_to_moves_every_tensor(p, device, dtype):
    moved = p.to(device, dtype)
    for new, old in zip((moved, *moved.members), (p, *p.members), strict=True):
        for name in TENSORS:
            before, after = getattr(old, name), getattr(new, name)
            assert (before is None) == (after is None)
            if before is not None:
                assert after.dtype == (dtype or torch.float64)
                assert after.device.type == (device or "cpu")
                assert after.shape == before.shape
                assert before.dtype == torch.float64
        assert (new.names, new.constraints, new.notes) == (old.names, old.constraints, old.notes)
        assert new.cone is old.cone
    assert moved.to(device, dtype) is moved
    assert p.to() is p.to("cpu") is p.to(dtype=torch.float64) is p
    assert repr(moved) == repr(p)


def test_what_is_made_of_a_moved_preference_stays_there():
    p = Preference(f, wanted).to(dtype=torch.float32)
    for made in (
        p.with_margin(1),
        p & Preference(f, f.zh <= 3),
        p & Preference(f),
        Preference.stack([p, p.to(dtype=torch.float64)]),
    ):
        assert {getattr(made, name).dtype for name in TENSORS[:6]} == {torch.float32}
    assert (p & Preference(f, f.zh <= 3)).to(dtype=torch.float64).b_g[0].item() != 1.2  # rounded, for good


def test_to_refuses():
    with pytest.raises(InputError, match=r"device: expected a device, found torch\.float32; write to\(dtype="):
        Preference(f).to(torch.float32)
    with pytest.raises(InputError, match=r"dtype: expected a floating dtype .* found torch\.int64"):
        Preference(f).to(dtype=torch.int64)


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
