"""`Steer`: losses in, one scalar to minimise out, with weights that steer training to the preference."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, distributed
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.methods import check_understood
from ferero.methods._carry import RowMatch, carry_ferero_pi, take
from ferero.methods._ferero_pi import FereroPI
from ferero.methods._method import Method, check_method
from ferero.methods._sample import LARGE, is_large
from ferero.preference import Preference
from ferero.preference._assembly import no_preference
from ferero.preference._row_entries import RowEntries
from ferero.training._controller import Controller, ControllerState, advance
from ferero.training._cuda import Captured, DeferredCheck
from ferero.training._distributed import JointLosses, check_agreement, gather, ranks_of, traits_of
from ferero.training._family_losses import Index, check_family_attached, read_family_losses
from ferero.training._held_out import Correction, correct
from ferero.training._losses import Counts, Losses, Reading, zero_gradients
from ferero.training._micro_batches import MicroBatchCycle, follow_steps, watch_optimizers
from ferero.training._record import LARGEST, Record, carry_record, tracked
from ferero.training._repeats import AppliedWeights, Repeats, count_closures, is_in_backward
from ferero.training._report import Report, diagnosis_of, make_report, metrics_of


class Steer(Controller):
    """``loss = steer(losses)``: the weighted sum whose weights steer the losses to the preference.

    A `Controller` behind a loss function, and a module without parameters: put it inside your model and its state is
    saved, loaded and moved with it. Its weights change only in training mode with gradients enabled; otherwise it
    returns the sum with the weights of the last step. Repeated calls keep the weights of the first: a closure evaluated
    again within one optimizer step, and what a checkpoint recomputes in the backward pass.

    Under `torch.distributed` one all-reduce of sums and counts makes every rank see the losses of the joint batch, and
    each rank's part in the gradient is scaled so that the usual averaging over ranks gives the joint batch's gradient,
    also where a loss is missing on some ranks. At the first step the ranks compare the arguments they were built with,
    and raise an error where these differ.

    Args:
        preference: A single preference.
        method: A method that reads losses only.
        every: Micro-batches per optimizer step. The weights stay the same for that many calls, and then change once,
            by the means. A step of the optimizer before that ends the cycle, and the next call begins a new one.
        on_nonfinite: What to do with NaN or inf: "raise", or "skip" (a constant 0 comes back, which leaves no gradient
            behind; under `torch.distributed`, where every rank must take part, a gradient of 0). In neither case is
            anything updated. On a GPU this takes no host sync: all weights are 0 for that batch (the scalar is NaN, its
            gradient 0, unless the model's own backward pass makes NaN of 0), and the error comes up to 16 steps late.
        group: The process group over which losses are averaged; None for all ranks.

    Example:
        >>> import ferero, torch
        >>> f = ferero.objectives("zh", "en")
        >>> steer = ferero.Steer(ferero.Preference(f, [f.zh - f.en == 0.5]))
        >>> theta = torch.tensor([2.0, 1.0], requires_grad=True)
        >>> loss = steer({"zh": theta[0] ** 2, "en": theta[1] ** 2})
        >>> loss.backward()
    """

    sums: Tensor
    counts: Tensor
    calls: Tensor

    def __init__(
        self,
        preference: Preference,
        method: Method[Any] | None = None,
        every: int = 1,
        on_nonfinite: Literal["raise", "skip"] = "raise",
        group: distributed.ProcessGroup | None = None,
    ) -> None:
        _check_arguments(preference, method, every, on_nonfinite)
        super().__init__(preference, method)
        _set_up_process()
        self.every, self.on_nonfinite, self.group = every, on_nonfinite, group
        for name in ("sums", "counts"):
            self.register_buffer(name, torch.zeros(preference.m, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self._deferred_check, self._captured = DeferredCheck(), Captured()
        self._measured, self._has_measured = _nothing_measured(preference.m), False
        self._zero_hooks: list[RemovableHandle] = []
        self._repeats, self._cycle = Repeats(), MicroBatchCycle()
        self._is_agreed = False  # with the other ranks

    def __setstate__(self, state: dict[str, Any]) -> None:  # unpickled in a process that may have made none
        _set_up_process()
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._is_agreed = False

    def reset(self) -> None:
        """Return to the state before the first step; to be called on every rank, where several train together."""
        super().reset()
        for tensor in (self.sums, self.counts, self.calls):
            tensor.zero_()
        self._measured, self._has_measured = _nothing_measured(self.preference.m).to(self.weights.device), False
        self._deferred_check, self._captured = DeferredCheck(), Captured()
        self._repeats, self._cycle, self._is_agreed = Repeats(), MicroBatchCycle(), False

    @property
    def preference(self) -> Preference:
        """What training is steered to; :meth:`ask` changes it."""
        return self._preference

    @preference.setter
    def preference(self, preference: Preference) -> None:
        if "_preference" in self.__dict__:
            raise InputError(
                "preference: it cannot be assigned; call steer.ask(preference), which keeps what is known."
            )
        self._preference = preference

    def ask(self, preference: Preference) -> None:
        """Steer to another preference over the same losses from the next step on.

        What was learned of losses, and of constraints and rows of the order with the same coefficients, stays; levels
        may differ. New constraints start with a logit of 0. Equalities, which are one block, continue together or start
        together. Levels that move count all steps of the training: the same schedule continues, and for one that begins
        to move now write ``ferero.ramp(..., after=steer.steps)``. To be called on every rank, where several train
        together. A state saved later is loaded into a `Steer` of the new preference.

        Args:
            preference: A single preference with the same names.

        Raises:
            InputError: No single preference, or other names; nothing has changed then.
            UnsupportedError: A method other than `FereroPI`, whose state cannot be carried over.
        """
        _check_arguments(preference, self.method, self.every, self.on_nonfinite)
        old = self.preference
        if (preference.names, preference.measured) != (old.names, old.measured):
            raise InputError(
                f"ask: expected a preference over the same losses, {old.shown_names}, found "
                f"{preference.shown_names}; name them in the same order with the same measured=, or build a new "
                "Steer."
            )
        check_understood(self.method, preference)
        tensors = self._asked(preference)
        self._preference = preference
        for name, tensor in tensors.items():
            self._buffers[name] = tensor.detach().clone().to(self.weights.device)
        self._captured, self._is_agreed = Captured(), False

    def _asked(self, new: Preference) -> dict[str, Tensor]:
        """The tensors of the state under another preference."""
        if not isinstance(self.method, FereroPI):
            raise UnsupportedError(
                f"ask: expected FereroPI, found {type(self.method).__name__}, whose state belongs to its preference; "
                "build a new Steer."
            )
        for preference in (self.preference, new):
            if is_large(preference, self.method):
                raise UnsupportedError(
                    f"ask: expected preferences of at most {LARGE} inequalities, found {preference.m_g}; build a new "
                    "Steer."
                )
        old, state = self.preference, self.state
        first, match = ControllerState.first(new, self.method), RowMatch.of(old, new)
        rows, k = match.rows(old.m_g), old.A.shape[-2]
        of_multipliers = torch.cat([match.order, torch.where(rows >= 0, rows + k, -1)])
        by = torch.cat([new.b_g, new.b_h]) - take(torch.cat([old.b_g, old.b_h]), torch.cat([new.b_g, new.b_h]), rows)
        return ControllerState(
            state.weights,
            take(state.multipliers, first.multipliers.to(state.multipliers), of_multipliers),
            carry_ferero_pi(state.method, _on(first.method, self.weights.device), old, new, match),
            state.correction,
            carry_record(state.record, _on(first.record, self.weights.device), rows, by.to(self.weights)),
        ).tensors()

    def forward(self, losses: Losses, counts: Counts = None, index: Index = None) -> Tensor:
        """The weighted sum of the losses, with the graph; in training, the weights are updated first.

        Args:
            losses: (m,), a list, or scalars by name. A name may be absent or None: its weight holds, and the
                constraints it occurs in wait for it. A family has a tensor (n,) by its name, NaN where a member is
                missing.
            counts: The number of examples behind each loss, one number or (m,) or by name, so that means over ranks
                and micro-batches are means over examples; 0 means absent, and is the better choice under FSDP2, where
                all ranks must run the same backward pass. None: all batches count the same.
            index: Where the values of a family are those of a sample, the numbers of its members, (k,) integers, by the
                family's name; the others are missing. On the CPU this takes no host sync.

        Returns:
            A scalar; call ``backward()`` on it as ever.

        Raises:
            InputError: A wrong number or shape, a loss that is not attached to the graph, an index that is out of
                range or repeats, or ranks that differ.
            UnknownNameError: A name that is none of the preference's.
            NonFiniteError: NaN or inf, with ``on_nonfinite="raise"``.
        """
        is_new = self.training and self._repeats.is_new_call()
        is_attached, ranks = self.training and torch.is_grad_enabled(), ranks_of(self.group)
        if is_attached:
            if is_new and ranks > 1 and not self._is_agreed:
                self._agree()
            check_family_attached(losses, self._layout, counts)
        reading = read_family_losses(
            losses,
            counts,
            self._layout,
            self.weights.device,
            index=index,
            keep_graph=ranks > 1,
            is_compact=self._is_sampled and ranks == self.every == 1,
        )
        if not is_attached:
            return (self._weights_of(reading).to(reading.values, copy=True) * reading.values).sum()
        if not is_new:
            return self._repeat(reading, ranks)
        while self._zero_hooks:  # of a refused batch
            self._zero_hooks.pop().remove()
        step = self._gather(reading)
        if step.means.device.type != "cpu":
            weights = self._advance_on_device(step)
        elif math.isfinite(step.means.sum().item()) or bool(torch.isfinite(step.means).all()):
            with torch.inference_mode():
                weights = self._advance(step, None, reading.places)
        else:
            return self._refuse(step, reading)
        applied = self._repeats.applied = AppliedWeights(weights.to(reading.values.dtype, copy=True), step.share)
        loss = applied.sum(reading.values)
        if self.every > 1:
            follow_steps(self)
            self._cycle.count(loss if ranks == 1 else None)
        return loss

    def observe(self, **measured: float | Tensor) -> None:  # type: ignore[override]  # by name, and for the next step
        """Take in values measured outside training: held-out losses, or metrics of ``objectives(measured=...)``.

        They correct an offset on the training values and never replace them. They count from the next step on; under
        `torch.distributed` any ranks may call this, and their mean is taken.

        Raises:
            UnknownNameError: A name that is none of the preference's.
            NonFiniteError: A value that is not finite.
        """
        reading = read_family_losses(measured, None, self._layout, torch.device("cpu"))
        if not bool(torch.isfinite(reading.values).all()):
            raise NonFiniteError(f"observe: expected finite numbers, found {measured}; leave out what is not known.")
        known = torch.ones_like(reading.values) if reading.counts is None else reading.counts
        found = torch.stack([reading.values, known]).to(self._measured)
        self._measured.copy_(torch.where(found[1] > 0, found, self._measured))
        self._has_measured = True

    # what happened -------------------------------------------------------------------------------------

    @property
    def losses(self) -> Tensor:
        """Today's losses (m,), denoised and corrected by what was observed; NaN for one that never arrived."""
        record, correction = self.record, self.state.correction
        today = self._latest(correction, record).apply(tracked(record))
        return torch.where(record.seen > 0, today, torch.nan)

    def report(self) -> Report:
        """Whether every constraint is met, and what stands in the way where it is not."""
        record, correction = self.record, self.state.correction
        latest = self._latest(correction, record)
        change = latest.apply(tracked(record)) - correction.apply(tracked(record))
        return make_report(
            self.preference,
            diagnosis_of(self.method, self.preference, self.state.method),
            record,
            losses=self.losses,
            change=change,
            multipliers=self.multipliers,
            observed=latest.observed,
        )

    def metrics(self) -> dict[str, float]:
        """Figures for a logger; ``ferero/merit`` is lowest at the best feasible checkpoint."""
        record, correction = self.record, self.state.correction
        record = self._moved(record, correction, self._latest(correction, record))
        return metrics_of(self.preference, self.losses, self.weights, self.multipliers, record)

    # one step ------------------------------------------------------------------------------------------

    def _gather(self, reading: Reading) -> JointLosses:
        step, measured = gather(reading, self._measured, self.group)
        if step.share is not None:
            self._measured.copy_(measured)
            self._has_measured = True
        return step

    def _agree(self) -> None:
        if self.weights.is_cuda and torch.cuda.is_current_stream_capturing():
            return  # the host cannot read values here
        traits = traits_of(self.preference, self.method, self.every, self.on_nonfinite)
        check_agreement(traits, self.weights.device, self.group)
        self._is_agreed = True

    def _weights_of(self, reading: Reading) -> Tensor:
        """Today's weights of what was read."""
        return self.weights if reading.places is None else self.weights[reading.places]

    def _repeat(self, reading: Reading, ranks: int) -> Tensor:
        """The sum with the weights of the last new call; no state changes.

        Losses may be anything here: a line search may meet what is not finite, and handles it.
        """
        applied = self._repeats.applied
        if applied is None or reading.places is not None:  # of a sample, the state has the last weights
            applied = AppliedWeights(self._weights_of(reading).to(reading.values, copy=True), None)
        if is_in_backward():
            return _zero(reading.values) if self._zero_hooks else applied.sum(reading.values)
        if ranks > 1:
            applied = applied._replace(share=gather(reading, self._measured, self.group)[0].share)
        return applied.sum(reading.values)

    def _advance(self, step: JointLosses, is_finite: Tensor | None, places: Tensor | None = None) -> Tensor:
        """Advance the state by one step where the losses are finite, and return the weights for this batch.

        Args:
            step: The losses, (m,), or of a large family those that arrived.
            is_finite: Whether they are finite, (), where the host does not know.
            places: The numbers of those that arrived.
        """
        accept, step = is_finite, step._replace(means=step.means.to(self.weights.dtype))
        if self.every > 1:
            step, accept = self._accumulate(step, is_finite)
        if self._has_measured:
            self._correct(accept)
        if self._is_sampled:
            if accept is None or bool(accept):
                arrived = places
                if arrived is None:
                    arrived = torch.nonzero(torch.ones_like(step.means) if step.present is None else step.present)[:, 0]
                self._advance_sampled(arrived, step.means if places is not None else step.means[arrived])
            self.has_multipliers = True
            return self.weights if places is None else self.weights[places]
        state, self.has_multipliers = advance(
            self.preference, self.method, self.state, step.means, present=step.present
        )
        self._write({k: v for k, v in state.tensors().items() if not k.startswith("correction_")}, accept)
        return self.weights

    def _accumulate(self, step: JointLosses, is_finite: Tensor | None) -> tuple[JointLosses, Tensor]:
        """Add a micro-batch; the first of a cycle steps on the last cycle's means (the very first on its own)."""
        counts = torch.ones_like(step.means) if step.counts is None else step.counts.to(step.means)
        is_due, is_first = self.calls % self.every == 0, self.calls == 0
        some = self.counts.clamp(min=torch.finfo(self.counts.dtype).tiny)
        due = JointLosses(
            torch.where(is_first, step.means, self.sums / some),
            torch.where(is_first, counts, self.counts),
            step.share,
        )
        accept = is_due if is_finite is None else is_due & is_finite
        new = counts if is_finite is None else counts * is_finite
        means = step.means.clamp(-LARGEST, LARGEST)  # their sum is finite too
        self.sums.copy_(torch.where(accept, 0.0, self.sums) + means * new)
        self.counts.copy_(torch.where(accept, 0.0, self.counts) + new)
        self.calls.add_(1)
        return due, accept

    def _optimizer_stepped(self, optimizer: Optimizer) -> None:
        """Begin a new cycle, if this step has ended one early."""
        if self._cycle.is_ended_early_by(optimizer, self.every):
            self.calls.add_(-self.calls % self.every)

    def _correct(self, accept: Tensor | None) -> None:
        """Correct training values and record by the measured values, which are then used up."""
        measured, counts = self._measured
        unused = torch.where(self.record.seen > 0, 0.0, self._measured)
        super().observe(measured, counts > 0, accept)
        self._measured.copy_(unused if accept is None else torch.where(accept, unused, self._measured))
        self._has_measured = accept is not None or bool((self._measured[1] > 0).any())

    def _latest(self, correction: Correction, record: Record) -> Correction:
        """The correction with the values measured since the last step."""
        measured, counts = self._measured
        arrived = (counts > 0) & (record.seen > 0)
        return correct(correction, measured, arrived, tracked(record), self._metrics)

    # batches that are not finite -----------------------------------------------------------------------

    def _refuse(self, step: JointLosses, reading: Reading) -> Tensor:
        """On the CPU: raise, or return a zero without a gradient; no state has changed."""
        is_finite = torch.isfinite(step.means)
        if self.on_nonfinite == "raise":
            numbers = torch.nonzero(~is_finite)[:, 0]
            numbers = numbers if reading.places is None else reading.places[numbers]
            bad = [self.preference.names[i] for i in numbers.tolist()]
            raise NonFiniteError(
                f"losses: {', '.join(bad)} not finite; nothing was updated. Lower the learning rate, look for the "
                'batch, or pass on_nonfinite="skip".'
            )
        self.get_buffer("record_skipped").add_(1)
        if self.every > 1:
            self.calls.add_(1)  # the cycle of micro-batches goes on
            self._cycle.count(reading.values if step.share is None else None)
        if step.share is None:
            return torch.zeros((), dtype=reading.values.dtype, requires_grad=True)
        self._zero_hooks = zero_gradients(reading.values)
        return _zero(reading.values)

    def _advance_on_device(self, step: JointLosses) -> Tensor:
        """On a device: the same step without a host sync; a batch that is not finite changes nothing and weighs 0."""

        def advance(means: Tensor, *counts: Tensor) -> tuple[Tensor, ...]:
            is_finite = torch.isfinite(means).all()
            self.get_buffer("record_skipped").add_(~is_finite)
            safe = torch.where(torch.isfinite(means), means, 1.0)
            weights = self._advance(JointLosses(safe, *counts), is_finite)
            return (torch.where(is_finite, weights, 0.0),)

        inputs = (step.means,) if step.counts is None else (step.means, step.counts)
        if self.on_nonfinite == "raise":
            self._deferred_check.check(self.get_buffer("record_skipped"))
        key = (self.weights.data_ptr(), step.means.dtype, len(inputs), self._has_measured)
        with torch.no_grad():
            return self._captured(key, advance, *inputs)[0]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Steer:
        super()._apply(fn, recurse)
        if not self.weights.is_meta:
            self._measured = self._measured.to(self.weights.device)
        return self

    def get_extra_state(self) -> Tensor:
        """The measured values that no step has used yet, and checksums of the losses' names and of the constraints.

        Not a buffer, since DDP would overwrite it by the first rank's.
        """
        return torch.cat([self._measured.cpu(), self._checksums()], dim=-1)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        mine = f"{prefix}method_"
        found = {name for name in state_dict if name.startswith(mine)}
        expected = {f"{prefix}{name}" for name in self._buffers if name.startswith("method_")}
        if found and found != expected:
            raise InputError(
                f"state_dict: it was saved with another method or by another version of ferero, whose state is not "
                f"that of {type(self.method).__name__}; load it there, or leave out the names that begin with "
                f"{prefix!r} to start anew."
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def set_extra_state(self, state: Tensor) -> None:
        """After loading.

        Raises:
            InputError: The state was saved for other losses or constraints.
        """
        names, constraints = self._checksums().flatten()
        if state.shape == (2, self.preference.m + 1) and state[0, -1] == names and state[1, -1] != constraints:
            raise InputError(
                "state_dict: it was saved by a Steer of other constraints, or in another order; only levels may "
                "change. Load it into the same preference, or leave it out to start anew."
            )
        if state.shape != (2, self.preference.m + 1) or state[0, -1] != names:
            raise InputError(
                f"state_dict: it was saved by a Steer of other losses, or in another order, than "
                f"{self.preference.shown_names}; load it into the same preference, or leave it out to start anew."
            )
        self._measured.copy_(state[:, :-1])
        self._has_measured = True
        self._cycle.forget_phase()

    def _checksums(self) -> Tensor:
        """Of the names, and of which losses each constraint bounds from which side, (2, 1); a ray may change."""
        p = self.preference
        sides = f"{p.m_g} {p.m_h}"
        if p.ray is None:
            rows = (entries for entries in (p.entries_g, p.entries_h) if entries is not None)
            sides += "".join(f" {_places(entries, sign)}" for entries in rows for sign in (1, -1))
        found = [float(zlib.crc32(text.encode())) for text in (" ".join(p.names), sides)]
        return torch.tensor(found, dtype=torch.float64)[:, None]

    def extra_repr(self) -> str:
        """The preference, as it was written."""
        return str(self.preference)


def _places(entries: RowEntries, sign: int) -> list[list[int]]:
    """Where the coefficients of rows have a sign: row and column of each."""
    mine = entries.value * sign > 0
    return torch.stack([entries.row[mine], entries.column[mine]], dim=1).tolist()


def _on(state: Any, device: torch.device) -> Any:
    """A dataclass of tensors on a device."""
    return type(state)(*(getattr(state, field.name).to(device) for field in fields(state)))


def _zero(values: Tensor) -> Tensor:
    """A zero with the graph of the losses (m,), for backward passes that must run."""
    return (torch.where(torch.isfinite(values), values, 0.0) * 0.0).sum()


def _nothing_measured(m: int) -> Tensor:
    """Measured values, and how many times each was measured since the last step, (2, m): none."""
    return torch.zeros(2, m, dtype=torch.float64, device="cpu")


def _check_arguments(preference: Any, method: Any, every: object, on_nonfinite: object) -> None:
    if not isinstance(preference, Preference):
        raise InputError(f"preference: {no_preference(preference)}.")
    if preference.members:
        raise InputError("preference: expected a single one, found a stack; steer one model for each of them.")
    if method is not None:
        check_method(method)
    if type(every) is not int or every < 1:
        raise InputError(f"every: expected a number of micro-batches >= 1, found {every!r}.")
    if on_nonfinite not in ("raise", "skip"):
        raise InputError(f'on_nonfinite: expected "raise" or "skip", found {on_nonfinite!r}.')
    more = () if method is None else sorted(method.requires - {"losses"})
    if more:
        raise UnsupportedError(
            f"method: {type(method).__name__} also reads {' and '.join(more)}, which a loss function cannot "
            "see; use ferero.Stepper, which computes them, or ferero.FereroPI()."
        )


@cache
def _set_up_process() -> None:
    """Register the hooks on optimizers, and keep `torch.compile` out of `forward`, whose operations are tiny.

    Done when a `Steer` is first made and not when this module is imported: both import the compiler, which takes longer
    than torch does. An optimizer imports it as well, so training pays nothing for it.
    """
    count_closures()
    watch_optimizers()
    Steer.forward = torch.compiler.disable(Steer.forward)  # type: ignore[method-assign, no-untyped-call]
