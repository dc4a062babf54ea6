"""Values in, weights out: for K models they are those that K steers give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.training.ensemble.alone import BOUND, ORDER, OTHER_RAY, RAY

import ferero
from ferero import Controller, Preference
from ferero.errors import InputError, NonFiniteError, UnknownNameError, UnsupportedError

PREFERENCES = [RAY, BOUND, ORDER, OTHER_RAY]


def losses(step, count=4):
    generator = torch.Generator().manual_seed(step)
    return 0.5 + torch.rand(count, 3, generator=generator, dtype=torch.float64) / (1 + step)


def steer_each(steers, F):
    return torch.stack(
        [(steer(row.requires_grad_()), steer.weights.clone())[1] for steer, row in zip(steers, F, strict=True)]
    )


@pytest.mark.parametrize("is_observed", [False, True], ids=["alone", "observed"])
def test_weights_losses_and_reports_are_those_of_each(is_observed):
    controller = Controller(Preference.stack(PREFERENCES), ferero.FereroPI())
    steers = [ferero.Steer(preference) for preference in PREFERENCES]
    for step in range(120):
        found = controller.step(losses(step))
        torch.testing.assert_close(found, steer_each(steers, losses(step)), rtol=1e-9, atol=1e-10)
        if is_observed and step % 30 == 20:
            measured = 1.2 * losses(step)
            controller.observe(measured, torch.ones(3, dtype=torch.bool))
            for steer, row in zip(steers, measured, strict=True):
                steer.observe(**dict(zip("abc", row, strict=True)))
    for k, (report, steer) in enumerate(zip(controller.reports(), steers, strict=True)):
        torch.testing.assert_close(controller.losses[k], steer.losses, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(controller.multipliers_of(k), steer.multipliers, rtol=1e-9, atol=1e-10)
        wanted = steer.report()
        assert report.status == wanted.status
        assert report.advice == wanted.advice
        assert report.steps == wanted.steps == 120
        assert [row.label for row in report.constraints] == [row.label for row in wanted.constraints]
        for row, other in zip(report.constraints, wanted.constraints, strict=True):
            for figure in ("value", "standard_error", "margin", "multiplier", "trend"):
                assert getattr(row, figure) == pytest.approx(getattr(other, figure), rel=1e-8, abs=1e-10), figure


@pytest.mark.parametrize("first", [0, 3], ids=["from the start", "later"])
def test_a_model_that_is_not_finite_keeps_its_state_and_weighs_nothing(first):
    for method in (ferero.FereroPI(), ferero.Tchebycheff(), ferero.SmoothTchebycheff()):
        preferences = [RAY, OTHER_RAY, RAY]
        controller, sound = (Controller(Preference.stack(preferences), method) for _ in range(2))
        for step in range(first):
            controller.step(losses(step, 3))
            sound.step(losses(step, 3))
        before = {name: tensor.clone() for name, tensor in controller.state_dict().items()}
        bad = losses(9, 3)
        bad[1, 2] = torch.nan
        found, wanted = controller.step(bad), sound.step(losses(9, 3))
        assert found[1].tolist() == [0.0, 0.0, 0.0]
        assert torch.equal(found[[0, 2]], wanted[[0, 2]])
        after, other = controller.state_dict(), sound.state_dict()
        for name, tensor in after.items():
            if tensor.shape[:1] == (3,) and name != "record_skipped":
                assert torch.equal(tensor[1], before[name][1]), name
                assert torch.equal(tensor[0], other[name][0]), name
        assert after["record_skipped"].tolist() == [0.0, 1.0, 0.0]
        assert controller.is_good.tolist() == [True, False, True]
        assert [report.skipped for report in controller.reports()] == [0, 1, 0]


def test_what_a_step_did_is_learned_of_those_who_took_it():
    controller = Controller(Preference.stack([RAY, RAY]), ferero.FereroSA())
    controller.step(losses(0, 2))
    controller.learn_slopes(torch.full((2, 3), 2.0, dtype=torch.float64))
    bad = losses(1, 2)
    bad[0] = torch.inf
    controller.step(bad)
    controller.learn_slopes(torch.full((2, 3), 7.0, dtype=torch.float64))
    assert controller.slopes[:, 0].tolist() == [2.0, 7.0]


def test_a_gramian_that_solvers_could_not_square_is_not_finite():
    controller = Controller(Preference.stack([RAY, RAY]), ferero.Ferero())
    gramian = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    gramian[0] *= 1e200
    assert controller.step(losses(0, 2), gramian=gramian)[0].tolist() == [0.0, 0.0, 0.0]
    assert controller.is_good.tolist() == [False, True]


def test_measured_values_that_are_not_finite_are_left_out():
    controller = Controller(Preference.stack([RAY, RAY]), ferero.FereroPI())
    measured = torch.full((2, 3), 0.7, dtype=torch.float64)
    measured[0, 1] = torch.nan
    controller.observe(measured, torch.ones(3, dtype=torch.bool))  # before the first step there is nothing to correct
    assert controller.state_dict()["correction_observed"].sum() == 0
    controller.step(losses(0, 2))
    controller.observe(measured, torch.tensor([True, True, False]))
    assert controller.state_dict()["correction_observed"].tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    torch.testing.assert_close(controller.losses[1, :2], measured[1, :2])


@pytest.mark.parametrize("method", [ferero.FereroPI(), ferero.LinearScalarization()], ids=["FereroPI", "LS"])
def test_it_goes_on_where_another_was(method):
    one, other = (Controller(Preference.stack([RAY, OTHER_RAY]), method) for _ in range(2))
    for step in range(5):
        one.step(losses(step, 2))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.step(losses(7, 2)), other.step(losses(7, 2)))
    for k in range(2):
        a, b = one.multipliers_of(k), other.multipliers_of(k)
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def test_every_preference_must_be_understood():
    with pytest.raises(UnsupportedError, match="Tchebycheff"):
        Controller(Preference.stack([RAY, BOUND]), ferero.Tchebycheff())


def test_of_a_single_model_it_is_steer_without_a_graph():
    controller, steer = Controller(BOUND), ferero.Steer(BOUND)
    for step in range(60):
        F = losses(step, 1)[0]
        found = controller.step(F)
        steer(F.clone().requires_grad_())
        assert torch.equal(found, steer.weights)
        assert not found.requires_grad
    assert str(controller.report()) == str(steer.report())
    assert controller.metrics() == steer.metrics()
    torch.testing.assert_close(controller.violation, steer.violation, rtol=0, atol=0)


def test_a_loss_that_is_missing_holds_its_weight():
    controller = Controller(BOUND)
    before = controller.step(losses(0, 1)[0]).clone()
    here = torch.tensor([True, True, False])
    found = controller.step(torch.tensor([0.1, 0.2, torch.nan]), present=here)
    assert torch.isfinite(found).all()
    assert found[2] == before[2]
    assert controller.report().steps == 2


def test_reset_forgets_everything():
    controller, fresh = Controller(RAY, ferero.FereroSA()), Controller(RAY, ferero.FereroSA())
    controller.step(losses(0, 1)[0])
    controller.learn_slopes(torch.ones(3))
    controller.reset()
    for name, tensor in fresh.state_dict().items():
        assert torch.equal(tensor, controller.state_dict()[name]), name


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r"values: expected shape \(3,\).*found \(2,\)"):
        Controller(RAY).step(torch.ones(2))
    with pytest.raises(InputError, match=r"report: expected a single preference, found a stack; call reports\(\)"):
        Controller(Preference.stack([RAY, RAY])).report()
    with pytest.raises(InputError, match=r"method: expected an instance, found the class; write FereroPI\(\)"):
        Controller(RAY, ferero.FereroPI)
    with pytest.raises(InputError, match="preference: expected"):
        Controller("ray 1 2")


# values by name, without a graph ------------------------------------------------------------------------------

KL = Preference.parse("kl <= 0.1; minimize reward", names=["kl", "reward"])


def kinds_of(kl, reward):
    yield {"kl": kl, "reward": reward}
    yield {"kl": np.float64(kl), "reward": np.array([reward])}
    yield {"kl": torch.tensor(kl, dtype=torch.float64), "reward": torch.tensor([reward], dtype=torch.float64)}
    yield {"reward": reward, "kl": kl}


def test_numbers_of_any_kind_give_plain_numbers():
    controllers = [Controller(KL) for _ in range(4)]
    plain = Controller(KL)
    for step in range(20):
        kl, reward = 0.12 + 0.01 * step, -1.3
        wanted = plain.step(torch.tensor([kl, reward], dtype=torch.float64)).tolist()
        for controller, values in zip(controllers, kinds_of(kl, reward), strict=True):
            found = controller.step(values)
            assert list(found) == ["kl", "reward"]
            assert all(type(weight) is float for weight in found.values())
            assert list(found.values()) == wanted


def test_scalars_of_jax_are_read():
    jnp = pytest.importorskip("jax.numpy")
    controller, plain = Controller(KL), Controller(KL)
    assert controller.step({"kl": jnp.float32(0.25), "reward": jnp.asarray([-1.5])}) == plain.step(
        {"kl": 0.25, "reward": -1.5}
    )
    assert controller.step({"kl": jnp.bfloat16(0.25), "reward": -1.5}) == plain.step({"kl": 0.25, "reward": -1.5})


def test_a_value_that_jax_only_traces_is_refused():
    jax = pytest.importorskip("jax")
    controller = Controller(KL)
    with pytest.raises(InputError, match=r"'kl', found a .*Tracer, which has no value yet; return the losses from the"):
        jax.jit(lambda x: controller.step({"kl": x, "reward": 0.0})["kl"])(1.0)


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"kl": torch.ones((), requires_grad=True)}, InputError, "found a tensor that needs a gradient, which step"),
        ({"kl": "0.1"}, InputError, "values: expected one real number for 'kl', found str '0.1'"),
        ({"kl": torch.ones(3)}, InputError, r"found shape \(3,\); take its mean"),
        ({"kl": 1j}, InputError, "expected one real number for 'kl', found complex 1j"),
        ({"kl": float("nan"), "reward": 1.0}, NonFiniteError, "found kl = nan; nothing was updated"),
        ({"k": 1.0}, UnknownNameError, "did you mean 'kl'"),
    ],
)
def test_a_refused_step_changes_nothing(values, error, words):
    controller = Controller(KL)
    controller.step({"kl": 0.2, "reward": 1.0})
    before = {name: tensor.clone() for name, tensor in controller.state_dict().items()}
    with pytest.raises(error, match=words):
        controller.step(values)
    with pytest.raises(error):
        controller.observe(values)
    assert all(torch.equal(tensor, before[name]) for name, tensor in controller.state_dict().items())


def test_names_may_be_missing_and_need_no_mask():
    by_name, by_mask = Controller(KL), Controller(KL)
    for values in ({"kl": 0.2}, {"kl": 0.2, "reward": None}, {"reward": 1.0}):
        numbers = [values.get(name) for name in KL.names]
        here = torch.tensor([number is not None for number in numbers])
        wanted = by_mask.step(torch.tensor([number or 0.0 for number in numbers], dtype=torch.float64), present=here)
        assert list(by_name.step(values).values()) == wanted.tolist()
    with pytest.raises(InputError, match="present: expected None beside values by name"):
        by_name.step({"kl": 0.2}, present=here)
    with pytest.raises(InputError, match="arrived: expected None beside values by name"):
        by_name.observe({"kl": 0.2}, here)


def test_measured_values_by_name():
    one, other = Controller(KL), Controller(KL)
    for controller in (one, other):
        controller.step({"kl": 0.2, "reward": 1.0})
    one.observe({"kl": 0.3})
    other.observe(torch.tensor([0.3, 0.0], dtype=torch.float64), torch.tensor([True, False]))
    assert one.losses.tolist() == other.losses.tolist()
    assert one.losses[0] == pytest.approx(0.3)


def test_a_stack_takes_no_names():
    with pytest.raises(InputError, match=r"values: expected a tensor \(K, m\) for a stack"):
        Controller(Preference.stack([KL, KL])).step({"kl": 0.1})


def test_steps_by_name_resume_exactly(tmp_path):
    one, other = Controller(KL), Controller(KL)
    for step in range(30):
        one.step({"kl": 0.2 / (1 + step), "reward": -1.0})
    torch.save(one.state_dict(), tmp_path / "state.pt")
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    for step in range(30):
        values = {"kl": 0.05 + 0.01 * step, "reward": -1.0}
        assert one.step(values) == other.step(values)
