"""Slopes: what a step does to each loss, (m,), negative for a loss that falls.

| | passes | result |
|---|---|---|
| `realized_slopes` | two plain forward | (losses after the step - losses before it) / step size |
| `forward_slopes` | one forward-mode | ``-J g`` along minus the gradient g, whatever m is |
| `jacobian_slopes` | m backward | the same |

`SlopeMeter` measures them around an optimizer's step.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.autograd import forward_ad

from ferero.errors import UnsupportedError
from ferero.training._distributed import bare, ranks_of
from ferero.training._snapshot import IsolatedEvaluation, LossSums

SlopeKind: TypeAlias = Literal["realized", "forward", "jacobian"]
T = TypeVar("T")
_NO_FORWARD_MODE = re.compile(r"forward[ -](mode )?(AD|differentiation)", re.IGNORECASE)
_OPERATOR = re.compile(r"forward AD with (\S+)")


def jacobian_slopes(losses: Tensor, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Tensor:
    """``-J g`` along minus the gradient g, by m backward passes of which one is kept at a time.

    Args:
        losses: (m,), with the graph, which is freed.
        parameters: What is trained.
        gradients: g, one for each; None for 0.

    Returns:
        (m,), float64.
    """
    slopes = torch.zeros(len(losses), dtype=torch.float64, device=losses.device)
    moved = [(p, g) for p, g in zip(parameters, gradients, strict=True) if g is not None]
    if not losses.requires_grad or not moved:
        return slopes
    inputs, along = zip(*moved, strict=True)
    for i in range(len(losses)):
        found = torch.autograd.grad(losses[i], inputs, retain_graph=i < len(losses) - 1, allow_unused=True)
        for row, g in zip(found, along, strict=True):
            if row is not None:
                slopes[i] -= (row * g).sum(dtype=torch.float64).to(slopes.device)
    return slopes


def forward_slopes(
    model: nn.Module,
    evaluate: Callable[[nn.Module], tuple[Tensor, T]],
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
) -> tuple[Tensor, T]:
    """``-J g`` along minus the gradient g, by one forward-mode pass.

    Args:
        model: The bare module.
        evaluate: Returns sums of losses, (m,), and any second result.
        parameters: What is trained; all of it must be the model's.
        gradients: g, one for each; None for 0.

    Returns:
        The slopes of the sums, (m,), and the second result.

    Raises:
        UnsupportedError: An operator without forward mode, or a parameter that is not the model's.
    """
    with torch.no_grad(), forward_ad.dual_level(), _exchanged(model, _duals(parameters, gradients)):
        with in_forward_mode():
            sums, rest = evaluate(model)
        tangent = forward_ad.unpack_dual(sums).tangent  # type: ignore[no-untyped-call]
        return (torch.zeros_like(sums) if tangent is None else -tangent), rest


@contextmanager
def in_forward_mode() -> Iterator[None]:
    """Name the operator where one that runs inside has no forward mode.

    Raises:
        UnsupportedError: In the place of torch's error.
    """
    try:
        yield
    except (NotImplementedError, RuntimeError) as error:
        if _NO_FORWARD_MODE.search(str(error)) is None:
            raise
        raise UnsupportedError(_without_forward_mode(str(error))) from error


def _duals(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """Each parameter with its tangent, by the parameter's id."""
    with warnings.catch_warnings():  # torch's own set-up of forward mode, at the first call, uses what it deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        return {
            id(p): forward_ad.make_dual(p.detach(), g.detach())  # type: ignore[no-untyped-call]
            for p, g in zip(parameters, gradients, strict=True)
            if g is not None
        }


@contextmanager
def _exchanged(model: nn.Module, duals: Mapping[int, Tensor]) -> Iterator[None]:
    """Duals in the places of the parameters, in all places of a tied one; cheaper than `functional_call`."""
    places = [
        (module._parameters, name, parameter)
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if id(parameter) in duals
    ]
    if len({id(parameter) for _, _, parameter in places}) < len(duals):
        raise UnsupportedError(
            'slopes="forward": the optimizer has a parameter that is not among the model\'s, so forward mode cannot '
            'reach it; make it one (a submodule of model), or take slopes="realized".'
        )
    try:
        for slots, name, parameter in places:
            slots[name] = duals[id(parameter)]  # type: ignore[assignment]  # as functional_call does
        yield
    finally:
        for slots, name, parameter in places:
            slots[name] = parameter


def realized_slopes(before: Tensor, after: Tensor, step_size: float | Tensor) -> Tensor:
    """``(after - before) / step_size``, (m,), float64; 0 where that is not finite, or the step size is 0."""
    change = after.double() - before.double()
    if isinstance(step_size, Tensor):
        slopes = change / step_size.to(change)  # of a step of 0: not finite
    else:
        slopes = change / step_size if step_size else torch.zeros_like(change)
    return torch.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)


def _without_forward_mode(message: str) -> str:
    found: Any = _OPERATOR.search(message)
    operator = found.group(1) if found else message.splitlines()[0]
    return (
        f'slopes="forward": torch has no forward mode for {operator} (it is missing for CTC, LSTM and fused attention '
        'among others); take slopes="realized", which needs none.'
    )


class SlopeMeter:
    """Measures slopes (m,) before and after an optimizer's step: means over all batches of all ranks.

    Args:
        model: What is trained.
        evaluation: Evaluates losses without side effects on training.
        sums: As for `IsolatedEvaluation`.
        kind: As for `Stepper`.
        optimizer: Whose first group's learning rate is the step size, unless one is given.
        step_size: What realised slopes are divided by.
        group: The processes that train together.
    """

    def __init__(
        self,
        model: nn.Module,
        evaluation: IsolatedEvaluation,
        sums: LossSums,
        *,
        kind: SlopeKind,
        optimizer: torch.optim.Optimizer,
        step_size: float | None,
        group: distributed.ProcessGroup | None,
    ) -> None:
        self._bare, self._evaluation, self._sums, self.kind = bare(model), evaluation, sums, kind
        self._optimizer, self._step_size, self._group = optimizer, step_size, group
        self._seed = 0

    @property
    def is_realized(self) -> bool:
        """Whether slopes come from losses before and after the step, and not from the gradient."""
        return self.kind == "realized"

    def before(self, batches: Sequence[Any], parameters: Sequence[Tensor]) -> Tensor:
        """Before the optimizer's step, with the gradient in place: the losses if realised, else the slopes, (m,)."""
        self._seed = self._evaluation.seed()
        if self.is_realized:
            return self._mean(*self._evaluation.sums(batches, self._seed), len(batches))
        gradients = [parameter.grad for parameter in parameters]
        with self._evaluation.isolated(self._seed):
            if self.kind == "forward":
                found = forward_slopes(self._bare, lambda model: self._sums(model, batches), parameters, gradients)
                return self._mean(*found, len(batches))
            with torch.enable_grad():
                sums, counts = self._sums(self._bare, batches)
            return self._mean(jacobian_slopes(sums, parameters, gradients), counts, len(batches))

    def after(self, batches: Sequence[Any], before: Tensor) -> Tensor:
        """After the step: the slopes, (m,), float64."""
        if not self.is_realized:
            return before
        step_size = self._optimizer.param_groups[0]["lr"] if self._step_size is None else self._step_size
        return realized_slopes(before, self._mean(*self._evaluation.sums(batches, self._seed), len(batches)), step_size)

    def _mean(self, sums: Tensor, counts: Tensor | None, number: int) -> Tensor:
        """Over the number of batches, or over those where each loss occurred; and over all ranks."""
        sums, ranks = sums.detach().double(), ranks_of(self._group)
        if counts is None and ranks == 1:
            return sums if number == 1 else sums / number
        both = torch.stack([sums, torch.full_like(sums, number) if counts is None else counts.to(sums)])
        if ranks > 1:
            distributed.all_reduce(both, group=self._group)
        return both[0] / both[1].clamp(min=torch.finfo(both.dtype).tiny)
