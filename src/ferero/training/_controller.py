"""`Controller`: the steering state, with values of losses in and weights out; the only object that keeps state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, overload

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero.methods import check_understood
from ferero.methods._ferero_pi import FereroPI
from ferero.methods._method import Diagnosis, Method, Observation, check_method
from ferero.methods._rows import rows_of
from ferero.methods._sample import SampledState, is_large
from ferero.preference import Preference
from ferero.preference._assembly import no_preference
from ferero.training import _buffers as buffers
from ferero.training._family_losses import Index, Layout, read_family_values, read_members
from ferero.training._held_out import Correction, correct
from ferero.training._record import PER_ROW, Record, advance_record, shift_record, tracked
from ferero.training._report import Report, diagnosis_of, make_report, metrics_of
from ferero.training._sampled_step import advance_sampled


@dataclass(frozen=True, eq=False)
class ControllerState:
    """Everything the next step depends on, for one model or, with a leading dimension, for K of them.

    Attributes:
        weights: Those of the last step, (..., m).
        multipliers: The same, (..., k + m_g + m_h).
        method: The method's own state.
        correction: The correction by held-out values.
        record: Statistics for the report.
    """

    weights: Tensor
    multipliers: Tensor
    method: Any
    correction: Correction
    record: Record

    @classmethod
    def first(cls, preference: Preference, method: Method[Any]) -> ControllerState:
        """Before the first step."""
        batch, m, rows = preference.batch_shape, preference.m, preference.m_g + preference.m_h
        of_method = method.init(preference)
        return cls(
            preference.A.mean(dim=-2),
            torch.zeros(*batch, preference.A.shape[-2] + rows, dtype=torch.float64),
            SampledState.first(of_method) if is_large(preference, method) else of_method,
            Correction.none(*batch, m),
            Record.empty(m, rows, batch),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name, such as ``record_mean``."""
        found = {"weights": self.weights, "multipliers": self.multipliers}
        for prefix, part in (("method", self.method), ("correction", self.correction), ("record", self.record)):
            found |= buffers.named(prefix, part)
        return found


def advance(
    preference: Preference,
    method: Method[Any],
    state: ControllerState,
    values: Tensor,
    *,
    present: Tensor | None = None,
    gramian: Tensor | None = None,
    slopes: Tensor | None = None,
    beside: AbstractContextManager[None] | None = None,
) -> tuple[ControllerState, bool]:
    """One step: correct the values by held-out measurements, ask the method for weights, and update the record.

    Args:
        preference: The preference; a stack of K for K models.
        method: Gives the weights.
        state: That of the last step.
        values: The losses, (..., m), finite, float64.
        present: Which of them arrived, (m,), bool; None for all.
        gramian: (..., m, m), for methods that read it.
        slopes: (..., m), the same.
        beside: Where the record, for which the weights do not wait, may be computed.

    Returns:
        The next state, and whether the method gives multipliers.
    """
    correction = state.correction
    corrected = correction.apply(values)
    known = present
    if preference.measured:  # a metric counts from its first measurement on
        measured = (correction.observed > 0) | ~_is_metric(preference, values.device)
        known = measured if present is None else measured & present
    with nullcontext() if beside is None else beside:
        rows = rows_of(preference, values.device, values.dtype)
        record = advance_record(state.record, rows, values, corrected, present)
    observation = Observation(corrected, gramian=gramian, slopes=slopes, present=known)
    decision, of_method = method.update(preference, observation, state.method)
    weights = decision.weights.to(state.weights.dtype)
    weights = correction.weights(weights) if preference.measured else weights
    multipliers = state.multipliers if decision.multipliers is None else decision.multipliers
    return ControllerState(weights, multipliers, of_method, correction, record), decision.multipliers is not None


@lru_cache(maxsize=256)
def _is_metric(preference: Preference, device: torch.device) -> Tensor:
    """Which losses are metrics in units of their own, (m,), bool; cached, since every step needs it."""
    measured = set(preference.measured)
    return torch.tensor([name in measured for name in preference.names], device=device)


class Controller(nn.Module):
    """``weights = controller.step(values)``: the weights that steer losses to the preference.

    It needs no graph and no optimizer, only values: numbers by name, of Python, numpy, torch or JAX, give weights by
    name, so it steers a JAX loop, rewards in reinforcement learning, a boosting round or a simulator. `Steer` puts one
    behind a loss function, `Stepper` behind a whole step, `train_front` one behind K models. A module without
    parameters, whose state is saved, loaded and moved as buffers.

    Args:
        preference: The preference; a stack (`Preference.stack`) steers K models at once.
        method: `FereroPI` if None.

    Attributes:
        weights: Those of the last step, (m,), for a stack (K, m).
        multipliers: The same, (k + m_g + m_h,) or (K, k + m_g + m_h).
        is_good: Whether the values of the last step were finite, () or (K,).

    Raises:
        InputError: No preference, or no instance of a method.
        UnsupportedError: The method does not support the preference.

    Example:
        >>> import ferero
        >>> f = ferero.objectives("zh", "en")
        >>> controller = ferero.Controller(ferero.Preference(f, [f.zh <= 1.0], minimize=f.en))
        >>> weights = controller.step({"zh": 2.0, "en": 1.0})
        >>> weights["zh"] > weights["en"]  # zh is over its bound
        True
    """

    weights: Tensor
    multipliers: Tensor

    def __init__(self, preference: Preference, method: Method[Any] | None = None) -> None:
        super().__init__()
        self.preference, self.method = preference, FereroPI() if method is None else method
        self._check_arguments()
        first = ControllerState.first(self.preference, self.method)
        self._kind = type(first.method)
        tensors = first.tensors()
        if "slopes" in self.method.requires:
            tensors["slopes"] = torch.zeros_like(first.weights)
        del first  # large families: no tensor is held twice
        for name in tuple(tensors):
            self.register_buffer(name, tensors.pop(name).detach().clone())
        self.has_multipliers = False
        self.is_good = torch.ones(preference.batch_shape, dtype=torch.bool, device="cpu")

    def _check_arguments(self) -> None:
        if not isinstance(self.preference, Preference):
            raise InputError(f"preference: {no_preference(self.preference)}.")
        check_method(self.method)
        for member in self.preference.members or (self.preference,):
            check_understood(self.method, member)

    @property
    def state(self) -> ControllerState:
        """Everything the next step depends on."""
        return ControllerState(
            self.weights,
            self.multipliers,
            self._load("method", self._kind),
            self._load("correction", Correction),
            self._load("record", Record),
        )

    @property
    def record(self) -> Record:
        """Statistics for the report."""
        record: Record = self._load("record", Record)
        return record

    @property
    def steps(self) -> int:
        """Steps taken so far, from which levels that move are counted; of a stack, the most of a model."""
        return int(self.record.arrived.max())

    @property
    def _layout(self) -> Layout:
        return Layout(self.preference.names, self.preference.families)

    @overload
    def step(self, values: Mapping[str, Any], *, index: Index = None) -> dict[str, Any]: ...

    @overload
    def step(
        self,
        values: Tensor,
        *,
        present: Tensor | None = None,
        gramian: Tensor | None = None,
        slopes: Tensor | None = None,
    ) -> Tensor: ...

    def step(
        self,
        values: Tensor | Mapping[str, Any],
        *,
        present: Tensor | None = None,
        gramian: Tensor | None = None,
        slopes: Tensor | None = None,
        index: Index = None,
    ) -> Tensor | dict[str, Any]:
        """The weights for this step: the next step of training minimises the sum of the losses with these weights.

        Args:
            values: The losses by name: floats, numpy, torch or JAX scalars without a graph; a name may be absent or
                None, and a family has an array (n,), NaN where a member is missing. Or a tensor (m,), or
                (K, m) for a stack, of which a model whose values are not finite keeps its state and gets weights of 0.
            present: Which of a tensor's losses arrived, (m,), bool; None for all.
            gramian: (..., m, m), for methods that read it.
            slopes: Those of the last step, (..., m), for methods that read them; None for those of `learn_slopes`.
            index: Beside values by name, the numbers (k,) of the members that the values of a family are of.

        Returns:
            Plain numbers by name, of a family an array like its values; for a tensor (..., m), float64.

        Raises:
            InputError: Another number of values, a tensor by name that needs a gradient, an index that does not fit, or
                a gramian or slopes that the method does not read.
            UnknownNameError: A name that is none of the preference's.
            NonFiniteError: A value by name that is NaN or inf; nothing was updated.
        """
        if isinstance(values, Mapping):
            if present is not None:
                raise InputError("present: expected None beside values by name; leave a missing one out of them.")
            numbers, arrived = self._read(values, "values", index)
            found = self._step(numbers, present=arrived, gramian=gramian, slopes=slopes)
            return self._named(found, values, index or {})
        if index is not None:
            raise InputError("index: expected values by name beside it, found a tensor; pass {family: values}.")
        return self._step(values, present=present, gramian=gramian, slopes=slopes)

    def _named(self, weights: Tensor, values: Mapping[str, Any], index: Mapping[str, Any]) -> dict[str, Any]:
        """Weights (m,) by name, those of a family as an array like its values."""
        layout = self._layout
        found: dict[str, Any] = dict(zip(layout.single, weights[: len(layout.single)].tolist(), strict=True))
        for family in layout.families:
            own = weights[family.start : family.stop].cpu()
            if family.name in index:
                own = own[read_members(index[family.name], family, len(values[family.name]))]
            found[family.name] = own.numpy()
        return found

    def _read(self, values: Mapping[str, Any], what: str, index: Index = None) -> tuple[Tensor, Tensor | None]:
        """Numbers by name as (m,), and which of them arrived; None for all."""
        if self.preference.members:
            raise InputError(f"{what}: expected a tensor (K, m) for a stack of preferences, found numbers by name.")
        numbers = read_family_values(values, self._layout, what, index)
        arrived = ~torch.isnan(numbers)
        return torch.where(arrived, numbers, 0.0).to(self.weights), None if bool(arrived.all()) else arrived.to(
            self.weights.device
        )

    def _step(self, values: Tensor, *, present: Tensor | None, gramian: Tensor | None, slopes: Tensor | None) -> Tensor:
        F = values.detach().to(self.weights)
        if F.shape != self.weights.shape:
            raise InputError(
                f"values: expected shape {tuple(self.weights.shape)}, one number for each of "
                f"{self.preference.shown_names}, found {tuple(F.shape)}."
            )
        for name, given in (("gramian", gramian), ("slopes", slopes)):
            if given is not None and name not in self.method.requires:
                raise InputError(f"{name}: {type(self.method).__name__} reads none, found a tensor; leave it out.")
        is_good = (torch.isfinite(F) if present is None else torch.isfinite(F) | ~present).all(dim=-1)
        if gramian is not None:
            is_good = is_good & torch.isfinite(gramian.square()).all(dim=-1).all(dim=-1)  # solvers multiply entries
            unit = torch.eye(F.shape[-1], dtype=F.dtype, device=F.device)
            gramian = torch.where(is_good[..., None, None], gramian, unit)
        if self._is_sampled:
            return self._step_sampled(F, present, is_good)
        F = torch.where(torch.isfinite(F) & is_good[..., None], F, 1.0)
        if slopes is None and "slopes" in self.method.requires:
            slopes = self.get_buffer("slopes")
        state, has_multipliers = advance(
            self.preference, self.method, self.state, F, present=present, gramian=gramian, slopes=slopes
        )
        self.has_multipliers = has_multipliers
        self.is_good = is_good
        self._write(state.tensors(), is_good)
        self.get_buffer("record_skipped").add_(~is_good)
        return torch.where(is_good[..., None], state.weights, 0.0)

    @property
    def _is_sampled(self) -> bool:
        """Whether a step reads and writes only what its losses concern; on a GPU the whole is faster."""
        return self._kind is SampledState and self.weights.device.type == "cpu"

    def _step_sampled(self, F: Tensor, present: Tensor | None, is_good: Tensor) -> Tensor:
        self.is_good, self.has_multipliers = is_good, True
        if not bool(is_good):
            self.get_buffer("record_skipped").add_(1)
            return torch.zeros_like(self.weights)
        arrived = torch.arange(len(F)) if present is None else torch.nonzero(present)[:, 0]
        self._advance_sampled(arrived, F[arrived])
        return self.weights.clone()

    def _advance_sampled(self, arrived: Tensor, values: Tensor) -> None:
        """Advance the state by a step on the losses of a large family that arrived: their numbers and values, (n,)."""
        assert isinstance(self.method, FereroPI)
        state = self.state
        is_metric = self._metrics if self.preference.measured else None
        updates = advance_sampled(
            self.preference, self.method, state.method, state.correction, state.record, arrived, values, is_metric
        )
        buffers: dict[str, Any] = self._buffers  # get_buffer would take longer than the write
        with torch.no_grad():
            for name, update in updates.items():
                update.write(buffers[name])

    def learn_slopes(self, slopes: Tensor) -> None:
        """Store the slopes of this step, (..., m), for the models that took it."""
        self._write({"slopes": slopes}, self.is_good)

    def refuse(self, is_bad: Tensor) -> None:
        """Mark models, () or (K,), whose gradients are not finite and which take no step after all."""
        self.get_buffer("record_skipped").add_(self.is_good & is_bad)
        self.is_good = self.is_good & ~is_bad

    def observe(
        self, measured: Tensor | Mapping[str, Any], arrived: Tensor | None = None, where: Tensor | None = None
    ) -> None:
        """Take in values measured outside training; see `_held_out`.

        They correct an offset on the training values and never replace them. Before the first step there is nothing to
        correct.

        Args:
            measured: Held-out losses, or metrics declared by ``objectives(measured=...)``: numbers by name, as for
                :meth:`step`, or a tensor (..., m).
            arrived: Which of a tensor's values were measured, (m,), bool; None for all.
            where: A boolean scalar on the device: False leaves everything as it was.

        Raises:
            InputError: A tensor by name that needs a gradient, or what is not one real number.
            UnknownNameError: A name that is none of the preference's.
            NonFiniteError: A value by name that is NaN or inf.
        """
        if isinstance(measured, Mapping):
            if arrived is not None:
                raise InputError("arrived: expected None beside values by name; leave a missing one out of them.")
            measured, arrived = self._read(measured, "observe")
        if arrived is None:
            arrived = torch.ones(self.preference.m, dtype=torch.bool, device=self.weights.device)
        old, record = self.state.correction, self.record
        good = arrived & torch.isfinite(measured) & (record.seen > 0)
        new = correct(old, torch.where(good, measured, 0.0), good, tracked(record), self._metrics)
        moved = self._moved(record, old, new)
        tensors = {f"correction_{field.name}": getattr(new, field.name) for field in fields(new)}
        tensors |= {f"record_{field.name}": getattr(moved, field.name) for field in fields(moved)}
        self._write(tensors, where)

    # what happened -------------------------------------------------------------------------------------

    @property
    def losses(self) -> Tensor:
        """Today's losses (..., m), denoised and corrected by what was observed; NaN for one that never arrived."""
        record = self.record
        return torch.where(record.seen > 0, self.state.correction.apply(tracked(record)), torch.nan)

    @property
    def violation(self) -> Tensor:
        """``[G]_+`` then ``|H|`` of today's losses, (..., m_g + m_h)."""
        today = self.preference.at(self.steps) if self.preference.moves else self.preference
        return today.violation(self.losses)

    def report(self) -> Report:
        """Whether every constraint is met, and what stands in the way where it is not; of a single model.

        Raises:
            InputError: A stack, which has :meth:`reports`.
        """
        if self.preference.members:
            raise InputError("report: expected a single preference, found a stack; call reports().")
        return self.reports()[0]

    def reports(self) -> list[Report]:
        """The report of every model."""
        diagnosis = diagnosis_of(self.method, self.preference, self._load("method", self._kind))
        return [self._report(k, diagnosis) for k in range(len(self.preference.members) or 1)]

    def multipliers_of(self, k: int) -> Tensor | None:
        """Those of model k, in the order of its own preference; None for methods that have none."""
        if not self.has_multipliers:
            return None
        return self.multipliers[k, self._columns(k)].cpu()

    def metrics(self) -> dict[str, float]:
        """Figures for a logger, of a single model; ``ferero/merit`` is lowest at the best feasible checkpoint."""
        return metrics_of(self.preference, self.losses, self.weights, self.multipliers, self.record)

    def _report(self, k: int, of_all: Diagnosis | None) -> Report:
        if not self.preference.members:
            return make_report(
                self.preference,
                of_all,
                self.record,
                losses=self.losses,
                change=torch.zeros_like(self.losses),
                multipliers=self.multipliers,
                observed=self.get_buffer("correction_observed"),
            )
        rows = self._rows(k)
        named = {field.name: self.get_buffer(f"record_{field.name}")[k] for field in fields(Record)}
        record = Record(**{name: tensor[rows] if name in PER_ROW else tensor for name, tensor in named.items()})
        today = self.state.correction.apply(tracked(self.record))[k]
        return make_report(
            self.preference.members[k],
            None if of_all is None else Diagnosis(of_all.saturated[k, rows]),
            record,
            losses=today,
            change=torch.zeros_like(today),
            multipliers=self.multipliers[k, self._columns(k)],
            observed=self.get_buffer("correction_observed")[k],
        )

    def _rows(self, k: int) -> Tensor:
        """Which rows of the stack are those of model k's own preference."""
        own, m_g = self.preference.members[k], self.preference.m_g
        found = [*range(own.m_g), *range(m_g, m_g + own.m_h)]
        return torch.tensor(found, dtype=torch.int64, device=self.weights.device)

    def _columns(self, k: int) -> Tensor:
        """Which multipliers of the stack are those of model k's own preference."""
        own, all_A = self.preference.members[k].A.shape[-2], self.preference.A.shape[-2]
        return torch.cat([torch.arange(own, device=self.weights.device), all_A + self._rows(k)])

    # its tensors ---------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Return to the state before the first step."""
        for name, tensor in ControllerState.first(self.preference, self.method).tensors().items():
            self.get_buffer(name).copy_(tensor)
        if "slopes" in self._buffers:
            self.get_buffer("slopes").zero_()

    def _load(self, prefix: str, kind: type[Any]) -> Any:
        return buffers.load(self, prefix, kind)

    def _moved(self, record: Record, old: Correction, new: Correction) -> Record:
        rows = rows_of(self.preference, record.mean.device, record.mean.dtype)
        return shift_record(record, rows, old, new, self._metrics)

    @property
    def _metrics(self) -> Tensor:
        return _is_metric(self.preference, self.weights.device)

    def take(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the buffers of another controller."""
        self._write(tensors, None)

    def _write(self, new: dict[str, Tensor], where: Tensor | None) -> None:
        """Write into the buffers, in place unless a shape has changed; nothing where ``where`` is False."""
        old: dict[str, Any] = self._buffers  # get_buffer would take longer than the write
        grown = [name for name, tensor in new.items() if tensor.shape != old[name].shape]
        for name in grown:  # a method whose state has grown
            old[name] = new.pop(name).detach().clone()
        buffers.write([old[name] for name in new], list(new.values()), where)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Controller:  # noqa: ARG002  # nn.Module's
        """Move the buffers to another device, but keep their precision whatever ``half()`` says."""
        was_meta = any(buffer.is_meta for buffer in self.buffers())
        for name, buffer in list(self.named_buffers()):
            device = fn(buffer).device
            setattr(self, name, torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device))
        if not self.weights.is_meta:
            self.is_good = self.is_good.to(self.weights.device)
        if was_meta and not self.weights.is_meta:
            self.reset()
        return self
