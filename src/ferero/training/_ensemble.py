"""`Ensemble`: K models that train in one step, with one call for all losses, one controller and one optimizer."""

from __future__ import annotations

import dataclasses
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

from ferero.errors import InputError, UnsupportedError
from ferero.methods._method import Method
from ferero.preference import Preference
from ferero.training._controller import Controller
from ferero.training._family_losses import Layout, spelled_out
from ferero.training._halves import halve
from ferero.training._losses import LossFunction
from ferero.training._members import Members, stacked_losses
from ferero.training._slopes import SlopeKind, in_forward_mode, realized_slopes
from ferero.training._snapshot import IsolatedEvaluation

OptimizerFactory = Callable[[list[Tensor]], torch.optim.Optimizer]

ELEMENTWISE = (
    "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Adadelta", "ASGD", "Rprop",
)  # fmt: skip
"""Optimizers that treat every number by itself, so that stacked models are K separate trainings."""
_FORMS = ("fused", "foreach", "capturable")
"""Settings of an optimizer that are a matter of the device."""


class Ensemble:
    """K models that train together, each towards its own preference, as each would alone.

    A model whose losses or gradients are not finite at a step gets a gradient of 0, and its buffers stay; momentum and
    weight decay go on, as they do in a plain loop with `ferero.Steer`.

    Args:
        members: The models.
        loss_fn: ``loss_fn(model, batch)`` gives (m,) losses, or scalars by name.
        preferences: One for each member, (K,).
        method: As for `ferero.Stepper`.
        optimizer: ``optimizer(parameters)`` makes one of those in `ELEMENTWISE`.
        slopes: How slopes are measured, for methods that read them: see `ferero.Stepper`.
        double_sampling: Whether slopes are taken on the second half of a batch and gradients on the first.
        clip_norm: Largest norm of a member's gradient; None for any.
        is_own: Whether every member has batches of its own.
        rate_factors: What each member's step is multiplied by, (K,); None for 1.
        compile: Whether `torch.compile` makes one piece of the losses.
    """

    def __init__(
        self,
        members: Members,
        loss_fn: LossFunction,
        preferences: Sequence[Preference],
        *,
        method: Method[Any],
        optimizer: OptimizerFactory,
        slopes: SlopeKind = "realized",
        double_sampling: bool = True,
        clip_norm: float | None = None,
        is_own: bool = False,
        rate_factors: Sequence[float] | None = None,
        compile: bool = False,  # noqa: A002  # torch's word
    ) -> None:
        self.members, self.names = members, preferences[0].names
        self.loss_fn = spelled_out(loss_fn, Layout(self.names, preferences[0].families))
        self.device = members.parameters[0].device
        self.controller = Controller(Preference.stack(preferences), _on_device(method, self.device)).to(self.device)
        self.optimizer = make_optimizer(optimizer, members.parameters)
        self._needs_slopes, self._needs_gramian = ("slopes" in method.requires, "gramian" in method.requires)
        self._slopes, self._is_halved = slopes, self._needs_slopes and double_sampling
        self._clip_norm, self._is_own = clip_norm, is_own
        factors = None if rate_factors is None else torch.tensor(rate_factors, dtype=torch.float64, device=self.device)
        self._rate_factors = factors
        self._stacked_losses = stacked_losses(members, self.loss_fn, self.names, is_own=is_own)
        self._is_compiled = compile
        self._evaluation = IsolatedEvaluation(members.structure)
        self._compiled_losses, self._compiled_slopes = self._stacked_losses.of_all, self._forward_slopes
        if compile:
            self._compiled_losses = torch.compile(self._compiled_losses)
            self._compiled_slopes = torch.compile(self._compiled_slopes)

    @property
    def is_vmapped(self) -> bool:
        """Whether the members are evaluated together; True until the first step, which decides it."""
        return self._stacked_losses.is_vmapped

    @property
    def can_be_captured(self) -> bool:
        """Whether a step can be captured in a CUDA graph, which cannot draw the same random numbers twice."""
        return not self._evaluation.is_random

    def step(self, batch: Any) -> None:
        """Take one step of every member, without a host sync."""
        if not self._is_compiled:
            self._step(batch)
            return
        with functorch_config.patch(donated_buffer=False):  # several backward passes may follow
            self._step(batch)

    def _step(self, batch: Any) -> None:
        first, second = self._batches(batch)
        buffers = self.members.buffers
        kept = [buffer.clone() for buffer in buffers]
        losses = self._losses(first)
        if not losses.requires_grad:
            raise InputError("loss_fn: expected losses attached to the graph, found none; pass them, not .detach().")
        gradients = self._weighted_gradients(losses)
        for buffer, old in zip(buffers, kept, strict=True):
            buffer.copy_(torch.where(_spread(self.controller.is_good, buffer), buffer, old))
        seed = self._evaluation.seed() if self._needs_slopes else 0
        before = self._before(second, gradients, seed)
        if self._clip_norm is not None:
            gradients = _clipped(gradients, self._clip_norm)
        for parameter, gradient in zip(self.members.parameters, gradients, strict=True):
            parameter.grad = gradient
        self._take_step()
        if self._needs_slopes:
            self.controller.learn_slopes(self._after(second, before, seed))

    def _take_step(self) -> None:
        """The optimizer's step, times each member's rate factor."""
        if self._rate_factors is None:
            self.optimizer.step()
            return
        parameters = self.members.parameters
        before = [parameter.detach().clone() for parameter in parameters]
        self.optimizer.step()
        with torch.no_grad():
            for parameter, old in zip(parameters, before, strict=True):
                parameter.copy_(torch.lerp(old, parameter, _spread(self._rate_factors.to(old), old).expand_as(old)))

    # gradients ----------------------------------------------------------------------------------------

    def _losses(self, batch: Any) -> Tensor:
        if not self._may_compile:
            found: Tensor = self._stacked_losses.of_all(batch)
            return found
        compiled: Tensor = self._compiled_losses(batch)
        return compiled

    @property
    def _may_compile(self) -> bool:
        return self._is_compiled and self._stacked_losses.is_settled and self._stacked_losses.is_vmapped

    def _batches(self, batch: Any) -> tuple[Any, Any]:
        if not self._is_halved:
            return batch, batch
        if not self._is_own:
            return halve(batch)
        halve(tuple(tensor[0] for tensor in batch))  # raises for what cannot be halved
        return tuple(_first_half(tensor) for tensor in batch), tuple(_second_half(tensor) for tensor in batch)

    def _weighted_gradients(self, losses: Tensor) -> list[Tensor]:
        """``J^T w`` of every member, (K, ...) for each parameter; 0 for a member that is not finite."""
        if not self._needs_gramian:
            weights = self.controller.step(losses)
            found = _gradients((weights.to(losses) * losses).sum(), self.members.parameters)
        else:
            rows = [
                _gradients(losses[:, i].sum(), self.members.parameters, retain_graph=i + 1 < losses.shape[1])
                for i in range(losses.shape[1])
            ]
            weights = self.controller.step(losses, gramian=_gramian(rows))
            found = [_combined(weights, parts) for parts in zip(*rows, strict=True)]
        self.controller.refuse(~_are_finite(found))
        return [torch.where(_spread(self.controller.is_good, g), g, 0.0).contiguous() for g in found]

    # slopes -------------------------------------------------------------------------------------------

    @contextmanager
    def _isolated(self, seed: int) -> Iterator[None]:
        """Evaluations inside leave buffers and random streams as they are, and draw the same with the same seed."""
        buffers = self.members.buffers
        kept = [buffer.clone() for buffer in buffers]
        try:
            with self._evaluation.isolated(seed):
                yield
        finally:
            for buffer, old in zip(buffers, kept, strict=True):
                buffer.copy_(old)

    def _before(self, second: Any, gradients: list[Tensor], seed: int) -> Tensor | None:
        """Before the step: the losses of the second half if slopes are realised, else the slopes, (K, m)."""
        if not self._needs_slopes:
            return None
        with self._isolated(seed):
            if self._slopes == "realized":
                with torch.no_grad():
                    return self._losses(second)
            if self._slopes == "jacobian":
                return self._jacobian_slopes(second, gradients)
            with torch.no_grad(), in_forward_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, when it sets forward mode up
                return self._try_compiled_slopes(second, gradients)

    def _jacobian_slopes(self, batch: Any, gradients: list[Tensor]) -> Tensor:
        """``-J g`` by m backward passes."""
        losses = self._losses(batch)
        columns = []
        for i in range(losses.shape[1]):
            row = _gradients(losses[:, i].sum(), self.members.parameters, retain_graph=i + 1 < losses.shape[1])
            columns.append(-torch.stack([_dot(a, b) for a, b in zip(row, gradients, strict=True)]).sum(dim=0))
        return torch.stack(columns, dim=1)

    def _after(self, second: Any, before: Tensor | None, seed: int) -> Tensor:
        assert before is not None
        if self._slopes != "realized":
            return torch.nan_to_num(before.double(), nan=0.0, posinf=0.0, neginf=0.0)
        with self._isolated(seed), torch.no_grad():
            return realized_slopes(before, self._losses(second), self._step_size())

    def _step_size(self) -> float | Tensor:
        """The learning rate, or those of the members, (K, 1)."""
        rate: float | Tensor = self.optimizer.param_groups[0]["lr"]
        return rate if self._rate_factors is None else rate * self._rate_factors[:, None]

    def _try_compiled_slopes(self, batch: Any, gradients: list[Tensor]) -> Tensor:
        if not self._may_compile:
            return self._forward_slopes(batch, gradients)
        try:
            return self._compiled_slopes(batch, gradients)
        except RuntimeError as error:
            from torch._dynamo.exc import TorchDynamoException  # slow to import

            if not isinstance(error, TorchDynamoException):
                raise
            warnings.warn(
                "compile: torch.compile cannot follow the losses in forward mode (BatchNorm is known for it), and "
                'slopes are measured without it; slopes="realized" needs no forward mode.',
                stacklevel=4,
            )
            self._compiled_slopes = self._forward_slopes
            failed: list[Exception] = [error]
        _free(failed)
        return self._forward_slopes(batch, gradients)

    def _forward_slopes(self, batch: Any, gradients: list[Tensor]) -> Tensor:
        """``-J g`` by one forward-mode pass."""
        stacked = {name: tensor.detach().clone() for name, tensor in self.members.stacked.items()}
        at = {name: tensor for name, tensor in stacked.items() if tensor.is_floating_point()}  # buffers may be written
        along = {name: torch.zeros_like(tensor) for name, tensor in at.items()}
        along |= dict(zip(self.members.trained, gradients, strict=True))

        def losses(moved: dict[str, Tensor]) -> Tensor:
            still = {name: tensor.clone() for name, tensor in stacked.items() if name not in moved}
            found: Tensor = self._stacked_losses.of_all(batch, {**still, **moved})
            return found

        slopes: Tensor = torch.func.jvp(losses, (at,), (along,))[1]
        return -slopes

    # checkpoints ----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, but for torch's random numbers."""
        return {
            "members": {name: tensor.detach().cpu().clone() for name, tensor in self.members.stacked.items()},
            "optimizer": self.optimizer.state_dict(),
            "controller": self._controller_state(),
        }

    def _controller_state(self) -> dict[str, Tensor]:
        found = {name: tensor.detach().cpu().clone() for name, tensor in self.controller.named_buffers()}
        return found | {"has_multipliers": torch.tensor(self.controller.has_multipliers)}

    def _load_controller(self, state: Mapping[str, Tensor]) -> None:
        self.controller.has_multipliers = bool(state["has_multipliers"])
        self.controller.take({name: state[name].to(self.device) for name, _ in self.controller.named_buffers()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        with torch.no_grad():
            for name, tensor in self.members.stacked.items():
                tensor.copy_(state["members"][name])
        load_optimizer(self.optimizer, state["optimizer"], self.device)
        self._load_controller(state["controller"])


def _free(failed: list[Exception]) -> None:
    """Free the frames of a compilation that failed, and keep the dispatch state as it is.

    Some of them hold torch's transforms open, and closing these resets that state: left to the garbage collector, they
    turn gradients off in the middle of the user's program (torch 2.13).
    """
    with torch._C._PreserveDispatchKeyGuard():
        failed.clear()
        gc.collect()


def _on_device(method: Method[Any], device: torch.device) -> Method[Any]:
    """The method as it is, or on a GPU in the form that solves all its subprograms there at once."""
    if device.type != "cuda" or getattr(method, "solver", "batched") != "exact":
        return method
    return dataclasses.replace(method, solver="batched")  # type: ignore[type-var]


def _gradients(loss: Tensor, parameters: list[Tensor], retain_graph: bool = False) -> list[Tensor]:
    """The gradients of a scalar; 0 for a parameter it does not depend on."""
    found = torch.autograd.grad(loss, parameters, retain_graph=retain_graph, allow_unused=True, materialize_grads=True)
    return list(found)


def _are_finite(gradients: list[Tensor]) -> Tensor:
    """Whether every number of a member's gradient is finite, (K,)."""
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for gradient in gradients:
        kinds.setdefault(gradient.dtype, []).append(gradient.flatten(1))
    largest = [torch.cat(some, dim=1).abs().amax(dim=1) for some in kinds.values()]
    return torch.stack([torch.isfinite(size) for size in largest]).all(dim=0)


def _gramian(rows: list[list[Tensor]]) -> Tensor:
    """``J J^T`` of every member, (K, m, m), float64; rows[i][p] is (K, ...)."""
    flat = [torch.stack([part.flatten(1).double() for part in parts], dim=1) for parts in zip(*rows, strict=True)]
    return torch.stack([part @ part.mT for part in flat]).sum(dim=0)


def _combined(weights: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """``sum_i w_i g_i`` of every member, (K, ...)."""
    return torch.stack([_spread(weights[:, i].to(part), part) * part for i, part in enumerate(parts)]).sum(dim=0)


def _clipped(gradients: list[Tensor], largest: float) -> list[Tensor]:
    """Every member's gradient scaled down to the largest norm allowed."""
    norms = torch.stack([_dot(g, g) for g in gradients]).sum(dim=0).sqrt()
    factor = largest / norms.clamp(min=largest)
    return [g * _spread(factor.to(g), g) for g in gradients]


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """(K,), float64."""
    return (a.flatten(1).double() * b.flatten(1).double()).sum(dim=1)


def _spread(per_member: Tensor, like: Tensor) -> Tensor:
    """(K,) with as many dimensions as (K, ...)."""
    return per_member.reshape(-1, *([1] * (like.ndim - 1)))


def _first_half(tensor: Tensor) -> Tensor:
    return tensor[:, : (tensor.shape[1] + 1) // 2]


def _second_half(tensor: Tensor) -> Tensor:
    return tensor[:, (tensor.shape[1] + 1) // 2 :]


# the optimizer ------------------------------------------------------------------------------------------------


def make_optimizer(factory: Any, parameters: list[Tensor]) -> torch.optim.Optimizer:
    """Make the optimizer; on a GPU in the form that can be captured in a CUDA graph.

    Raises:
        InputError: The factory gives no optimizer, or one of other parameters.
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
    """Put learning rates on the GPU as tensors, and choose the form of the step that can be captured."""
    for group in optimizer.param_groups:
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)
        if "fused" in group:
            group["fused"], group["foreach"] = True, False
        if "capturable" in group:
            group["capturable"] = True  # torch's Adam insists on it, fused or not
    for state in optimizer.state.values():
        if "step" in state:  # on the host in Adagrad, and after a run on a CPU
            state["step"] = state["step"].to(device, torch.float32)
    quiet: Any = optimizer
    quiet._warned_capturable_if_run_uncaptured = True  # of the few steps before the capture


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any], device: torch.device) -> None:
    """Continue from a saved state, in the form of this optimizer whatever device the other ran on."""
    forms = [{key: group[key] for key in _FORMS if key in group} for group in optimizer.param_groups]
    optimizer.load_state_dict(dict(state))
    for group, form in zip(optimizer.param_groups, forms, strict=True):
        group.update(form)
    if device.type == "cuda":
        make_capturable(optimizer, device)
