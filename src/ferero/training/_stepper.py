"""`Stepper`: a whole training step, for methods that read gradients of single losses, or slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from ferero.errors import InputError, NonFiniteError
from ferero.methods._method import Method
from ferero.preference import Preference
from ferero.training._cuda import Branch, Captured, is_capturing
from ferero.training._distributed import JointLosses, bare, check_ddp_is_called, ddp_of, gather, share_buffers
from ferero.training._family_losses import Layout, check_family_attached, read_family_losses
from ferero.training._halves import Splitter, halve
from ferero.training._jacobian import JacobianRows, add_to_gradients, average_rows, gramian, jacobian
from ferero.training._losses import Losses, LossFunction, Reading
from ferero.training._optimizer_update import OptimizerUpdate
from ferero.training._report import Report
from ferero.training._slopes import SlopeKind, SlopeMeter
from ferero.training._snapshot import IsolatedEvaluation, Snapshot
from ferero.training._stepper_checks import check_acts, check_model, check_options, check_steering
from ferero.training._stepper_controller import StepperController


@dataclass(frozen=True, eq=False)
class Stepped:
    """What a call of `Stepper.step` did.

    Attributes:
        losses: F of the batch, or of its first half, (m,); means over all ranks.
        weights: Those of this step, (m,).
        multipliers: ``[lam_f; lam_g; lam_h]``, (k + m_g + m_h,); None for methods that have none.
        stepped: Whether the optimizer took a step: once in ``accumulate`` calls.
        skipped: Whether the call was left out because something was not finite; in a captured graph a tensor.
    """

    losses: Tensor
    weights: Tensor
    multipliers: Tensor | None
    stepped: bool
    skipped: bool | Tensor
    preference: Preference = field(repr=False)

    @property
    def violation(self) -> Tensor:
        """``[G]_+`` then ``|H|`` of the losses, (m_g + m_h,)."""
        return self.preference.violation(self.losses)


@dataclass
class _StepCycle:
    """The calls that together make one optimizer step.

    Attributes:
        snapshot: The buffers before the first call.
        calls: The number of calls so far.
        proposal: What the controller commits once the step has been taken; the weights first.
        seconds: The batches on which slopes are measured.
        is_spoiled: Whether the gramian was not finite.
        before: Their losses before the step, where those are computed early, (m,).
    """

    snapshot: Snapshot | None = None
    calls: int = 0
    proposal: Sequence[Tensor] = ()
    seconds: list[Any] = field(default_factory=list)
    is_spoiled: bool = False
    before: Tensor | None = None


class Stepper:
    """``out = stepper.step(batch)``: one training step with a method that reads a gramian, or slopes.

        losses F of the batch -> method -> weights w -> gradient of w.F -> clip -> optimizer.step

    Methods of slopes see at each step what the step before did. With ``double_sampling`` the batch is halved: F and the
    gradient are those of the first half, and the slopes of the second, so the slopes are independent of the gradient's
    noise (Algorithm 3). Methods of a gramian take m backward passes on the whole batch, and none besides.

    A step in which a loss, a gradient or a weight is not finite is refused: parameters, optimizer, multipliers, slopes
    and buffers stay as they were, and a call that is refused is as if it had not been made (where it raises, the whole
    cycle of ``accumulate`` calls is). Only what `loss_fn` raises in its last evaluation, after the optimizer's step,
    comes when that step counts already; a loss that is not finite there is met by the next step. On a GPU this check
    is one host sync a step. Captured in a CUDA graph (after some plain steps, with an optimizer that can be captured)
    a step has none: a bad step changes nothing there either, but raises no error: see ``out.skipped``.

    A step is taken in whatever mode the model is, training or not. A name may be absent from the losses, or None,
    except with methods of a gramian: its weight holds, and ``out.losses`` has NaN there.

    Under DistributedDataParallel losses, slopes and gramian are those of the joint batch, and all ranks decide alike;
    `loss_fn` is then also called with the bare module. Under `fully_shard` slopes must be "realized".

    Args:
        model: What is trained.
        loss_fn: ``loss_fn(model, batch)`` gives the losses, (m,) or scalars by name, with the graph.
        preference: A single preference.
        optimizer: Its groups' parameters that require a gradient are those that count.
        method: Any method.
        slopes: "realized" (losses after the optimizer's step less those before, divided by the step size: two plain
            forward passes), "forward" (infinitesimal, along minus the gradient before clipping: one forward-mode
            pass) or "jacobian" (the same by m backward passes).
        double_sampling: Whether slopes are taken on other examples than the gradient.
        split: A function from a batch to its two halves; None halves tensors along their first dimension.
        accumulate: Calls that make one optimizer step. The weights of the first hold for all of them.
        clip_norm: Largest norm of the gradient.
        scaler: A `torch.amp.GradScaler`; a step that it skips changes nothing here either.
        on_nonfinite: "raise" or "skip".
        generator: Draws the halves at random.
        step_size: What realised slopes are divided by; None for the first group's learning rate.
        chunk: Losses per backward pass of a gramian; above 1 they are vmapped.
        group: The processes that train together; None for all.

    Example:
        >>> import ferero
        >>> model = nn.Linear(1, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> loss_fn = lambda model, x: (model(x) - torch.tensor([1.0, -1.0])).square().mean(dim=0)
        >>> stepper = Stepper(model, loss_fn, ferero.Preference.ray([1.0, 1.0]), optimizer, method=ferero.Ferero())
        >>> stepper.step(torch.rand(8, 1)).stepped
        True
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFunction,
        preference: Preference,
        optimizer: torch.optim.Optimizer,
        *,
        method: Method[Any],
        slopes: SlopeKind = "realized",
        double_sampling: bool = True,
        split: Splitter | None = None,
        accumulate: int = 1,
        clip_norm: float | None = None,
        scaler: torch.amp.GradScaler | None = None,
        on_nonfinite: Literal["raise", "skip"] = "raise",
        generator: torch.Generator | None = None,
        step_size: float | None = None,
        chunk: int = 1,
        group: distributed.ProcessGroup | None = None,
    ) -> None:
        check_steering(method, preference)
        check_options(
            slopes=slopes,
            accumulate=accumulate,
            chunk=chunk,
            clip_norm=clip_norm,
            step_size=step_size,
            on_nonfinite=on_nonfinite,
            split=split,
            loss_fn=loss_fn,
            scaler=scaler,
            generator=generator,
        )
        check_acts(method, slopes, double_sampling, split=split, generator=generator, step_size=step_size, chunk=chunk)
        self._update = OptimizerUpdate(optimizer, clip_norm, scaler, group)
        parameters = self._update.parameters() if hasattr(optimizer, "param_groups") else []
        check_model(model, optimizer, parameters, method=method, slopes=slopes, step_size=step_size, group=group)
        self.model, self.loss_fn, self.preference, self.optimizer = model, loss_fn, preference, optimizer
        self.method, self.double_sampling, self.split, self.generator = method, double_sampling, split, generator
        self.accumulate, self.on_nonfinite, self.chunk, self.group = accumulate, on_nonfinite, chunk, group
        self._needs_slopes, self._needs_gramian = (part in method.requires for part in ("slopes", "gramian"))
        self._ddp = ddp_of(model)
        self._evaluation = IsolatedEvaluation(model.module if self._ddp is model else model, self._sums)
        self._meter = SlopeMeter(
            model, self._evaluation, self._sums, kind=slopes, optimizer=optimizer, step_size=step_size, group=group
        )
        self._controller = StepperController(preference, method).to(parameters[0].device)
        self._captured, self._branch, self._cycle = Captured(), Branch(parameters[0].device), _StepCycle()
        self._nothing_measured = torch.zeros(2, preference.m, dtype=torch.float64, device=parameters[0].device)

    def step(self, batch: Any, twin: Any = None) -> Stepped:
        """Zero the gradients, forward, backward, and the optimizer's step.

        Args:
            batch: What `loss_fn` takes.
            twin: A second batch for the slopes, so that the first need not be halved.

        Raises:
            InputError: A batch that cannot be halved, or losses that do not fit the preference.
            NonFiniteError: With ``on_nonfinite="raise"``; nothing has changed.
            UnsupportedError: An operator without forward mode, with ``slopes="forward"``.
        """
        random_state = None if self.generator is None else self.generator.get_state()
        snapshot = self._evaluation.take_snapshot()
        try:
            first, second = self._batches(batch, twin)
            if self._cycle.calls == 0:
                self.optimizer.zero_grad(set_to_none=True)
                self._cycle = _StepCycle(snapshot)
            out = self._call(first, second, snapshot)
        except BaseException:
            self._abandon()
            self._restore_generator(random_state)
            raise
        if out.skipped is True:
            self._restore_generator(random_state)
        return out

    # what happened -------------------------------------------------------------------------------------

    @property
    def weights(self) -> Tensor:
        """Those of the last step, (m,)."""
        return self._controller.weights.clone()

    @property
    def multipliers(self) -> Tensor | None:
        """Those of the last step, (k + m_g + m_h,); None for methods that have none."""
        return self._controller.multipliers.clone() if self._controller.has_multipliers else None

    @property
    def losses(self) -> Tensor:
        """Today's losses (m,), denoised; NaN for one that never arrived."""
        return self._controller.losses

    @property
    def violation(self) -> Tensor:
        """``[G]_+`` then ``|H|`` of today's losses, (m_g + m_h,)."""
        return self._controller.violation

    def report(self) -> Report:
        """Whether every constraint is met, and what stands in the way where it is not."""
        return self._controller.report()

    def metrics(self) -> dict[str, float]:
        """Figures for a logger; ``ferero/merit`` is lowest at the best feasible checkpoint."""
        return self._controller.metrics()

    # checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, but for model, optimizer, scaler and torch's random numbers.

        Raises:
            InputError: In the middle of ``accumulate`` calls, whose gradients are in no state dict.
        """
        if self._cycle.calls:
            raise InputError(
                f"state_dict: expected no gradients in the making, found {self._cycle.calls} of {self.accumulate} "
                "calls; save after a step whose out.stepped is True."
            )
        return self._controller.saved_state(self.generator)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state.

        Raises:
            InputError: It was saved by another version, or for other losses, other numbers of constraints or another
                class of method; thresholds and gains may differ.
        """
        self._controller.load_saved(state, self.generator)
        self._cycle = _StepCycle()

    # one call ------------------------------------------------------------------------------------------

    def _batches(self, batch: Any, twin: Any) -> tuple[Any, Any]:
        """The batch of the gradient, and that of the slopes."""
        if twin is not None and not (self._needs_slopes and self.double_sampling):
            why = (
                "double_sampling=False" if self._needs_slopes else f"{type(self.method).__name__}, which has no slopes"
            )
            raise InputError(f"twin: expected None with {why}, found a second batch; leave it out.")
        if not self._needs_slopes or not self.double_sampling:
            return batch, batch
        if twin is not None:
            return batch, twin
        if self.split is None:
            return halve(batch, self.generator)
        halves = self.split(batch)
        if len(halves) != 2:
            raise InputError(f"split: expected a function that gives two halves, found {len(halves)} back.")
        return halves[0], halves[1]

    def _restore_generator(self, state: Tensor | None) -> None:
        """Let the generator draw again what a refused call has drawn."""
        if self.generator is not None and state is not None:
            self.generator.set_state(state)

    def _call(self, first: Any, second: Any, snapshot: Snapshot) -> Stepped:
        cycle = self._cycle
        cycle.seconds.append(second)
        if is_capturing() and snapshot.is_empty and self._meter.is_realized and self.accumulate == 1:
            with self._branch.beside():
                cycle.before = self._before([])
        is_last = cycle.calls + 1 == self.accumulate
        with nullcontext() if is_last or self._ddp is None or self._needs_gramian else self._ddp.no_sync():
            reading = self._forward(first)
            joint, _ = gather(reading, self._nothing_measured, self.group)
            is_late = is_capturing() or (joint.means.is_cuda and self.accumulate == 1)
            if not is_late and not bool(torch.isfinite(joint.means).all()):
                snapshot.restore()
                cycle.seconds.pop()
                return _of_present(self._refuse(joint.means, self._bad_losses(joint.means)), joint.counts)
            self._add_gradient(reading, joint)
        cycle.calls += 1
        out = self._finish(joint.means) if is_last else self._stepped(joint.means, cycle.proposal)
        return _of_present(out, joint.counts)

    def _forward(self, batch: Any) -> Reading:
        """The losses with the graph; for a gramian those of the bare module: a wrapper would average the gradients."""
        if self._needs_gramian:
            losses = self.loss_fn(bare(self.model), batch)
        else:
            ddp = self._ddp if self._ddp is self.model else None  # inside torch.compile a hook would break the graph
            with check_ddp_is_called(ddp):
                losses = self.loss_fn(self.model, batch)
        check_family_attached(losses, self._layout)
        reading = self._read(losses)
        if self._needs_gramian and reading.counts is not None:
            missing = [n for n, count in zip(self.preference.names, reading.counts.tolist(), strict=True) if not count]
            raise InputError(
                f"losses: {type(self.method).__name__} needs the gradient of every loss at every step, found none of "
                f"{', '.join(missing)}; give every batch examples of it, or take ferero.FereroPI()."
            )
        if self._needs_gramian and self._ddp is not None:
            share_buffers(self._ddp, self.group)
        return reading

    def _read(self, losses: Losses) -> Reading:
        device = self._controller.weights.device
        return read_family_losses(losses, None, self._layout, device, keep_graph=self._ddp is not None)

    @property
    def _layout(self) -> Layout:
        return Layout(self.preference.names, self.preference.families)

    def _sums(self, model: nn.Module, batches: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Sums of the losses over batches, and in how many each occurred, (m,); None for all."""
        readings = [self._read(self.loss_fn(model, batch)) for batch in batches]
        values = [reading.values for reading in readings]
        sums = values[0] if len(values) == 1 else torch.stack(values).sum(dim=0)
        if all(reading.counts is None for reading in readings):
            return sums, None
        counts = [torch.ones_like(r.values.detach()) if r.counts is None else r.counts for r in readings]
        return sums, torch.stack(counts).sum(dim=0)

    def _add_gradient(self, reading: Reading, joint: JointLosses) -> None:
        """Add the gradient of this batch's weighted losses to that of the cycle; at its first call find the weights."""
        cycle, parameters = self._cycle, self._update.parameters()
        own = self._update.scale(reading.values if joint.share is None else reading.values * joint.share)
        rows: JacobianRows | None = None
        if not cycle.proposal and self._needs_gramian:
            rows = average_rows(jacobian(own, parameters, self.chunk), parameters, len(own), self.group)
            scale = self._update.scale(torch.ones_like(own[0]))
            cycle.proposal = self._propose(joint, gramian(rows, own) / scale.double().square())
        elif not cycle.proposal:
            cycle.proposal = self._propose(joint, None)
        weights = cycle.proposal[0].to(own)
        weights = weights / self.accumulate if self.accumulate > 1 else weights
        if not self._needs_gramian:
            (weights * own).sum().backward()  # type: ignore[no-untyped-call]
            return
        if rows is None:
            rows = average_rows(jacobian((weights * own).sum()[None], parameters), parameters, 1, self.group)
            weights = torch.ones_like(weights[:1])
        add_to_gradients(parameters, rows, weights)

    def _propose(self, joint: JointLosses, K: Tensor | None) -> Sequence[Tensor]:
        controller, counts = self._controller, joint.counts
        if controller.weights.device != joint.means.device:
            controller.to(joint.means.device)
        if K is not None:
            self._cycle.is_spoiled = not bool(torch.isfinite(K).all())
            if self._cycle.is_spoiled:
                return controller.propose_nothing()
            return controller.propose(joint.means, counts, K)
        inputs = (joint.means,) if counts is None else (joint.means, counts)
        key = (controller.weights.data_ptr(), joint.means.dtype, len(inputs))
        with torch.no_grad():
            if is_capturing():
                return controller.propose(joint.means, counts, branch=self._branch)
            return self._captured(key, controller.propose, *inputs)

    # the optimizer's step --------------------------------------------------------------------------------

    def _finish(self, means: Tensor) -> Stepped:
        """Take the step if everything is finite, and measure its slopes."""
        cycle, update, parameters = self._cycle, self._update, self._update.parameters()
        update.unscale()
        before = self._before(parameters) if cycle.before is None else cycle.before
        largest = update.largest(parameters, means.device)
        self._branch.join()
        numbers = torch.cat([x.double() for x in (means, cycle.proposal[0], before, largest[None])]).sum()
        is_good = numbers - numbers == 0
        where = is_good if is_capturing() else None
        if where is None and (cycle.is_spoiled or not bool(is_good)):
            return self._refuse_step(means, before)
        update.take(parameters, where)
        try:
            slopes = self._meter.after(cycle.seconds, before) if self._needs_slopes else None
        except BaseException:  # the step has been taken, so it counts; its slopes are not known
            self._controller.commit(cycle.proposal, torch.zeros_like(self._controller.slopes), where)
            self._cycle = _StepCycle()
            raise
        self._controller.commit(cycle.proposal, slopes, where)
        if where is not None and cycle.snapshot is not None:
            cycle.snapshot.restore(unless=where)
        self._cycle = _StepCycle()
        return self._stepped(means, cycle.proposal, stepped=True, skipped=False if where is None else ~where)

    def _before(self, parameters: Sequence[Tensor]) -> Tensor:
        """What the slopes need of the second batches before the step, (m,); (0,) for methods without slopes."""
        if not self._needs_slopes:
            return self._nothing_measured.new_zeros(0)
        return self._meter.before(self._cycle.seconds, parameters)

    def _stepped(
        self, means: Tensor, proposal: Sequence[Tensor], *, stepped: bool = False, skipped: bool | Tensor = False
    ) -> Stepped:
        weights, multipliers = proposal[:2] if proposal else (self._controller.weights, self._controller.multipliers)
        own = multipliers.clone() if self._controller.has_multipliers else None
        return Stepped(means, weights.clone(), own, stepped, skipped, self.preference)

    # what is not finite ----------------------------------------------------------------------------------

    def _refuse_step(self, means: Tensor, before: Tensor) -> Stepped:
        """Give up a whole cycle, and say what was not finite."""
        weights = self._cycle.proposal[0]
        what = self._bad_losses(means) or "the gradient"
        if what == "the gradient" and not bool(torch.isfinite(weights).all()):
            what = f"the weights that {type(self.method).__name__} gave"
        elif what == "the gradient" and not bool(torch.isfinite(before).all()):
            what = "the losses or slopes of the second batch"
        self._abandon()
        return self._refuse(means, what, is_usual=what == "the gradient" and self._update.is_scaling)

    def _refuse(self, means: Tensor, what: str, is_usual: bool = False) -> Stepped:
        if self.on_nonfinite == "raise" and not is_usual:
            raise NonFiniteError(
                f"step: not finite: {what}; nothing was updated. Lower the learning rate, look for the batch, or pass "
                f'on_nonfinite="skip".{self._unbounded()}'
            )
        self._controller.count_skipped()
        return self._stepped(means, self._cycle.proposal, skipped=True)

    def _unbounded(self) -> str:
        """Advice for a method whose multipliers may grow without bound."""
        if getattr(self.method, "bound", 0.0) is not None or not self.preference.m_g + self.preference.m_h:
            return ""
        name = type(self.method).__name__
        return f" If a constraint cannot be met, its multiplier grows without end: {name}(bound=10.0) stops that."

    def _abandon(self) -> None:
        """Roll back to before the cycle."""
        self._branch.join()
        if self._cycle.snapshot is not None:
            self._cycle.snapshot.restore()
        self._update.give_up()
        self.optimizer.zero_grad(set_to_none=True)
        self._cycle = _StepCycle()

    def _bad_losses(self, means: Tensor) -> str:
        """The names of losses that are not finite."""
        is_finite = torch.isfinite(means).tolist()
        return ", ".join(name for name, ok in zip(self.preference.names, is_finite, strict=True) if not ok)

    def __repr__(self) -> str:
        return f"Stepper({self.method}, {self.preference}, slopes={self._meter.kind!r}, accumulate={self.accumulate})"


def _of_present(out: Stepped, counts: Tensor | None) -> Stepped:
    """NaN in the place of losses that were missing."""
    if counts is None:
        return out
    return replace(out, losses=torch.where(counts > 0, out.losses, torch.nan))
