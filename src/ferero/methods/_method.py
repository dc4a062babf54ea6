"""The protocol of a method: a pure map from an observation of m losses to m weights, state in and state out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.preference import Preference
from ferero.subprogram import Solution

__all__ = [
    "Decision",
    "Diagnosing",
    "Diagnosis",
    "Merited",
    "Method",
    "Observation",
    "check_method",
    "check_observation",
    "check_understood",
    "in_dtype_of",
]

_COSTS = {
    "losses": "one forward pass",
    "gramian": "m backward passes: the products of the losses' gradients, J @ J.T",
    "slopes": "one more forward pass: how the previous step changed each loss, divided by its length",
}
State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Observation:
    """What is known of the losses at one step. Lists and arrays become tensors; tensors stay as they are.

    Args:
        losses: F, (..., m), of any floating type.
        gramian: ``gradF^T gradF``, (..., m, m), where a method asks for it.
        slopes: ``gradF^T d`` of the step taken since the last observation, (..., m), negative for a loss that
            fell.
        present: Which losses have a value at this step, (..., m); None for all. The others' entries are not
            read.

    Raises:
        InputError: Shapes that do not fit each other, or no real numbers.
    """

    losses: Tensor
    gramian: Tensor | None = None
    slopes: Tensor | None = None
    present: Tensor | None = None

    def __init__(
        self,
        losses: ArrayLike,
        gramian: ArrayLike | None = None,
        slopes: ArrayLike | None = None,
        present: ArrayLike | None = None,
    ) -> None:
        F = _as_tensor(losses, "losses")
        if F.ndim == 0 or F.shape[-1] == 0:
            raise InputError(f"losses: expected shape (..., m), one number for each, found {tuple(F.shape)}.")
        m = F.shape[-1]
        K = None if gramian is None else _as_tensor(gramian, "gramian")
        if K is not None and (K.ndim < 2 or K.shape[-2:] != (m, m)):
            raise InputError(
                f"gramian: expected shape (..., {m}, {m}) for {m} losses, found {tuple(K.shape)}; compute it "
                f"as J @ J.T from the ({m}, n) Jacobian J."
            )
        s = None if slopes is None else _as_tensor(slopes, "slopes")
        if s is not None and (s.ndim == 0 or s.shape[-1] != m):
            raise InputError(f"slopes: expected shape (..., {m}) for {m} losses, found {tuple(s.shape)}.")
        here = None if present is None else torch.as_tensor(present, dtype=torch.bool, device=F.device)
        if here is not None and (here.ndim == 0 or here.shape[-1] != m):
            raise InputError(f"present: expected shape (..., {m}) for {m} losses, found {tuple(here.shape)}.")
        for name, value in (("losses", F), ("gramian", K), ("slopes", s), ("present", here)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Steps:
    """The state of a method without memory: the number of its updates, ()."""

    steps: Tensor

    @classmethod
    def none(cls) -> Steps:
        """The state before the first update."""
        return cls(torch.zeros((), dtype=torch.int64))

    def next(self) -> Steps:
        """The state after one more update."""
        return Steps(self.steps + 1)


@dataclass(frozen=True, eq=False)
class Decision:
    """The answer of a method.

    Attributes:
        weights: w, (..., m), in the losses' type and on their device: the next gradient is that of ``w.F``.
        multipliers: ``[lam_f; lam_g; lam_h]``, (..., k), float64; None for methods that have none.
        solution: The solved subprogram with its certificate, for methods that solve one.
    """

    weights: Tensor
    multipliers: Tensor | None = None
    solution: Solution | None = None


class Method(Protocol[State]):
    """A method holds hyperparameters only. `update` is called once per step, before the backward pass.

    Attributes:
        requires: Which parts of an observation it reads, of "losses", "gramian" and "slopes".
        has_merit: Whether its weights belong to a merit function that ``minimize`` can make fall.
    """

    requires: ClassVar[frozenset[str]]
    has_merit: ClassVar[bool]

    def understands(self, preference: Preference) -> str | None:
        """None, or the sentence that says which part of the preference the method cannot handle."""

    def init(self, preference: Preference) -> State:
        """The state before the first step."""

    def update(self, preference: Preference, observation: Observation, state: State) -> tuple[Decision, State]:
        """The weights for this step, and the state for the next; nothing is changed in place."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Which constraints a controller cannot meet.

    Attributes:
        saturated: Those that have all the weight there is and are still violated, (..., m_g + m_h), bool.
    """

    saturated: Tensor


@runtime_checkable
class Diagnosing(Protocol):
    """A method that can say more about its constraints than their values."""

    def diagnose(self, preference: Preference, state: Any) -> Diagnosis:
        """Reads the diagnosis off the state."""


@runtime_checkable
class Merited(Protocol):
    """A method whose direction makes a merit fall, so that a line search can choose its step."""

    def change(self, preference: Preference, before: Tensor, after: Tensor) -> Tensor:
        """By how much the merit rises from losses ``before`` to ``after``, both (..., m)."""


def check_method(method: object, example: str = "ferero.FereroPI()") -> None:
    """Refuses an argument that is no instance of a method.

    Raises:
        InputError: A class, or something else.
    """
    if isinstance(method, type):
        raise InputError(f"method: expected an instance, found the class; write {method.__name__}().")
    if not (hasattr(method, "requires") and hasattr(method, "update")):
        raise InputError(f"method: expected a method such as {example}, found {type(method).__name__}.")


def check_understood(method: Any, preference: Preference) -> None:
    """Refuses a preference that a method does not understand, in the method's own words.

    Raises:
        UnsupportedError: It does not.
    """
    if any(p.at_most is not None for p in preference.members or (preference,)):
        raise UnsupportedError(
            "preference: a ray with at_most=True asks for the smallest t with F <= t v, which only minimize and trace "
            'with step="auto" and method=Ferero() search for; here use Tchebycheff() or SmoothTchebycheff() with the '
            "plain ray, or bounds on the losses."
        )
    if preference.moves and not getattr(method, "follows_levels", False):
        raise UnsupportedError(
            f"method: {type(method).__name__} does not follow levels that move with the steps of training; use "
            "FereroPI(), or preference.at(step) for the levels of one step."
        )
    refusal = method.understands(preference)
    if refusal is not None:
        raise UnsupportedError(f"method: {refusal}")


def check_observation(
    method: Any, preference: Preference, observation: Observation, required: Collection[str] | None = None
) -> None:
    """Checks that an observation has what a method reads, that it fits the preference, and that it is finite.

    Args:
        method: The method, for its name and ``requires``.
        preference: The preference.
        observation: The observation.
        required: The parts needed at this step; None for ``method.requires``.

    Raises:
        InputError: A part is missing, or has other losses or another batch than the preference.
        NonFiniteError: A part that is read is not finite; checked on the CPU only.
    """
    required = method.requires if required is None else required
    name = type(method).__name__
    for part in sorted(required):
        value: Tensor | None = getattr(observation, part)
        if value is None:
            raise InputError(
                f"observation: {name} reads {part}, found None; pass Observation({part}=...), which costs "
                f"{_COSTS[part]}."
            )
        if part in ("losses", "slopes") and observation.present is not None:
            value = torch.where(observation.present, value, 0.0)
        if value.device.type == "cpu":  # elsewhere this would be a host sync
            check_finite(value, part, NonFiniteError)
    F = observation.losses
    if observation.present is not None and "gramian" in required:
        raise InputError(f"present: {name} needs the gradient of every loss, found some missing; leave present out.")
    if F.shape[-1] != preference.m:
        raise InputError(
            f"losses: expected shape (..., {preference.m}), one number for each of "
            f"{', '.join(preference.names)}, found {tuple(F.shape)}."
        )
    stacked = preference.batch_shape
    if stacked and F.shape[-2:-1] != stacked:
        raise InputError(
            f"losses: expected shape (..., {stacked[0]}, {preference.m}) for a stack of {stacked[0]} "
            f"preferences, found {tuple(F.shape)}."
        )
    for part, kept in (("gramian", 2), ("slopes", 1)):
        value = getattr(observation, part)
        if value is not None and part in required and not _spreads_to(value.shape[:-kept], F.shape[:-1]):
            raise InputError(
                f"{part}: expected the batch dimensions of the losses, {tuple(F.shape[:-1])}, or ones that broadcast "
                f"to them, found {tuple(value.shape[:-kept])}."
            )


def _spreads_to(shape: torch.Size, batch: torch.Size) -> bool:
    """Whether a tensor with these batch dimensions can be expanded to those."""
    pairs = zip(reversed(shape), reversed(batch), strict=False)
    return len(shape) <= len(batch) and all(size in (1, target) for size, target in pairs)


def in_dtype_of(weights: Tensor, losses: Tensor) -> Tensor:
    """Float64 weights in the type and on the device of the losses."""
    return weights.to(losses) if losses.is_floating_point() else weights.to(losses.device)


def _as_tensor(value: ArrayLike, name: str) -> Tensor:
    """A tensor as it is; anything else in its own floating type, or float64."""
    if isinstance(value, Tensor):
        if value.is_complex():
            raise InputError(f"{name}: expected real numbers, found dtype {value.dtype}.")
        return value
    tensor = to_float64(value, name)
    kept = getattr(getattr(value, "dtype", None), "name", "")
    return tensor.to(getattr(torch, kept)) if kept in {"float32", "float16"} else tensor
