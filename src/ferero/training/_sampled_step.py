"""A step of the controller on a sample of a large family: only the sample's part of the buffers is read and written."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import torch
from torch import Tensor

from ferero.methods._ferero_pi import FereroPI
from ferero.methods._sample import Sample, SampledState, advance_sample, sample_of
from ferero.preference import Preference
from ferero.training._held_out import Correction
from ferero.training._record import PER_ROW, Record, advance_record


class SampledUpdate(NamedTuple):
    """New values of some entries of a buffer.

    Attributes:
        dim: Along which dimension.
        places: Which entries, (n,); None for all.
        values: The values.
    """

    dim: int
    places: Tensor | None
    values: Tensor

    def write(self, buffer: Tensor) -> None:
        """Write them."""
        if self.places is None:
            buffer.copy_(self.values)
        else:
            buffer.index_copy_(self.dim, self.places, self.values.to(buffer.dtype))


def advance_sampled(
    preference: Preference,
    method: FereroPI,
    state: SampledState,
    correction: Correction,
    record: Record,
    arrived: Tensor,
    values: Tensor,
    is_metric: Tensor | None,
) -> dict[str, SampledUpdate]:
    """One step: what the buffers of a controller become, by their names.

    Args:
        preference: A large one.
        method: The method.
        state: Its state, of all losses.
        correction: The correction by held-out values.
        record: Statistics for the report.
        arrived: The numbers of the losses that arrived, (n,).
        values: Their values, (n,), float64, finite.
        is_metric: Which are metrics in units of their own, (m,), bool; None where there are none.
    """
    sample = sample_of(preference, arrived)
    at = sample.losses
    own = Correction(*(getattr(correction, field.name)[at] for field in fields(Correction)))
    losses = torch.zeros(len(at), dtype=values.dtype).index_copy(0, torch.searchsorted(at, arrived), values)
    corrected, known = own.apply(losses), sample.present
    if is_metric is not None:
        known = known & ((own.observed > 0) | ~is_metric[at])
    multipliers, new = advance_sample(method, sample, corrected, known, state)
    weights = new.weights if is_metric is None else own.weights(new.weights)
    found = {
        "weights": SampledUpdate(0, at, weights),
        "multipliers": SampledUpdate(0, sample.sized, multipliers),
    }
    for field in fields(SampledState):
        found[f"method_{field.name}"] = SampledUpdate(0, sample.places(field.name), getattr(new, field.name))
    return found | _record_updates(sample, record, losses, corrected, state.totals[4] + 1)


def _record_updates(
    sample: Sample, record: Record, losses: Tensor, corrected: Tensor, step: Tensor
) -> dict[str, SampledUpdate]:
    places: dict[str, Tensor] = {field.name: sample.losses for field in fields(Record) if field.name != "skipped"}
    places |= dict.fromkeys(PER_ROW, sample.rows)
    dims = dict.fromkeys(places, 0) | {"levels": 1, "errors": 1}
    gathered = {name: getattr(record, name).index_select(dims[name], at) for name, at in places.items()}
    old = Record(**gathered, skipped=record.skipped)
    new = advance_record(old, sample.channels.rows, losses, corrected, sample.present, step)
    return {f"record_{name}": SampledUpdate(dims[name], at, getattr(new, name)) for name, at in places.items()}
