"""Tells new calls of a steer from repeated ones, which must not move its weights.

A call is repeated where an optimizer evaluates its closure again within one step, as the line search of L-BFGS does,
and where a backward pass recomputes a forward pass, as `torch.utils.checkpoint` does. A hook on the steps of all
optimizers counts the evaluations of closures, so no training loop has to change; it costs a few microseconds a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Optimizer


class Repeats:
    """Knows for each call in training whether it is new.

    Attributes:
        applied: The weights of the last new call.
    """

    def __init__(self) -> None:
        self.applied: AppliedWeights | None = None
        self._is_new_in_backward = True

    def is_new_call(self) -> bool:
        """Whether this call is new; to be asked once at every call in training, with gradients or without.

        Checkpoints of the reentrant kind run forward without gradients, so their recomputation in the backward pass is
        the first call that can move the weights, and new. Those of the other kind run forward with gradients, and
        their recomputation is a repeat.
        """
        if is_in_backward():
            return self._is_new_in_backward
        is_new = not is_repeated_closure()
        self._is_new_in_backward = is_new and not torch.is_grad_enabled()
        return is_new


class AppliedWeights(NamedTuple):
    """What a call multiplied its losses by: weights (m,), and shares (m,) where several ranks train."""

    weights: Tensor
    share: Tensor | None

    def sum(self, values: Tensor) -> Tensor:
        """The weighted sum of the losses (m,), whose gradient uses these weights whatever a checkpoint recomputes.

        A checkpoint replaces saved tensors by recomputed ones, and recomputed weights would be those of a later batch
        where several losses were weighted before the backward pass. So the weights bypass its saved-tensor hooks.
        """
        factors = self.weights if self.share is None else self.weights * self.share
        if _top_hooks(False) is None:
            loss = (factors.to(values) * values).sum()
        else:
            with saved_tensors_hooks(_identity, _identity):
                loss = (factors.to(values) * values).sum()
        return loss if loss.requires_grad else loss.requires_grad_()  # where every loss was missing


def is_in_backward() -> bool:
    """Whether autograd runs a backward pass that this call is a part of."""
    return _graph_task() != -1


def _identity(tensor: Tensor) -> Tensor:
    return tensor


# torch has no public names for these two
_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_top_hooks: Callable[[bool], Any] = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None)


# closures -------------------------------------------------------------------------------------------------


class _Evaluation(threading.local):
    """Whether this thread is inside a closure that was evaluated before in the same step."""

    is_repeated = False


_evaluation = _Evaluation()


def is_repeated_closure() -> bool:
    """Whether an optimizer is evaluating its closure again within one step."""
    return _evaluation.is_repeated


def count_closures() -> None:
    """From now on count the evaluations of closures by all optimizers of this process.

    `torch.compile` is kept out of the hook, or it would run once, when a step is traced, and never again.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(torch.compiler.disable(_before_step))  # type: ignore[no-untyped-call]


def _before_step(
    _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": _counted(kwargs["closure"])}
    if len(args) > 1 and callable(args[1]):
        return (args[0], _counted(args[1]), *args[2:]), kwargs
    return None


def _counted(closure: Callable[..., Any]) -> Callable[..., Any]:
    """The closure, with `is_repeated_closure` true inside all its evaluations but the first."""
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
