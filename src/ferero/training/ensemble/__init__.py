"""Many models at once: stacked parameters, one call for all losses, one optimizer, weights from one batched method."""

from __future__ import annotations

from ferero.training.ensemble.batches import Batches, read_batches
from ferero.training.ensemble.ensemble import Ensemble
from ferero.training.ensemble.members import Members

__all__ = ["Batches", "Ensemble", "Members", "read_batches"]
