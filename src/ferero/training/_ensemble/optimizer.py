"""One optimizer for K stacked models, in the form that its device wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ferero.errors import InputError, UnsupportedError

__all__ = ["ELEMENTWISE", "OptimizerFactory", "load_optimizer", "make_capturable", "make_optimizer"]

OptimizerFactory = Callable[[list[Tensor]], torch.optim.Optimizer]

ELEMENTWISE = (
    "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Adadelta", "ASGD", "Rprop",
)  # fmt: skip
"""Optimizers that treat every number by itself, so that stacked models are K separate trainings."""
_FORMS = ("fused", "foreach", "capturable")
"""Settings of an optimizer that are a matter of the device."""


def make_optimizer(factory: Any, parameters: list[Tensor]) -> torch.optim.Optimizer:
    """The optimizer; on a GPU in the form that a captured graph can hold.

    Raises:
        InputError: What is no optimizer.
        UnsupportedError: An optimizer that would mix the models.
    """
    make: Any = factory
    optimizer = make(parameters) if callable(make) else None
    if not isinstance(optimizer, torch.optim.Optimizer):
        found = make if optimizer is None else optimizer
        raise InputError(
            f"optimizer: expected a function from parameters to an optimizer, such as lambda parameters: "
            f"torch.optim.SGD(parameters, lr=0.1), found {type(found).__name__}."
        )
    mine = {id(parameter) for parameter in parameters}
    if any(id(p) not in mine for group in optimizer.param_groups for p in group["params"]):
        raise InputError("optimizer: expected one that trains the parameters it was given, found others in it.")
    name = type(optimizer).__name__
    if name not in ELEMENTWISE:
        raise UnsupportedError(
            f"optimizer: {name} may mix the stacked models, which are to train as if each were alone; use one of "
            f"{', '.join(ELEMENTWISE)}, or ferero.sweep, which trains them one by one."
        )
    if parameters[0].is_cuda:
        make_capturable(optimizer, parameters[0].device)
    return optimizer


def make_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """For a GPU: learning rates as tensors there, and the form of the step that a captured graph can hold."""
    for group in optimizer.param_groups:
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)
        if "fused" in group:
            group["fused"], group["foreach"] = True, False
        if "capturable" in group:
            group["capturable"] = True  # torch's Adam insists on it, fused or not
    for state in optimizer.state.values():
        if "step" in state:  # Adagrad counts on the host from the beginning, and so does a run from a CPU
            state["step"] = state["step"].to(device, torch.float32)
    quiet: Any = optimizer
    quiet._warned_capturable_if_run_uncaptured = True  # of the few steps before the capture


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any], device: torch.device) -> None:
    """Go on where another one was, in this one's form, whatever device the other ran on."""
    forms = [{key: group[key] for key in _FORMS if key in group} for group in optimizer.param_groups]
    optimizer.load_state_dict(dict(state))
    for group, form in zip(optimizer.param_groups, forms, strict=True):
        group.update(form)
    if device.type == "cuda":
        make_capturable(optimizer, device)
