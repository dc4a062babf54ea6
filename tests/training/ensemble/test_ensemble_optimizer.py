"""The optimizer of stacked models: the form that a captured graph needs, and the form after a resume."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ferero.training._ensemble import ELEMENTWISE, load_optimizer, make_capturable

CPU = torch.device("cpu")


def made(name, **options):
    return getattr(torch.optim, name)([torch.ones(2, 3, requires_grad=True)], lr=0.01, **options)


@pytest.mark.parametrize("is_capturing", [False, True])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_torch_lets_it_step_while_a_graph_is_recorded_and_says_nothing_before(name, is_capturing, monkeypatch):
    optimizer = made(name)
    make_capturable(optimizer, CPU)
    (group,) = optimizer.param_groups
    assert torch.is_tensor(group["lr"]), "a graph reads the rate where the schedule writes it"
    assert group.get("fused") or group.get("capturable")
    assert group.get("capturable", True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda: SimpleNamespace(is_capturing=lambda: is_capturing))
    if "capturable" in group:  # those that ask
        optimizer._accelerator_graph_capture_health_check()


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "SGD"])
def test_it_counts_steps_on_the_device_and_takes_them(name):
    optimizer = made(name)
    make_capturable(optimizer, CPU)
    parameter = optimizer.param_groups[0]["params"][0]
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert (parameter < 1).all()
    assert all(state["step"].dtype == torch.float32 for state in optimizer.state.values() if "step" in state)


def test_a_schedule_writes_into_the_tensor_that_the_graph_reads():
    optimizer = made("SGD")
    make_capturable(optimizer, CPU)
    rate = optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == pytest.approx(0.005)


@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
def test_what_was_saved_on_another_device_goes_on_in_the_form_of_this_one(name):
    there, here = made(name), made(name, foreach=False)
    make_capturable(there, CPU)
    load_optimizer(here, there.state_dict(), CPU)
    (group,) = here.param_groups
    assert (group.get("fused"), group["capturable"], group["foreach"]) == (None, False, False)
    assert float(group["lr"]) == pytest.approx(0.01)
    parameter = group["params"][0]
    parameter.grad = torch.ones_like(parameter)
    here.step()
    assert (parameter < 1).all()
