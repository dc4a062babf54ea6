"""The weights of K models: one batched method, its state, the record for their reports, and held-out corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ferero.methods.base import Diagnosis, Method, Observation
from ferero.methods.ray import check_understood
from ferero.methods.rows import rows_of
from ferero.preference import Preference
from ferero.training.held_out import Correction, correct
from ferero.training.record import Record, advance_record, shift_record, tracked
from ferero.training.report import Report, diagnosis_of, make_report

__all__ = ["Steering"]

Tensors = dict[str, Tensor]


class Steering:
    """Losses of K models in, their weights out; everything it remembers is written in place.

    A model whose losses (or gramian) are not finite at a step keeps its state and gets weights of 0.

    Args:
        preferences: One for each model, (K,), over the same names.
        method: A method.
        device: Where the losses are.

    Attributes:
        preference: All of them as one stack.
        weights: Those of the last step, (K, m).
        slopes: What the last step did, (K, m); 0 before the first.
        is_good: Whether each model was finite at the last step, (K,).

    Raises:
        UnsupportedError: A method that does not understand a preference.
    """

    def __init__(self, preferences: Sequence[Preference], method: Method[Any], device: torch.device) -> None:
        for preference in preferences:
            check_understood(method, preference)
        self.preference, self.method = Preference.stack(preferences), method
        K, m = len(preferences), preferences[0].m
        rows = self.preference.m_g + self.preference.m_h
        state = method.init(self.preference)
        self._kind = type(state)
        self._tensors: Tensors = {
            "weights": self.preference.A.mean(dim=-2),
            "multipliers": torch.zeros(K, self.preference.A.shape[-2] + rows, dtype=torch.float64),
            "slopes": torch.zeros(K, m, dtype=torch.float64),
            **_named("method", state),
            **_named("record", Record.empty(m, rows, (K,))),
            **_named("correction", Correction.none(K, m)),
        }
        self._tensors = {name: tensor.detach().to(device, copy=True) for name, tensor in self._tensors.items()}
        self._is_metric = torch.tensor([n in self.preference.measured for n in self.preference.names], device=device)
        self.has_multipliers = False
        self.is_good = torch.ones(K, dtype=torch.bool, device=device)

    @property
    def weights(self) -> Tensor:
        """Those of the last step, (K, m)."""
        return self._tensors["weights"]

    @property
    def slopes(self) -> Tensor:
        """What the last step did, (K, m)."""
        return self._tensors["slopes"]

    def learn_slopes(self, slopes: Tensor) -> None:
        """Take in what this step did, (K, m), to the models that took one."""
        self._write({"slopes": slopes}, self.is_good)

    def refuse(self, is_bad: Tensor) -> None:
        """Say which models, (K,), take no step after all, their gradients not being finite."""
        self._tensors["record_skipped"] += self.is_good & is_bad
        self.is_good = self.is_good & ~is_bad

    @property
    def losses(self) -> Tensor:
        """Today's training losses, denoised and corrected by what was observed, (K, m)."""
        correction: Correction = self._load("correction", Correction)
        return correction.apply(tracked(self._load("record", Record)))

    def update(self, losses: Tensor, gramian: Tensor | None) -> Tensor:
        """The weights for this step.

        Args:
            losses: F of every model, (K, m).
            gramian: (K, m, m), for methods that read it.

        Returns:
            (K, m), float64; 0 for a model that is not finite.
        """
        F = losses.detach().double()
        is_good = torch.isfinite(F).all(dim=-1)
        if gramian is not None:
            is_good = is_good & torch.isfinite(gramian.square()).all(dim=-1).all(dim=-1)  # solvers multiply entries
            unit = torch.eye(F.shape[-1], dtype=F.dtype, device=F.device)
            gramian = torch.where(is_good[:, None, None], gramian, unit)
        self.is_good = is_good
        F = torch.where(is_good[:, None], F, 1.0)
        correction, record = self._load("correction", Correction), self._load("record", Record)
        corrected = correction.apply(F)
        present = None
        if self.preference.measured:  # a metric counts from its first measurement on
            present = (correction.observed > 0) | ~self._is_metric
        slopes = self.slopes if "slopes" in self.method.requires else None
        observation = Observation(corrected, gramian=gramian, slopes=slopes, present=present)
        decision, state = self.method.update(self.preference, observation, self._load("method", self._kind))
        rows = rows_of(self.preference, F.device, F.dtype)
        weights = (
            correction.weights(decision.weights.double()) if self.preference.measured else decision.weights.double()
        )
        news = {
            "weights": weights,
            **_named("method", state),
            **_named("record", advance_record(record, rows, F, corrected, None)),
        }
        if decision.multipliers is not None:
            self.has_multipliers = True
            news["multipliers"] = decision.multipliers
        self._write(news, is_good)
        self._tensors["record_skipped"] += ~is_good
        return torch.where(is_good[:, None], weights, 0.0)

    def observe(self, measured: Tensor, arrived: Tensor) -> None:
        """Take in values measured elsewhere, (K, m), for those losses that arrived, (m,) bool; see `held_out`."""
        record, old = self._load("record", Record), self._load("correction", Correction)
        good = arrived & torch.isfinite(measured) & (record.seen > 0)
        safe = torch.where(good, measured, 0.0)
        new = correct(old, safe, good, tracked(record), self._is_metric)
        rows = rows_of(self.preference, record.mean.device, record.mean.dtype)
        self._write(_named("record", shift_record(record, rows, old, new, self._is_metric)), None)
        self._write(_named("correction", new), None)

    # what happened --------------------------------------------------------------------------------------

    def multipliers(self, k: int) -> Tensor | None:
        """Those of model k, as its own preference counts them; None for methods that have none."""
        if not self.has_multipliers:
            return None
        return self._tensors["multipliers"][k, self._columns(k)].cpu()

    def reports(self) -> list[Report]:
        """The verdict on every model."""
        diagnosis = diagnosis_of(self.method, self.preference, self._load("method", self._kind))
        return [self._report(k, diagnosis) for k in range(len(self.preference.members))]

    def _report(self, k: int, all_of_them: Diagnosis | None) -> Report:
        preference, rows = self.preference.members[k], self._rows(k)
        per_row = ("updates", "last", "mean", "variance", "covariance", "long_mean", "side", "turns")
        record = Record(
            **{
                field.name: self._tensors[f"record_{field.name}"][k][rows]
                if field.name in per_row
                else self._tensors[f"record_{field.name}"][k]
                for field in fields(Record)
            }
        )
        diagnosis = None
        if all_of_them is not None:
            diagnosis = Diagnosis(all_of_them.saturated[k, rows])
        return make_report(
            preference,
            diagnosis,
            record,
            losses=self.losses[k],
            change=torch.zeros_like(self.losses[k]),
            multipliers=self._tensors["multipliers"][k, self._columns(k)],
            observed=self._tensors["correction_observed"][k],
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

    # checkpoints ----------------------------------------------------------------------------------------

    def state_dict(self) -> Tensors:
        """All that the next step depends on."""
        found = {name: tensor.detach().cpu().clone() for name, tensor in self._tensors.items()}
        return found | {"has_multipliers": torch.tensor(self.has_multipliers)}

    def load_state_dict(self, state: Tensors) -> None:
        """Go on where another one was."""
        self.has_multipliers = bool(state["has_multipliers"])
        for name in self._tensors:
            self._put(name, state[name].to(self.weights.device))

    def _load(self, prefix: str, kind: type[Any]) -> Any:
        return kind(**{field.name: self._tensors[f"{prefix}_{field.name}"] for field in fields(kind)})

    def _write(self, news: Tensors, is_good: Tensor | None) -> None:
        for name, new in news.items():
            old = self._tensors[name]
            if is_good is not None and new.shape[:1] == is_good.shape and old.shape == new.shape:
                new = torch.where(is_good[(...,) + (None,) * (new.ndim - 1)], new, old.to(new))  # noqa: PLW2901
            self._put(name, new)

    def _put(self, name: str, new: Tensor) -> None:
        """In place where the shape is that of before, so that a captured graph finds it."""
        old = self._tensors[name]
        if old.shape == new.shape and old.dtype == new.dtype and old.device == new.device:
            old.copy_(new)
        else:
            self._tensors[name] = new.detach().clone()


def _named(prefix: str, state: Any) -> Tensors:
    return {f"{prefix}_{field.name}": torch.as_tensor(getattr(state, field.name)) for field in fields(state)}
