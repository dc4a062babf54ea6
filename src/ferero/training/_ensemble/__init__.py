"""Many models at once: stacked parameters, one call for all losses, one optimizer, weights from one batched method."""

from __future__ import annotations

from ferero.training._ensemble.batches import Batches, read_batches
from ferero.training._ensemble.ensemble import Ensemble
from ferero.training._ensemble.members import Members

__all__ = ["Batches", "Ensemble", "Members", "read_batches"]
