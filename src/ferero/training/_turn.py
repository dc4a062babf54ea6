"""Tells a call that brings news from one that repeats another, and lets a repeat leave the gradient as it was.

A call repeats another where an optimizer evaluates its closure again (see `ferero.training._clock`), and where a
backward pass recomputes what was not kept, as `torch.utils.checkpoint` does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ferero.training import _clock as clock

__all__ = ["Held", "Turn", "is_in_backward"]


class Held(NamedTuple):
    """What the losses of a call were multiplied by: weights (m,), and shares (m,) where several ranks train."""

    weights: Tensor
    share: Tensor | None

    def apply(self, values: Tensor) -> Tensor:
        """The weighted sum of the losses (m,), with a gradient in these very weights whatever a checkpoint recomputes.

        A checkpoint would put those of its recomputation in their place, which are a later batch's where several were
        weighted before the backward pass. So they are kept past it.
        """
        factors = self.weights if self.share is None else self.weights * self.share
        if _top_hooks(False) is None:
            loss = (factors.to(values) * values).sum()
        else:
            with saved_tensors_hooks(_as_it_is, _as_it_is):
                loss = (factors.to(values) * values).sum()
        return loss if loss.requires_grad else loss.requires_grad_()  # where every loss was missing


class Turn:
    """Whose turn it is: a call's own, or that of one before it.

    Attributes:
        held: What the last call that brought news was multiplied by.
    """

    def __init__(self) -> None:
        self.held: Held | None = None
        self._is_news_in_backward = True

    def is_news(self) -> bool:
        """Whether a call brings news; asked once at every call in training, with gradients or without.

        In a backward pass it does if the last call outside of one had no gradients: checkpoints of the reentrant kind
        run forward without them, so that the recomputation is the first call that can move anything. The others run
        forward with them, and what is recomputed was seen before.
        """
        if is_in_backward():
            return self._is_news_in_backward
        is_news = not clock.is_repeated()
        self._is_news_in_backward = is_news and not torch.is_grad_enabled()
        return is_news


def is_in_backward() -> bool:
    """Whether autograd runs a backward pass that this call is a part of."""
    return _graph_task() != -1


def _no_task() -> int:
    return -1


_graph_task = getattr(torch._C, "_current_graph_task_id", _no_task)  # torch has no public name for it


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _no_hooks(_: bool) -> None:
    return None


_top_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", _no_hooks)  # nor for this
