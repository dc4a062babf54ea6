"""Rays, weights and lines through two points."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ferero.errors import InputError
from ferero.preference import Preference
from ferero.preference._line import complement, unit_vector

components = st.floats(-1e3, 1e3, allow_subnormal=False)
vectors = st.lists(components, min_size=1, max_size=8).filter(lambda v: max(map(abs, v)) > 1e-6)
positive = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)


def close(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@settings(derandomize=True, deadline=None)
@given(vectors)
def test_complement_is_orthonormal(v):
    unit = unit_vector(torch.tensor(v, dtype=torch.float64), "v")
    rows = complement(unit)
    m = len(v)
    assert rows.shape == (m - 1, m)
    close(rows @ rows.T, torch.eye(m - 1, dtype=torch.float64))
    close(rows @ unit, torch.zeros(m - 1, dtype=torch.float64))


@settings(derandomize=True, deadline=None)
@given(vectors, st.integers(-280, 280))
def test_same_ray_at_any_scale(v, exponent):
    scaled = np.array(v) * 10.0**exponent
    assume(bool(((scaled == 0) == (np.array(v) == 0)).all()))  # what underflows is another ray
    p, q = Preference.ray(v), Preference.ray(scaled.tolist())
    close(p.B_h, q.B_h)
    close(p.ray, q.ray)


def test_tiny_components_keep_their_digits():
    for v in ([1e-12, 1.0], [1.0, 1e-12], [1e-9, 1e-12, 1.0]):
        p = Preference.ray(v)
        terms = p.B_h * p.ray
        assert bool((terms.sum(dim=1).abs() <= 1e-15 * terms.abs().sum(dim=1)).all())


def test_basis_is_continuous_over_the_positive_orthant():
    angles = torch.linspace(0, np.pi / 2, 500, dtype=torch.float64)
    rows = torch.stack([Preference.ray([t.cos(), t.sin()]).B_h[0] for t in angles])
    assert (rows.diff(dim=0).norm(dim=1) < 0.01).all()


@settings(derandomize=True, deadline=None)
@given(vectors, st.floats(-100, 100))
def test_ray_without_start_is_the_line_through_zero(v, t):
    p = Preference.ray(v)
    assert p.m_g == 0
    assert p.through is None
    assert torch.equal(p.b_h, torch.zeros(len(v) - 1, dtype=torch.float64))
    assert bool(p.is_satisfied(t * p.ray, atol=1e-9))


@settings(derandomize=True, deadline=None)
@given(vectors, st.floats(0.01, 100), st.data())
def test_ray_with_start_is_a_half_line(v, t, data):
    start = data.draw(st.lists(components, min_size=len(v), max_size=len(v)))
    p = Preference.ray(v, through=start)
    origin = torch.tensor(start, dtype=torch.float64)
    assert p.m_g == 1
    close(p.B_g[0], -p.ray)
    close(p.through, origin)
    assert bool(p.is_satisfied(origin + t * p.ray))
    assert not p.is_satisfied(origin - t * p.ray)
    close(p.values(origin - t * p.ray)[0][0], torch.tensor(t, dtype=torch.float64), 1e-9)


@settings(derandomize=True, deadline=None)
@given(vectors, st.data())
def test_distance_to_the_line_is_the_norm_of_H(v, data):
    m = len(v)
    F = torch.tensor(data.draw(st.lists(components, min_size=m, max_size=m)), dtype=torch.float64)
    p = Preference.ray(v)
    away = F - (F @ p.ray) * p.ray
    close(p.values(F)[1].norm(), away.norm(), 1e-9)


@settings(derandomize=True, deadline=None)
@given(positive, st.floats(0.1, 10))
def test_weights_make_products_equal(w, t):
    p = Preference.from_weights(w)
    weights = torch.tensor(w, dtype=torch.float64)
    F = t / weights
    assert bool(p.is_satisfied(F / F.max(), atol=1e-9))
    close(p.ray, (1 / weights) / (1 / weights).norm())
    close(p.ray.norm(), torch.tensor(1.0, dtype=torch.float64))


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 6), st.floats(-5, 5), st.data())
def test_between_holds_on_the_whole_line(m, t, data):
    points = st.lists(st.floats(-10, 10), min_size=m, max_size=m)
    a, b = (torch.tensor(data.draw(points), dtype=torch.float64) for _ in range(2))
    assume(float((a - b).abs().max()) > 1e-3)
    p = Preference.between(a, b)
    assert p.m_g == 0
    assert bool(p.is_satisfied(a + t * (b - a), atol=1e-9))
    close(p.ray, (b - a) / (b - a).norm(), 1e-9)
    assert torch.equal(p.through, a)


def test_one_objective():
    p = Preference.ray([1.0])
    assert p.B_h.shape == (0, 1)
    assert p.ray.tolist() == [1.0]
    assert Preference.ray([-2.0], through=[1.0]).B_g.tolist() == [[1.0]]


def test_permuting_the_vector_permutes_the_projector():
    v, order = torch.tensor([1.0, 2.0, 5.0]), [2, 0, 1]
    p, q = Preference.ray(v), Preference.ray(v[order])
    close((p.B_h.T @ p.B_h)[order][:, order], q.B_h.T @ q.B_h)


def test_text_and_labels():
    p = Preference.ray([1, 2])
    assert str(p) == "minimize f1, f2\nsubject to F along (0.45, 0.89)"
    assert p.labels_h == ("F along (0.45, 0.89)",)
    q = Preference.ray([1, 2], through=[0, 0.5])
    assert str(q) == "minimize f1, f2\nsubject to F - (0, 0.5) along (0.45, 0.89)"
    assert q.labels_g == ("(F - (0, 0.5)) . (0.45, 0.89) >= 0",)
    assert "F on the line through (1, 0) and (0, 1)" in str(Preference.between([1, 0], [0, 1]))
    assert str(Preference.ray([1, 2, 3])).count("along") == 1


def test_notes():
    assert Preference.ray([1, 0]).notes == ()
    assert "no non-negative losses other than 0 lie along (0.71, -0.71)" in Preference.ray([1, -1]).notes[0]
    assert Preference.ray([1, -1], through=[0, 1]).notes == ()
    assert "no non-negative losses can meet" in Preference.ray([-1, 0], through=[-1, 0]).notes[0]
    assert "no non-negative losses can meet" in Preference.ray([1, 0], through=[0, -1]).notes[0]
    assert "no non-negative losses can meet" in Preference.between([-1, 0], [0, -1]).notes[0]
    assert Preference.between([2, -1], [-1, 2]).notes == ()


def test_inputs_untouched():
    v, start = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    p = Preference.ray(v, through=start)
    p.ray.zero_()
    p.through.zero_()
    assert v.tolist() == [1, 2]
    assert start.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Preference.ray([0.0, 0.0]), "vector: expected a direction, found all zeros"),
        (lambda: Preference.ray([1.0, float("inf")]), "vector: expected finite numbers"),
        (lambda: Preference.ray([]), r"vector: expected a vector \(m,\), found shape \(0,\)"),
        (lambda: Preference.ray([[1.0, 2.0]]), r"found shape \(1, 2\)"),
        (lambda: Preference.ray("ab"), "vector: expected"),
        (lambda: Preference.ray([1, 2], through=[1]), "through: expected 2 numbers, found 1"),
        (lambda: Preference.ray([1, 2], names=["a"]), "names: expected 2, found 1"),
        (lambda: Preference.from_weights([1.0, 0.0]), r"w: expected positive weights, found \[1.0, 0.0\]"),
        (lambda: Preference.from_weights([1.0, -1.0]), "w: expected positive weights"),
        (lambda: Preference.between([1, 2], [1, 2]), "expected two different points"),
        (lambda: Preference.between([1, 2], [1, 2, 3]), "b: expected 2 numbers, found 3"),
    ],
)
def test_refusals(make, text):
    with pytest.raises(InputError, match=text):
        make()
