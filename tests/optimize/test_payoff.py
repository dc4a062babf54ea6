"""The payoff table: each loss alone at its best."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError


def three(x: torch.Tensor) -> torch.Tensor:
    centres = torch.eye(3, dtype=torch.float64)
    return (x - centres).square().sum(dim=-1) + 1


def test_each_loss_is_at_its_best_in_its_own_row() -> None:
    table = ferero.payoff(three, torch.tensor([0.3, -1.0, 2.0]).double(), names=["a", "b", "c"])
    np.testing.assert_allclose(table.losses, 3 - 2 * np.eye(3), atol=1e-5)
    np.testing.assert_allclose(table.best, 1, atol=1e-5)
    np.testing.assert_allclose(table.worst, 3, atol=1e-5)
    assert table.names == ("a", "b", "c")
    assert all(result.success for result in table.results)
    assert "converged" in str(table)


def test_bounds_and_constraints_are_kept() -> None:
    low = ferero.payoff(three, torch.zeros(3).double(), bounds=[(0.0, 0.5)] * 3)
    np.testing.assert_allclose(low.best, 1.25, atol=1e-5)
    flat = {"type": "eq", "fun": lambda x: x.sum()}
    assert (ferero.payoff(three, torch.zeros(3).double(), constraints=flat).best > 1.2).all()


def test_other_names_than_losses_are_refused() -> None:
    with pytest.raises(InputError, match="expected 2 losses, as the preference names them"):
        ferero.payoff(three, torch.zeros(3).double(), names=["a", "b"])
