"""What a user's ``train_one`` may return, read into what a front holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from ferero._arrays import to_float64
from ferero.errors import InputError
from ferero.fronts._trained import Trained
from ferero.optimize._result import Result
from ferero.preference import Preference

__all__ = ["read_answer"]


def read_answer(value: object, preference: Preference, seconds: float) -> Trained | Result:
    """The result for one preference, on the CPU; a trained one is "diverged" where its losses are not finite.

    Args:
        value: losses (m,), {name: loss}, a `Trained` or a `Result`.
        preference: what was asked for.
        seconds: that it took, for what does not say so itself.

    Raises:
        InputError: for anything else.
    """
    if isinstance(value, Result):
        _read_losses(value.losses, preference)
        return replace(value, preference=preference)
    if isinstance(value, Trained):
        losses = _read_losses(value.losses, preference)
        trained = replace(value, preference=preference, losses=losses, seconds=value.seconds or seconds)
    else:
        trained = Trained(preference, _read_losses(value, preference), seconds=seconds)
    if bool(trained.losses.isfinite().all()) or trained.status == "diverged":
        return trained
    return replace(trained, status="diverged", message=trained.message or "A loss is not finite.")


def _read_losses(value: object, preference: Preference) -> Tensor:
    """Losses (m,), float64 on the CPU, in the order of the preference's names."""
    names, m = preference.names, preference.m
    if isinstance(value, Mapping):
        if set(value) != set(names):
            found = ", ".join(map(str, value)) or "none"
            raise InputError(f"train_one: expected it to return a loss for each of {', '.join(names)}, found {found}.")
        value = [value[name] for name in names]
    if isinstance(value, (list, tuple)):
        value = [item.item() if isinstance(item, Tensor) and item.numel() == 1 else item for item in value]
    if value is None or isinstance(value, str):
        raise InputError(
            f"train_one: expected it to return its {m} losses, found {value!r}; end it with return losses."
        )
    losses = to_float64(value, "train_one: what it returned").cpu()  # type: ignore[arg-type]  # refuses what is none
    if losses.shape != (m,):
        raise InputError(
            f"train_one: expected it to return {m} losses, shape ({m},), one for each of {', '.join(names)}, found "
            f"shape {tuple(losses.shape)}."
        )
    return losses.clone()
