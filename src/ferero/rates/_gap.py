"""`Gap`: gaps between the rates of groups as ready preferences, with the function that computes the rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.preference import Preference, objectives
from ferero.rates._rate import Rate, false_positive_rate, positive_rate, true_positive_rate

_RATES: dict[str, Callable[[Tensor, Tensor, Tensor], Rate]] = {
    "positive_rate": lambda logits, _, members: positive_rate(logits, members),
    "true_positive_rate": true_positive_rate,
    "false_positive_rate": false_positive_rate,
}


@dataclass(frozen=True)
class Gap:
    """A largest gap between groups: its preference, and the rates that this preference is about.

    Every group's rate is a loss of its own, since the gap of a batch is biased upwards (docs/steering.md); every pair
    of groups is held within the bound.

    Attributes:
        rates: Names of rates: "positive_rate", "true_positive_rate", "false_positive_rate".
        bound: The largest difference of a rate between any two groups.
        groups: The groups' names; examples name them by position, 0, 1, ...
        minimize: The name of the loss to be minimised.

    Raises:
        InputError: Fewer than two groups, or a bound outside of (0, 1).

    Example:
        >>> import ferero, torch
        >>> from ferero import rates
        >>> fair = rates.demographic_parity(0.05, groups=("women", "men"))
        >>> print(fair.preference)
        minimize loss subject to abs(positive_rate_women - positive_rate_men) <= 0.05
        >>> steer = ferero.Steer(fair.preference)
        >>> logits, labels = torch.randn(8, requires_grad=True), torch.ones(8)
        >>> found = fair(logits, labels, torch.tensor([0, 0, 1, 1, 0, 1, 0, 1]))
        >>> steer({"loss": logits.square().mean(), **found}).backward()
    """

    rates: tuple[str, ...]
    bound: float
    groups: tuple[str, ...]
    minimize: str = "loss"

    def __post_init__(self) -> None:
        if len(self.groups) < 2:
            raise InputError(f"groups: expected the names of two groups or more, found {self.groups!r}.")
        if not 0 < self.bound < 1:
            raise InputError(f"gap: expected the largest difference of two rates, within (0, 1), found {self.bound!r}.")
        unknown = [name for name in self.rates if name not in _RATES]
        if unknown or not self.rates:
            raise InputError(f"rates: expected some of {', '.join(_RATES)}, found {self.rates!r}.")

    @property
    def preference(self) -> Preference:
        """The loss is minimised, and every rate of any two groups differs by the bound at most."""
        f = objectives(self.minimize, *(name for rate in self.rates for name in self._names(rate)))
        pairs = [pair for rate in self.rates for pair in combinations(self._names(rate), 2)]
        return Preference(f, [abs(f[a] - f[b]) <= self.bound for a, b in pairs], minimize=f[self.minimize])

    def __call__(self, logits: Tensor, labels: Tensor, groups: Tensor) -> dict[str, Rate]:
        """The rates of every group by name; one of a group that is not in the batch has a count of 0.

        Args:
            logits: (n,); positive where the decision is.
            labels: 0 or 1, (n,).
            groups: Each example's group by position, (n,), integers.

        Raises:
            InputError: Other shapes or types.
        """
        _check_groups(groups, logits, self._size)
        return {
            name: _RATES[rate](logits, labels, groups == k)
            for rate in self.rates
            for k, name in enumerate(self._names(rate))
        }

    @property
    def _size(self) -> int:
        return len(self.groups)

    def _names(self, rate: str) -> list[str]:
        return [f"{rate}_{group}" for group in self.groups]


def _check_groups(groups: Any, logits: Tensor, size: int) -> None:
    expected = f"groups: expected ({len(logits)},), integers from 0 to {size - 1}"
    if not isinstance(groups, Tensor):
        raise InputError(f"{expected}, found {type(groups).__name__}.")
    if groups.shape != logits.shape or groups.is_floating_point():
        raise InputError(f"{expected}, found {groups.dtype} {tuple(groups.shape)}.")
    if groups.device.type == "cpu" and len(groups):  # on a GPU it would be a host sync
        low, high = (int(edge) for edge in torch.aminmax(groups))
        if low < 0 or high >= size:
            raise InputError(f"{expected}, found {low} to {high}.")


def demographic_parity(gap: float, groups: Sequence[str] = ("0", "1"), minimize: str = "loss") -> Gap:
    """Groups are accepted at nearly the same rate.

    Args:
        gap: The largest difference between the positive rates of two groups.
        groups: The groups' names.
        minimize: The name of the loss to be minimised.
    """
    return Gap(("positive_rate",), gap, _names_of(groups), minimize)


def equal_opportunity(gap: float, groups: Sequence[str] = ("0", "1"), minimize: str = "loss") -> Gap:
    """Those labelled 1 are accepted at nearly the same rate in all groups.

    Args:
        gap: The largest difference between the true positive rates of two groups.
        groups: The groups' names.
        minimize: The name of the loss to be minimised.
    """
    return Gap(("true_positive_rate",), gap, _names_of(groups), minimize)


def equalised_odds(gap: float, groups: Sequence[str] = ("0", "1"), minimize: str = "loss") -> Gap:
    """Those labelled 1, and those labelled 0, are accepted at nearly the same rate in all groups.

    Args:
        gap: The largest difference between the true, and between the false, positive rates of two groups.
        groups: The groups' names.
        minimize: The name of the loss to be minimised.
    """
    return Gap(("true_positive_rate", "false_positive_rate"), gap, _names_of(groups), minimize)


def _names_of(groups: Any) -> tuple[str, ...]:
    if isinstance(groups, str):
        raise InputError(f"groups: expected the names of two groups or more, found the string {groups!r}.")
    return tuple(groups)
