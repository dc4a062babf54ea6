"""TorchJD's aggregators as our methods, and our methods as its weightings."""

import pytest
import torch
from torchjd.aggregation import (
    IMTLG,
    MGDA,
    AlignedMTL,
    Constant,
    GradVac,
    GramianWeightedAggregator,
    Krum,
    Mean,
    MGDAWeighting,
    MoDoWeighting,
    Random,
    Sum,
    TrimmedMean,
)

import ferero
from ferero.errors import InputError, UnsupportedError
from ferero.integrations.torchjd import FromTorchJD, MethodWeighting
from ferero.methods import Observation

SHARES = Constant(torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64))
AGGREGATORS = [MGDA(), IMTLG(), AlignedMTL(), Krum(0), Mean(), Sum(), SHARES]


def jacobian(seed=0, m=3, n=7):
    return torch.randn(m, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ask(method, J, preference=None):
    preference = ferero.Preference.pareto(len(J)) if preference is None else preference
    return method.update(preference, Observation(torch.ones(len(J)).double(), J @ J.T), method.init(preference))[
        0
    ].weights


@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=str)
def test_the_weights_give_the_aggregators_own_direction(aggregator):
    J = jacobian()
    torch.testing.assert_close(ask(FromTorchJD(aggregator), J) @ J, aggregator(J), rtol=1e-6, atol=1e-8)


def test_a_weighting_itself_is_taken():
    J = jacobian(1)
    torch.testing.assert_close(ask(FromTorchJD(MGDAWeighting()), J), ask(FromTorchJD(MGDA()), J))


def test_a_random_one_follows_the_global_seed():
    torch.manual_seed(3)
    first = ask(FromTorchJD(Random()), jacobian())
    torch.manual_seed(3)
    torch.testing.assert_close(first, ask(FromTorchJD(Random()), jacobian()))


def test_leading_dimensions():
    many = torch.stack([jacobian(seed) for seed in range(4)]).reshape(2, 2, 3, 7)
    preference, method = ferero.Preference.pareto(3), FromTorchJD(MGDA())
    observation = Observation(torch.ones(2, 2, 3), many @ many.mT)
    weights = method.update(preference, observation, method.init(preference))[0].weights
    assert weights.shape == (2, 2, 3)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights[1, 0].double(), ask(method, many[1, 0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aggregator", [TrimmedMean(1), MoDoWeighting()], ids=lambda a: type(a).__name__)
def test_one_that_looks_at_gradients_is_refused(aggregator):
    with pytest.raises(UnsupportedError, match="looks at the gradients themselves"):
        FromTorchJD(aggregator)


def test_one_with_a_state_is_refused():
    with pytest.raises(UnsupportedError, match="GradVac keeps a state of its own"):
        FromTorchJD(GradVac())


def test_what_is_no_aggregator_is_refused():
    with pytest.raises(InputError, match=r"aggregator: expected one of torchjd\.aggregation"):
        FromTorchJD("UPGrad")


def test_a_ray_is_refused():
    refusal = FromTorchJD(MGDA()).understands(ferero.Preference.ray([1.0, 2.0]))
    assert refusal is not None
    assert "MGDA knows no constraints" in refusal


@pytest.mark.parametrize("kind", [MGDA, IMTLG, AlignedMTL, Mean])
def test_theirs_without_a_state_go_on_to_the_bit(kind):
    first = kind()
    for seed in range(5):
        first(jacobian(seed))
    second = kind()
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(jacobian(9)), second(jacobian(9)))


def test_theirs_with_a_state_do_not_take_it_back():
    used = GradVac()
    used(jacobian())
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict"):
        GradVac().load_state_dict(used.state_dict())


def test_a_training_loop_with_an_aggregator():
    fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])  # noqa: E731
    r = ferero.minimize(
        fun, torch.full((3,), 4.0).double(), ferero.Preference.pareto(2), method=FromTorchJD(MGDA()), step=0.1
    )
    assert r.success


# the other way round --------------------------------------------------------------------------------------


def test_their_aggregator_steps_with_our_weights_to_the_ray():
    weighting = MethodWeighting(ferero.Ferero(), ferero.Preference.ray([1.0, 2.0]))
    aggregator = GramianWeightedAggregator(weighting)
    x = torch.tensor([2.0, -1.0], dtype=torch.float64, requires_grad=True)
    for _ in range(300):
        losses = [(x - 1).square().sum(), (x + 1).square().sum()]
        weighting.observe(torch.stack(losses))
        J = torch.stack([2 * (x - 1), 2 * (x + 1)]).detach()
        with torch.no_grad():
            x -= 0.05 * aggregator(J)
    assert float((losses[1] / losses[0]).detach()) == pytest.approx(2.0, abs=1e-3)


def test_the_weights_are_the_methods_own():
    K = jacobian(2) @ jacobian(2).T
    p, losses = ferero.Preference.ray([1.0, 2.0, 1.0]), [0.4, 1.0, 0.3]
    weighting = MethodWeighting(ferero.Ferero(), p)
    weighting.observe(losses)
    method = ferero.Ferero()
    expected = method.update(p, Observation(losses, K), method.init(p))[0].weights
    torch.testing.assert_close(weighting(K), expected)


def test_losses_must_be_told_each_time():
    weighting = MethodWeighting(ferero.Ferero(), ferero.Preference.ray([1.0, 1.0]))
    with pytest.raises(InputError, match=r"call weighting\.observe"):
        weighting(torch.eye(2))
    weighting.observe([1.0, 1.0])
    weighting(torch.eye(2))
    with pytest.raises(InputError, match=r"call weighting\.observe"):
        weighting(torch.eye(2))


def test_slopes_and_stacks_are_refused():
    p = ferero.Preference.ray([1.0, 1.0])
    with pytest.raises(UnsupportedError, match=r"FereroSA reads slopes.*ferero.Stepper"):
        MethodWeighting(ferero.FereroSA(), p)
    with pytest.raises(InputError, match="expected a single one"):
        MethodWeighting(ferero.Ferero(), ferero.Preference.stack([p, p]))
    with pytest.raises(UnsupportedError, match="knows no constraints"):
        MethodWeighting(FromTorchJD(MGDAWeighting()), p)
