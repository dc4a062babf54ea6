"""What every method must do, whatever it is for; a new method joins by one line in CASES."""

import dataclasses
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import ferero
from ferero.errors import FereroError, InputError, NonFiniteError
from ferero.methods import Method, Observation
from ferero.preference import Preference

M = 3
DTYPES = [torch.float32, torch.float64]


def pareto(ray: torch.Tensor) -> Preference:
    return Preference.pareto(len(ray))


def shifted(ray: torch.Tensor) -> Preference:
    return Preference.ray(ray, through=0.01 * ray.flip(0))


def constrained(ray: torch.Tensor) -> Preference:
    """Every kind at once: an inequality on each loss, and the ray."""
    return Preference.ray(ray) & Preference.from_matrices(B_g=torch.eye(len(ray)), b_g=-torch.ones(len(ray)))


def as_ratios(ray: torch.Tensor) -> Preference:
    """No loss is more than 1.2 times its share of all of them."""
    f = ferero.objectives(*(f"f{i + 1}" for i in range(len(ray))))
    total = sum(f, start=0.1)
    return Preference(f, [own / total <= 1.2 * float(share / ray.sum()) for own, share in zip(f, ray, strict=True)])


def moving(ray: torch.Tensor) -> Preference:
    """Bounds that tighten within three steps."""
    f = ferero.objectives(*(f"f{i + 1}" for i in range(len(ray))))
    return Preference(f, [own <= ferero.ramp(1.0, float(end), steps=3) for own, end in zip(f, ray, strict=True)])


def family(ray: torch.Tensor) -> Preference:
    """A bound on every member of a family, whose members are all the losses."""
    f = ferero.objectives(group=len(ray))
    return Preference(f, [f.group <= float(ray.sum()), f.group >= f.group.mean() - 2])


class Case(NamedTuple):
    method: Method[Any]
    wanted: Callable[[torch.Tensor], Preference]
    tolerance: float = 1e-9  # of its solver
    is_symmetric: bool = True  # False: other vectors take part, and are not permuted here


CASES = {
    "Ferero": Case(ferero.Ferero(bound=10.0), constrained, 1e-6),
    "Ferero batched": Case(ferero.Ferero(bound=10.0, solver="batched"), Preference.ray, 1e-6),
    "FereroSA": Case(ferero.FereroSA(gamma=0.02), Preference.ray),
    "FereroSA simplex": Case(ferero.FereroSA(gamma=0.02, domain="simplex", bound=10.0), constrained),
    "FereroPI": Case(ferero.FereroPI(), constrained),
    "FereroPI ratios": Case(ferero.FereroPI(), as_ratios),
    "FereroPI moving": Case(ferero.FereroPI(), moving),
    "Ferero family": Case(ferero.Ferero(bound=10.0), family, 1e-6),
    "FereroSA family": Case(ferero.FereroSA(gamma=0.02), family),
    "FereroPI family": Case(ferero.FereroPI(), family),
    "FereroQG": Case(ferero.FereroQG(), Preference.ray, 1e-5),
    "LinearScalarization": Case(ferero.LinearScalarization(), Preference.ray),
    "Tchebycheff": Case(ferero.Tchebycheff(), shifted),
    "Tchebycheff tracked": Case(ferero.Tchebycheff(ideal="tracked"), Preference.ray),
    "SmoothTchebycheff": Case(ferero.SmoothTchebycheff(), shifted),
    "MGDA": Case(ferero.MGDA(), pareto, 1e-6),
    "MGDA loss+": Case(ferero.MGDA(normalize="loss+"), pareto, 1e-6),
    "MGDA batched": Case(ferero.MGDA(solver="batched"), pareto, 1e-6),
    "PMTL": Case(ferero.PMTL(), Preference.ray, 1e-6, is_symmetric=False),
    "PMTL batched": Case(ferero.PMTL(solver="batched"), Preference.ray, 1e-6, is_symmetric=False),
    "EPO": Case(ferero.EPO(), Preference.ray, 1e-6),
    "EPO batched": Case(ferero.EPO(solver="batched"), Preference.ray, 1e-6),
    "WCMGDA": Case(ferero.WCMGDA(), Preference.ray, 1e-5),
    "WCMGDA batched": Case(ferero.WCMGDA(solver="batched"), Preference.ray, 1e-5),
    "XWCMGDA": Case(ferero.XWCMGDA(), shifted, 1e-5),
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def rays(count: int, m: int = M, seed: int = 5) -> torch.Tensor:
    return 0.2 + torch.rand(count, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def observe(m: int = M, batch: tuple[int, ...] = (), seed: int = 0, dtype: torch.dtype = torch.float64) -> Observation:
    generator = torch.Generator().manual_seed(seed)
    F = 0.2 + torch.rand(*batch, m, generator=generator, dtype=torch.float64)
    J = torch.randn(*batch, m, m + 2, generator=generator, dtype=torch.float64)
    slopes = -0.3 * torch.rand(*batch, m, generator=generator, dtype=torch.float64)
    return Observation(*(part.to(dtype) for part in (F, J @ J.mT, slopes)))


def one_of(observation: Observation, *index: int) -> Observation:
    return Observation(*(getattr(observation, name)[index] for name in ("losses", "gramian", "slopes")))


def run(method: Method[Any], preference: Preference, seen: list[Observation]) -> list[torch.Tensor]:
    state, weights = method.init(preference), []
    for observation in seen:
        decision, state = method.update(preference, observation, state)
        weights.append(decision.weights)
    return weights


def assert_near(found: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance * max(1.0, float(wanted.abs().max())))


# what goes in and what comes out -----------------------------------------------------------------------


@every
@pytest.mark.parametrize("m", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_weights_are_finite_and_like_the_losses(case: Case, m: int, dtype: torch.dtype) -> None:
    preference = case.wanted(rays(1, m)[0])
    for weights in run(case.method, preference, [observe(m, seed=seed, dtype=dtype) for seed in range(3)]):
        assert weights.shape == (m,)
        assert weights.dtype == dtype
        assert bool(weights.isfinite().all())
        assert bool((weights != 0).any())


@every
def test_single_precision_agrees_with_double(case: Case) -> None:
    preference, seen = case.wanted(rays(1)[0]), [observe(seed=seed, dtype=torch.float32) for seed in range(2)]
    wide = [Observation(*(getattr(o, name).double() for name in ("losses", "gramian", "slopes"))) for o in seen]
    for found, wanted in zip(run(case.method, preference, seen), run(case.method, preference, wide), strict=True):
        assert_near(found.double(), wanted, 1e-4)


@every
def test_a_stack_equals_a_loop(case: Case) -> None:
    members = [case.wanted(ray) for ray in rays(4)]
    seen = [observe(batch=(4,), seed=seed) for seed in range(3)]
    together = run(case.method, Preference.stack(members), seen)
    for i, member in enumerate(members):
        alone = run(case.method, member, [one_of(observation, i) for observation in seen])
        for found, wanted in zip(together, alone, strict=True):
            assert_near(found[i], wanted, case.tolerance)


@every
def test_leading_dimensions_equal_a_loop(case: Case) -> None:
    preference, seen = case.wanted(rays(1)[0]), [observe(batch=(2, 3), seed=seed) for seed in range(3)]
    together = run(case.method, preference, seen)
    for i in range(2):
        for j in range(3):
            alone = run(case.method, preference, [one_of(observation, i, j) for observation in seen])
            for found, wanted in zip(together, alone, strict=True):
                assert found.shape == (2, 3, M)
                assert_near(found[i, j], wanted, case.tolerance)


@every
def test_leading_dimensions_before_a_stack(case: Case) -> None:
    members = [case.wanted(ray) for ray in rays(3)]
    seen = [observe(batch=(2, 3), seed=seed) for seed in range(2)]
    together = run(case.method, Preference.stack(members), seen)
    for i in range(2):
        for j, member in enumerate(members):
            alone = run(case.method, member, [one_of(observation, i, j) for observation in seen])
            for found, wanted in zip(together, alone, strict=True):
                assert_near(found[i, j], wanted, case.tolerance)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_symmetric])
def test_permuting_the_losses_permutes_the_weights(name: str) -> None:
    case = CASES[name]
    order, ray = torch.tensor([2, 0, 1]), rays(1)[0]
    seen = [observe(seed=seed) for seed in range(3)]
    permuted = [Observation(o.losses[order], o.gramian[order][:, order], o.slopes[order]) for o in seen]
    wanted = case.wanted if case.wanted is not shifted else lambda r: Preference.ray(r, through=torch.full((M,), 0.01))
    straight = run(case.method, wanted(ray), seen)
    for found, expected in zip(run(case.method, wanted(ray[order]), permuted), straight, strict=True):
        assert_near(found, expected[order], 10 * case.tolerance)


@every
def test_nothing_passed_in_is_changed(case: Case) -> None:
    preference, observation = case.wanted(rays(1)[0]), observe()
    _, state = case.method.update(preference, observation, case.method.init(preference))
    tensors = [observation.losses, observation.gramian, observation.slopes, *tensors_of(state).values()]
    tensors += [preference.A, preference.B_g, preference.B_h]
    before = [tensor.clone() for tensor in tensors]
    case.method.update(preference, observation, state)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, before, strict=True))


@every
def test_the_same_twice(case: Case) -> None:
    preference, seen = case.wanted(rays(1)[0]), [observe(seed=seed) for seed in range(3)]
    again = run(case.method, preference, seen)
    assert all(torch.equal(a, b) for a, b in zip(run(case.method, preference, seen), again, strict=True))


# state ---------------------------------------------------------------------------------------------------


def tensors_of(state: Any) -> dict[str, torch.Tensor]:
    """A state is a frozen dataclass of tensors, so that it can live in buffers."""
    fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    assert all(isinstance(value, torch.Tensor) for value in fields.values())
    return fields


@every
def test_the_state_survives_a_file(case: Case) -> None:
    preference = case.wanted(rays(1)[0])
    state = case.method.init(preference)
    for seed in range(2):
        _, state = case.method.update(preference, observe(seed=seed), state)
    file = io.BytesIO()
    torch.save(tensors_of(state), file)
    file.seek(0)
    loaded = type(state)(**torch.load(file, weights_only=True))
    expected, _ = case.method.update(preference, observe(seed=2), state)
    found, _ = case.method.update(preference, observe(seed=2), loaded)
    assert torch.equal(found.weights, expected.weights)


@every
def test_the_state_keeps_its_shapes_and_types(case: Case) -> None:
    """Or buffers and captured graphs could not hold it."""
    preference = case.wanted(rays(1)[0])
    first = tensors_of(case.method.init(preference))
    _, state = case.method.update(preference, observe(), case.method.init(preference))
    later = tensors_of(state)
    assert {name: (t.shape, t.dtype) for name, t in first.items()} == {n: (t.shape, t.dtype) for n, t in later.items()}


# hard and bad input --------------------------------------------------------------------------------------


@every
def test_zero_gradients(case: Case) -> None:
    preference, F = case.wanted(rays(1)[0]), observe().losses
    still = Observation(F, torch.zeros(M, M), torch.zeros(M))
    for weights in run(case.method, preference, [still, still, still]):
        assert bool(weights.isfinite().all())


@every
@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_gradients_of_any_size(case: Case, size: float) -> None:
    preference, o = case.wanted(rays(1)[0]), observe()
    scaled = Observation(o.losses, size**2 * o.gramian, size**2 * o.slopes)
    for weights in run(case.method, preference, [scaled, scaled]):
        assert bool(weights.isfinite().all())
        assert bool((weights != 0).any())


@every
def test_two_losses_that_are_the_same(case: Case) -> None:
    ray, o = torch.ones(M).double(), observe()
    twice = Observation(*(torch.stack([x[0], x[0], x[2]]) for x in (o.losses, o.gramian, o.slopes)))
    K = twice.gramian.clone()
    K[:, 1] = K[:, 0]
    K = (K + K.T) / 2
    for weights in run(case.method, case.wanted(ray), [Observation(twice.losses, K, twice.slopes)] * 2):
        assert bool(weights.isfinite().all())


@every
def test_what_is_missing_is_named(case: Case) -> None:
    preference, method = case.wanted(rays(1)[0]), case.method
    _, state = method.update(preference, observe(), method.init(preference))
    whole = observe()
    for part in sorted(method.requires - {"losses"}):
        without = Observation(whole.losses, **{p: getattr(whole, p) for p in ("gramian", "slopes") if p != part})
        with pytest.raises(InputError, match=f"observation: .* reads {part}, found None; pass Observation"):
            method.update(preference, without, state)


@every
def test_another_number_of_losses_is_refused(case: Case) -> None:
    preference = case.wanted(rays(1)[0])
    with pytest.raises(InputError, match="losses: expected shape"):
        case.method.update(preference, observe(M + 1), case.method.init(preference))


@every
@pytest.mark.parametrize("part", ["losses", "gramian", "slopes"])
def test_what_is_not_finite_is_refused(case: Case, part: str) -> None:
    method, preference = case.method, case.wanted(rays(1)[0])
    if part not in method.requires:
        return
    _, state = method.update(preference, observe(), method.init(preference))
    parts = {name: getattr(observe(), name).clone() for name in ("losses", "gramian", "slopes")}
    parts[part].reshape(-1)[0] = torch.nan
    with pytest.raises(NonFiniteError, match=part):
        method.update(preference, Observation(**parts), state)


# what a method says of itself ---------------------------------------------------------------------------


@every
def test_it_is_plain_data(case: Case) -> None:
    method = case.method
    assert dataclasses.is_dataclass(method)
    assert isinstance(hash(method), int)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.requires = frozenset()  # type: ignore[misc]
    assert "losses" in method.requires
    assert method.requires <= {"losses", "gramian", "slopes"}


@every
def test_its_docstring_is_its_rule(case: Case) -> None:
    text = type(case.method).__doc__ or ""
    for word in ("Cost:", "nderstands", "Choose it", "Args:", "Example:"):
        assert word in text, f"{type(case.method).__name__}: {word}"


@every
def test_it_understands_what_it_is_for_and_says_what_it_does_not(case: Case) -> None:
    ray = rays(1)[0]
    assert case.method.understands(case.wanted(ray)) is None
    assert case.method.understands(Preference.stack([case.wanted(ray)] * 2)) is None
    f = ferero.objectives("a", "b", "c")
    odd = [
        Preference(f, [f.a <= 0.5, f.b - f.c == 0.1]),
        Preference.ray(ray, through=0.1 * ray),
        Preference.ray(ray, cone=ferero.Cone.orthant(3).allowing_ascent([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])),
        Preference(f, minimize=[f.a + f.b, f.c]),
    ]
    for preference in odd:
        refusal = case.method.understands(preference)
        assert refusal is None or (refusal.startswith(type(case.method).__name__) and refusal.endswith("."))


def test_every_public_method_is_here() -> None:
    public = [getattr(ferero, name) for name in ferero.__all__]
    methods = {cls for cls in public if isinstance(cls, type) and hasattr(cls, "update") and hasattr(cls, "requires")}
    assert methods == {type(case.method) for case in CASES.values()}


# one word changes ----------------------------------------------------------------------------------------


def two_hills(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])


@every
@pytest.mark.slow
def test_it_runs_in_minimize_and_trace(case: Case) -> None:
    ray = torch.tensor([1.0, 1.5], dtype=torch.float64)
    preference = case.wanted(ray)
    if preference.m_g:  # thresholds at 1 are out of reach here
        preference = shifted(ray) if case.wanted is shifted else Preference.ray(ray)
    start = torch.tensor([0.7, 0.2, -0.3], dtype=torch.float64)
    r = ferero.minimize(two_hills, start, preference, method=case.method, step=0.02, max_iter=300)
    assert bool(torch.isfinite(r.losses).all())
    assert float(r.kkt.stationarity) <= 0.2
    front = ferero.trace(two_hills, start, [preference, preference], method=case.method, step=0.02, max_iter=300)
    torch.testing.assert_close(front.losses[1], r.losses, rtol=1e-6, atol=1e-6)


@every
def test_it_trains_by_changing_one_word(case: Case) -> None:
    ray = torch.tensor([1.0, 1.5], dtype=torch.float64)
    preference = case.wanted(ray)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1, bias=False).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def losses(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        theta = model.weight[0] + 0.0 * batch.mean()
        return two_hills(theta)

    stepper = ferero.Stepper(model, losses, preference, optimizer, method=case.method)
    for _ in range(150):
        out = stepper.step(torch.zeros(4, 1, dtype=torch.float64))
    assert not out.skipped
    assert bool(out.losses.isfinite().all())
    assert float(out.losses.sqrt().sum()) <= 1.05 * 2 * 3**0.5  # the hills' distance: what remains of it is the front


@every
def test_values_alone_are_enough_for_steer_or_it_says_so(case: Case) -> None:
    preference = case.wanted(rays(1)[0])
    if case.method.requires == {"losses"}:
        theta = torch.tensor([0.5, 0.2, 0.1], dtype=torch.float64, requires_grad=True)
        ferero.Steer(preference, method=case.method)(1 + theta.square()).backward()
        assert theta.grad is not None
    else:
        with pytest.raises(FereroError, match=r"ferero\.Stepper"):
            ferero.Steer(preference, method=case.method)
