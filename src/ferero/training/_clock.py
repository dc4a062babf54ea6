"""Follows the steps of all optimizers: which evaluations of a closure are repeats, and when a step has been taken.

A loss function is not told when the parameters move. Torch's hooks on the steps of all optimizers do tell, so that
nobody has to change a loop. Registered when first needed, they cost a few microseconds a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch.optim import Optimizer

__all__ = ["follow", "is_repeated", "start"]


class _Follower(Protocol):
    """Whoever wants to know of steps."""

    def _optimizer_stepped(self, optimizer: Optimizer) -> None: ...


class _Evaluation(threading.local):
    """Whether this thread is inside a closure that was evaluated before in the same step."""

    is_repeated = False


_evaluation = _Evaluation()
_followers: WeakSet[Any] = WeakSet()


def is_repeated() -> bool:
    """Whether an optimizer evaluates its closure again within one step, as L-BFGS does to search along a line."""
    return _evaluation.is_repeated


def follow(follower: _Follower) -> None:
    """Tell it of every step from now on, for as long as it lives."""
    _followers.add(follower)


@cache
def start() -> None:
    """Begin to follow the optimizers of this process.

    `torch.compile` is kept out of the hooks, or they would run once, when a step is traced, and never again.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(torch.compiler.disable(_before_step))  # type: ignore[no-untyped-call]
    register_optimizer_step_post_hook(torch.compiler.disable(_after_step))  # type: ignore[no-untyped-call]


def _before_step(
    _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Count the evaluations of the closure, if one was given."""
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": _counted(kwargs["closure"])}
    if len(args) > 1 and callable(args[1]):
        return (args[0], _counted(args[1]), *args[2:]), kwargs
    return None


def _after_step(optimizer: Optimizer, *_: Any) -> None:
    for follower in tuple(_followers):
        follower._optimizer_stepped(optimizer)


def _counted(closure: Callable[..., Any]) -> Callable[..., Any]:
    """The closure, saying of all evaluations but the first that they are repeats; whatever it raises ends that too."""
    evaluations = 0

    @wraps(closure)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        outer, _evaluation.is_repeated = _evaluation.is_repeated, evaluations > 1
        try:
            return closure(*args, **kwargs)
        finally:
            _evaluation.is_repeated = outer

    return evaluate
