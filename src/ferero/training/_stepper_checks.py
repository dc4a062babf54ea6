"""Checks of what a stepper, or `train_front`, is built with."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor, distributed, nn

from ferero.errors import InputError, UnsupportedError
from ferero.methods import check_understood
from ferero.methods._method import Method, check_method
from ferero.preference import Preference
from ferero.preference._assembly import no_preference
from ferero.training._distributed import ddp_of, is_fsdp1, is_sharded, ranks_of
from ferero.training._halves import Splitter
from ferero.training._slopes import SlopeKind


def check_steering(method: Method[Any], preference: Preference) -> None:
    """Refuse what is no preference or no method, and a method that does not support the preference.

    Raises:
        InputError: No single preference, or no instance of a method.
        UnsupportedError: The method says so, or the preference bounds metrics.
    """
    if not isinstance(preference, Preference):
        raise InputError(f"preference: {no_preference(preference)}.")
    if preference.members:
        raise InputError("preference: expected a single one, found a stack; make one stepper for each of them.")
    check_method(method, "ferero.FereroSA()")
    if preference.measured:
        raise UnsupportedError(
            f"preference: {', '.join(preference.measured)} can only be measured, and a stepper reads losses; use "
            "ferero.Steer and steer.observe."
        )
    check_understood(method, preference)


def check_options(
    *,
    slopes: Any,
    accumulate: Any,
    chunk: Any,
    clip_norm: Any,
    step_size: Any,
    on_nonfinite: Any,
    split: Any,
    loss_fn: Any,
    scaler: Any,
    generator: Any,
) -> None:
    """Refuse options of a wrong kind or range.

    Raises:
        InputError: Naming the argument.
    """
    if slopes not in get_args(SlopeKind):
        kinds = ", ".join(f'"{kind}"' for kind in get_args(SlopeKind))
        raise InputError(f"slopes: expected one of {kinds}, found {slopes!r}.")
    for name, count in (("accumulate", accumulate), ("chunk", chunk)):
        if type(count) is not int or count < 1:
            raise InputError(f"{name}: expected a whole number >= 1, found {count!r}.")
    for name, size in (("clip_norm", clip_norm), ("step_size", step_size)):
        if size is not None and not (isinstance(size, int | float) and 0 < size < math.inf):
            raise InputError(f"{name}: expected a positive finite number or None, found {size!r}.")
    if on_nonfinite not in ("raise", "skip"):
        raise InputError(f'on_nonfinite: expected "raise" or "skip", found {on_nonfinite!r}.')
    if split is not None and not callable(split):
        raise InputError(f"split: expected a function from a batch to its two halves, found {type(split).__name__}.")
    if not callable(loss_fn):
        raise InputError(f"loss_fn: expected a function of model and batch, found {type(loss_fn).__name__}.")
    if scaler is not None and not hasattr(scaler, "unscale_"):
        raise InputError(f"scaler: expected a torch.amp.GradScaler or None, found {type(scaler).__name__}.")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InputError(f"generator: expected a torch.Generator or None, found {type(generator).__name__}.")


def check_model(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[Tensor],
    *,
    method: Method[Any],
    slopes: SlopeKind,
    step_size: float | None,
    group: distributed.ProcessGroup | None,
) -> None:
    """Refuse models and optimizers for which the step would be wrong.

    Raises:
        InputError: No module, no optimizer, or nothing to train.
        UnsupportedError: LBFGS, or a wrapper that `_check_wrapper` refuses.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model: expected a torch.nn.Module, found {type(model).__name__}; wrap it in one.")
    if not hasattr(optimizer, "param_groups"):
        raise InputError(f"optimizer: expected a torch optimizer, found {type(optimizer).__name__}.")
    if not parameters:
        raise InputError("optimizer: expected parameters that require a gradient, found none.")
    if not {id(p) for p in parameters} & {id(p) for p in model.parameters()}:
        raise InputError(
            "optimizer: expected parameters of the model among its own, found none; was this optimizer "
            "built for another model?"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UnsupportedError("optimizer: LBFGS evaluates its losses itself; take one that steps on given gradients.")
    whole, has_slopes = None, "slopes" in method.requires
    if "gramian" in method.requires:
        whole = f"the gramian of {type(method).__name__}"
    elif has_slopes and slopes != "realized":
        whole = f'slopes="{slopes}"'
    is_realized = has_slopes and slopes == "realized"
    if is_realized and step_size is None:
        _check_rates(optimizer)
    _check_wrapper(model, parameters, group=group, whole=whole, is_realized=is_realized)


def _check_rates(optimizer: torch.optim.Optimizer) -> None:
    """Warn where the first group's learning rate does not stand for all of them."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    if max(rates) > 2 * rates[0]:
        warnings.warn(
            f"slopes: they are divided by the first group's learning rate, {rates[0]:g}, and others are up to "
            f"{max(rates):g}; pass step_size= (that of the parameters that matter), or list their group first.",
            stacklevel=4,
        )


def _check_wrapper(
    model: nn.Module,
    parameters: Sequence[Tensor],
    *,
    group: distributed.ProcessGroup | None,
    whole: str | None,
    is_realized: bool,
) -> None:
    """Refuse wrappers under which the step would be wrong.

    m backward passes through a wrapper that averages gradients over ranks average the wrong thing, and forward mode
    does not go through one at all. So these run on the bare module, which sharded parameters do not have.

    Args:
        model: As the user wraps it.
        parameters: Those that are trained.
        group: The processes that train together.
        whole: What needs whole parameters and gradients of single losses, in words; None for nothing.
        is_realized: Whether losses are evaluated before and after the step, without a backward pass in between.

    Raises:
        UnsupportedError: Saying what to do instead.
    """
    sharded = is_sharded(model, parameters)
    if whole is not None and sharded:
        raise UnsupportedError(
            f"model: {whole} needs whole parameters, found them sharded (FSDP or DTensor), where backward passes for "
            "single losses could not be right; wrap the model in DistributedDataParallel, or take a method of values "
            'or slopes with slopes="realized".'
        )
    if is_realized and any(is_fsdp1(module) for module in model.modules()):
        raise UnsupportedError(
            "model: FullyShardedDataParallel keeps gathered parameters after a forward pass, so that losses after a "
            "step could be those before it; use torch.distributed.fsdp.fully_shard instead."
        )
    ranks = ranks_of(group)
    if ranks > 1 and ddp_of(model) is None and not sharded:
        raise UnsupportedError(
            f"model: {ranks} processes train together, but nothing keeps their models the same: found "
            f"{type(model).__name__}, neither DistributedDataParallel nor sharded by fully_shard; wrap it, or pass "
            "group= with this process alone."
        )


def check_acts(
    method: Method[Any],
    slopes: SlopeKind,
    double_sampling: bool,
    *,
    split: Splitter | None,
    generator: torch.Generator | None,
    step_size: float | None,
    chunk: int,
) -> None:
    """Refuse options that this method, or another option, leaves without effect.

    Raises:
        InputError: Naming the option and why it would do nothing.
    """
    name, has_slopes = type(method).__name__, "slopes" in method.requires
    cases: dict[str, tuple[bool, dict[str, object]]] = {
        f"{name}, which has no slopes": (
            not has_slopes,
            {"split": split, "generator": generator, "step_size": step_size},
        ),
        "double_sampling=False": (not double_sampling, {"split": split, "generator": generator}),
        "split=": (split is not None, {"generator": generator}),
        f'slopes="{slopes}"': (slopes != "realized", {"step_size": step_size}),
    }
    for reason, (is_so, options) in cases.items():
        for option, value in options.items():
            if is_so and value is not None:
                raise InputError(f"{option}: expected None with {reason}, found {value!r}; leave it out.")
    if chunk > 1 and "gramian" not in method.requires:
        raise InputError(f"chunk: expected 1 with {name}, which has no gramian, found {chunk}; leave it out.")
