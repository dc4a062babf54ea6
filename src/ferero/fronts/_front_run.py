"""`FrontRun`: the epochs, evaluations and checkpoints of `train_front`, and the front at the end."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils import _pytree as pytree

from ferero.errors import InputError, UnsupportedError
from ferero.files._checkpoint import load_checkpoint, save_checkpoint
from ferero.fronts._front import Front
from ferero.fronts._progress_line import Watcher
from ferero.fronts._trained import Course, Trained
from ferero.preference import Preference
from ferero.training._batches import BatchSource
from ferero.training._cuda import Captured
from ferero.training._ensemble import Ensemble
from ferero.training._members import Metrics, evaluate_members, stacked_figures
from ferero.training._report import Report, judge_losses

__all__ = ["FrontPlan", "FrontRun", "ScheduleFactory"]

ScheduleFactory: TypeAlias = Callable[[torch.optim.Optimizer], LRScheduler]
_IGNORED = (
    "params",
    "foreach",
    "fused",
    "capturable",
    "differentiable",
    "initial_lr",
)  # settings that change no result
_DIVERGED = "Losses, gradients or parameters are not finite any more. Lower the learning rate, or pass clip_norm=."


@dataclass(frozen=True)
class FrontPlan:
    """The settings of a run; members are ordered by preference, then by seed.

    Attributes:
        preferences: (P,).
        seeds: (S,).
        epochs: passes over the data.
        evaluate_every: epochs between two evaluations; None evaluates at the end only.
        schedule_by: "epoch" or "step".
        held_out: the name of the data whose values drive the constraints.
        checkpoint: the file.
        step: the options of a step as text, for the checkpoint.
    """

    preferences: list[Preference]
    seeds: tuple[int, ...]
    epochs: int
    evaluate_every: int | None
    schedule_by: str
    held_out: str | None
    checkpoint: Path | None
    step: str

    @property
    def member_preferences(self) -> list[Preference]:
        """The preference of each member, (P * S,)."""
        return [preference for preference in self.preferences for _ in self.seeds]

    @property
    def member_seeds(self) -> list[int]:
        """The seed of each member, (P * S,)."""
        return list(self.seeds) * len(self.preferences)


@dataclass
class _Log:
    """The trajectory of all members, one entry per recorded step."""

    steps: list[int] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    evaluated: list[dict[str, Tensor]] = field(default_factory=list)

    def add(self, steps: int, losses: Tensor, weights: Tensor, evaluated: dict[str, Tensor]) -> None:
        self.steps.append(steps)
        self.losses.append(losses.detach().cpu().clone())
        self.weights.append(weights.detach().cpu().clone())
        self.evaluated.append({name: values.cpu() for name, values in evaluated.items()})

    def course(self, k: int) -> Course:
        names = dict.fromkeys(name for moment in self.evaluated for name in moment)
        nothing = torch.full((k + 1,), torch.nan, dtype=torch.float64)
        return Course(
            torch.tensor(self.steps, dtype=torch.int64),
            torch.stack([losses[k] for losses in self.losses]),
            torch.stack([weights[k] for weights in self.weights]),
            {name: torch.stack([moment.get(name, nothing)[k] for moment in self.evaluated]) for name in names},
        )


class FrontRun:
    """Trains an ensemble through its epochs.

    Args:
        plan: the settings.
        ensemble: the models.
        batches: the training data.
        others: the evaluation data by name.
        metrics: what to measure beside the losses.
        schedule: makes the learning-rate scheduler.
    """

    def __init__(
        self,
        plan: FrontPlan,
        ensemble: Ensemble,
        batches: BatchSource,
        others: Mapping[str, BatchSource],
        metrics: Metrics | None,
        schedule: ScheduleFactory | None,
    ) -> None:
        self.plan, self.ensemble, self.batches = plan, ensemble, batches
        self.data, self._others = {"train": batches, **others}, list(others)
        self.scheduler = None if schedule is None else _make_scheduler(schedule, ensemble.optimizer)
        measured = ensemble.controller.preference.measured if plan.held_out is None else ensemble.names
        self._figures = stacked_figures(ensemble.members, ensemble.loss_fn, metrics, ensemble.names, measured)
        self._topics = self._belongs()
        self._captured, self._can_capture = Captured(), _is_capturable(ensemble.optimizer)
        self._log, self._epoch, self._steps, self._seconds = _Log(), 0, 0, 0.0
        self._final: dict[str, dict[str, Tensor]] = {}

    def train(self, watcher: Watcher) -> Front[Trained]:
        """Trains the epochs that are left and returns the front."""
        self._resume()
        total = None if self.batches.steps is None else self.batches.steps * self.plan.epochs
        while self._epoch < self.plan.epochs:
            begin = time.perf_counter()
            self._train_epoch(watcher, total)
            self._epoch += 1
            self._after_epoch()
            self._seconds += time.perf_counter() - begin
            self._save()
            if total is None:
                watcher(self._epoch, self.plan.epochs)
        return self._front()

    def _train_epoch(self, watcher: Watcher, total: int | None) -> None:
        self.ensemble.members.structure.train()
        is_empty = True
        for batch in self.batches.epoch(self._epoch):
            is_empty = False
            self._step(batch)
            self._steps += 1
            if self._steps == 1:
                self._remember({})
            if self.scheduler is not None and self.plan.schedule_by == "step":
                self.scheduler.step()
            if total is not None:
                watcher(self._steps, total)
        if is_empty:
            raise InputError("loader: expected at least one batch an epoch, found none.")

    def _step(self, batch: Any) -> None:
        leaves, spec = pytree.tree_flatten(batch)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        can_capture = self._can_capture and self.ensemble.can_be_captured
        if not can_capture or len(tensors) < len(leaves) or not tensors[0].is_cuda:
            self.ensemble.step(batch)
            return

        def step(*parts: Tensor) -> tuple[Tensor, ...]:
            self.ensemble.step(pytree.tree_unflatten(list(parts), spec))
            return ()

        key = (str(spec), *((tensor.shape, tensor.dtype) for tensor in tensors))
        self._captured(key, step, *tensors)

    def _after_epoch(self) -> None:
        """Evaluates what is due, passes held-out values to the controller, advances the schedule."""
        plan, is_last = self.plan, self._epoch == self.plan.epochs
        is_due = plan.evaluate_every is not None and self._epoch % plan.evaluate_every == 0
        due = list(self.data) if is_last else self._others if is_due else []
        if plan.held_out is not None and plan.held_out not in due:
            due = [*due, plan.held_out]
        found = {name: self._evaluate(name) for name in due}
        if plan.held_out is not None:
            self._observe(found[plan.held_out])
        self._remember({f"{name}/{figure}": v for name, figures in found.items() for figure, v in figures.items()})
        if is_last:
            self._final = _on_host(found)
        if self.scheduler is not None and plan.schedule_by == "epoch":
            self.scheduler.step()

    def _evaluate(self, name: str) -> dict[str, Tensor]:
        """Losses and metrics on one data set, (K,) by name; leaves the random state as it was."""
        if not self.ensemble.is_vmapped:
            self._figures.is_vmapped, self._figures.is_settled = False, True
        with torch.random.fork_rng(devices=[]):
            return evaluate_members(self._figures, self.data[name], self.ensemble.names)

    def _observe(self, figures: dict[str, Tensor]) -> None:
        measured = torch.stack([figures[name] for name in self.ensemble.names], dim=1)
        arrived = torch.ones(len(self.ensemble.names), dtype=torch.bool, device=measured.device)
        self.ensemble.controller.observe(measured, arrived)

    def _remember(self, evaluated: dict[str, Tensor]) -> None:
        controller = self.ensemble.controller
        self._log.add(self._steps, controller.losses, controller.weights, evaluated)

    def _belongs(self) -> dict[str, str]:
        """What must be the same in a checkpoint and the run that resumes it; the number of epochs may differ."""
        plan, ensemble = self.plan, self.ensemble
        return {
            "losses": ", ".join(ensemble.names),
            "preferences": _describe_preferences(ensemble.controller.preference, plan.preferences),
            "seeds": str(plan.seeds),
            "model": _describe_tensors({name: tensor[0] for name, tensor in ensemble.members.stacked.items()}),
            "method": repr(ensemble.controller.method),
            "optimizer": _describe_optimizer(ensemble.optimizer),
            "schedule": "none" if self.scheduler is None else f"{type(self.scheduler).__name__} by {plan.schedule_by}",
            "step": plan.step,
            "batches": str(self.batches),
            "held_out": str(plan.held_out),
        }

    def _save(self) -> None:
        if self.plan.checkpoint is None:
            return
        state = {
            "ensemble": self.ensemble.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "log": vars(self._log),
            "final": self._final,
            "epoch": self._epoch,
            "steps": self._steps,
            "seconds": self._seconds,
            "batches": self.batches.state(),
            "random": torch.random.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
        }
        save_checkpoint(self.plan.checkpoint, self._topics, state)

    def _resume(self) -> None:
        state = None if self.plan.checkpoint is None else load_checkpoint(self.plan.checkpoint, self._topics)
        if state is None:
            return
        if state["epoch"] > self.plan.epochs:
            raise InputError(
                f"checkpoint: expected one after at most {self.plan.epochs} epochs, as many as are wanted, found "
                f"{state['epoch']} in {self.plan.checkpoint}; pass epochs={state['epoch']} or more, or name another."
            )
        self.ensemble.load_state_dict(state["ensemble"])
        if self.scheduler is not None and state["scheduler"] is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self._log = _Log(**state["log"])
        self._epoch, self._steps, self._seconds = state["epoch"], state["steps"], state["seconds"]
        self._final = state["final"] if self._epoch >= self.plan.epochs else {}
        if self._final and list(self._final) != list(self.data):  # finished, but `evaluate` names other data now
            self._final = _on_host({name: self._evaluate(name) for name in self.data})
        self.batches.go_on(state["batches"])
        torch.random.set_rng_state(state["random"])
        if state["random_cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["random_cuda"])

    def _front(self) -> Front[Trained]:
        members = range(self.ensemble.members.count)
        reports = self.ensemble.controller.reports()
        results = tuple(self._trained(k, reports[k]) for k in members)
        return Front(torch.stack([r.losses for r in results]), tuple(r.preference for r in results), results)

    def _trained(self, k: int, report: Report) -> Trained:
        plan, controller = self.plan, self.ensemble.controller
        evaluated = {
            data: {figure: float(values[k]) for figure, values in figures.items()}
            for data, figures in self._final.items()
        }
        losses = torch.tensor([evaluated["train"][name] for name in self.ensemble.names], dtype=torch.float64)
        driving = evaluated["train" if plan.held_out is None else plan.held_out]
        values = losses.new_tensor([driving[name] for name in self.ensemble.names])
        parameters = self.ensemble.members.parameters
        is_finite = bool(torch.isfinite(losses).all()) and all(bool(torch.isfinite(p[k]).all()) for p in parameters)
        is_finite = is_finite and 2 * report.skipped <= self._steps
        status, advice = judge_losses(plan.member_preferences[k], values, report)
        return Trained(
            preference=plan.member_preferences[k],
            losses=losses,
            status=status if is_finite else "diverged",
            message=advice if is_finite else _DIVERGED,
            weights=controller.weights[k].cpu(),
            multipliers=controller.multipliers_of(k),
            seed=plan.member_seeds[k],
            steps=self._steps,
            seconds=self._seconds / self.ensemble.members.count,
            evaluated=evaluated,
            course=self._log.course(k),
            state_dict=self.ensemble.members.state_dict(k),
        )


def _on_host(found: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    return {data: {figure: values.cpu() for figure, values in figures.items()} for data, figures in found.items()}


def _make_scheduler(schedule: Any, optimizer: torch.optim.Optimizer) -> LRScheduler:
    """The scheduler of the ensemble's optimizer.

    Raises:
        InputError: for what is no scheduler of this optimizer.
        UnsupportedError: for one that follows a measured value, of which there is one per model.
    """
    made = schedule(optimizer) if callable(schedule) else schedule
    if isinstance(made, LRScheduler | ReduceLROnPlateau) and made.optimizer is not optimizer:
        raise InputError(
            f"schedule: expected a function from the optimizer to its scheduler, found a {type(made).__name__} of "
            f"another optimizer; write lambda optimizer: {type(made).__name__}(optimizer, ...)."
        )
    if isinstance(made, ReduceLROnPlateau):
        raise UnsupportedError(
            "schedule: ReduceLROnPlateau follows the value of one model, and there are many here; take one that counts "
            "steps or epochs, or ferero.sweep, which trains them one by one."
        )
    if not isinstance(made, LRScheduler):
        raise InputError(
            "schedule: expected a function from an optimizer to one of torch's schedulers, such as lambda optimizer: "
            f"torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs), found {type(made).__name__}."
        )
    return made


def _is_capturable(optimizer: torch.optim.Optimizer) -> bool:
    return all(bool(group.get("fused")) or bool(group.get("capturable")) for group in optimizer.param_groups)


def _describe_preferences(stacked: Preference, preferences: Sequence[Preference]) -> str:
    """Their text, which may be rounded, and a checksum of their numbers."""
    numbers = (stacked.A, stacked.B_g, stacked.b_g, stacked.margins, stacked.B_h, stacked.b_h)
    content = b"|".join(tensor.detach().cpu().double().numpy().tobytes() for tensor in numbers)
    return f"{'; '.join(str(preference) for preference in preferences)} (mark {_checksum(content)})"


def _describe_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Their count and a checksum of their names and shapes."""
    shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
    return f"{len(tensors)} tensors (mark {_checksum(shapes.encode())})"


def _describe_optimizer(optimizer: torch.optim.Optimizer) -> str:
    """Its class and the settings of its groups, as they are before a schedule changes them."""
    groups = [{key: value for key, value in group.items() if key not in _IGNORED} for group in optimizer.param_groups]
    texts = [", ".join(f"{key}={_setting(value)}" for key, value in group.items()) for group in groups]
    return f"{type(optimizer).__name__}({'; '.join(texts)})"


def _setting(value: Any) -> Any:
    return f"{float(value):.6g}" if isinstance(value, Tensor | float) else value


def _checksum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
