"""`Rate`: a share of decisions, and the rates of a binary classifier.

A rate such as "how many are accepted" is a mean of decisions, which have no gradient. Its surrogate replaces a decision
(logit > 0) by its probability (sigmoid of the logit). A `Rate` keeps both: what `Steer` compares with a bound is the
exact rate, and what the optimizer follows is the surrogate's gradient,

    loss = value + (surrogate - surrogate.detach())

and the number of examples behind it, which is 0 where a batch has none: the rate is then missing in that batch, and the
constraints it occurs in wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ferero.errors import InputError


@dataclass(frozen=True, eq=False)
class Rate:
    """A share of decisions in one batch; pass it to a `ferero.Steer` in place of a loss.

    Attributes:
        value: The exact share, a scalar without a gradient.
        surrogate: A differentiable stand-in for it, a scalar.
        count: How many examples it is a share of; 0 where there are none.

    Raises:
        InputError: No count, or what is not a scalar.

    Example:
        >>> import torch
        >>> from ferero import rates
        >>> groups = torch.tensor([0, 0, 0, 1])
        >>> rate = rates.positive_rate(torch.tensor([2.0, -1.0, 3.0, -4.0]), where=groups == 0)
        >>> round(float(rate.value), 3), int(rate.count)
        (0.667, 3)
    """

    value: Tensor
    surrogate: Tensor
    count: Tensor | float

    def __post_init__(self) -> None:
        for name in ("value", "surrogate"):
            given = getattr(self, name)
            if not isinstance(given, Tensor) or given.numel() != 1:
                found = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
                raise InputError(f"{name}: expected a tensor of one number, found {found}.")
        count: Any = self.count
        is_count = count.numel() == 1 if isinstance(count, Tensor) else isinstance(count, Real)
        if not is_count or (not isinstance(count, Tensor) and not 0 <= count < float("inf")):
            raise InputError(
                f"count: expected how many examples the rate is a share of, a finite number >= 0, found {count!r}; "
                "without it an empty group of a batch would count as a rate of 0."
            )

    @property
    def loss(self) -> Tensor:
        """A scalar with the exact value and the surrogate's gradient."""
        surrogate = self.surrogate.reshape(())
        return self.value.detach().reshape(()) + (surrogate - surrogate.detach())


def positive_rate(logits: Tensor, where: Tensor | None = None) -> Rate:
    """The share of positive decisions.

    Args:
        logits: (n,); positive where the decision is.
        where: Whom it is about, such as the members of a group, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.
    """
    decisions, chances, members = _read(logits, where)
    return _share(decisions, chances, members)


def true_positive_rate(logits: Tensor, labels: Tensor, where: Tensor | None = None) -> Rate:
    """The share of positive decisions among the examples labelled 1.

    Args:
        logits: (n,).
        labels: 0 or 1, (n,).
        where: Whom it is about, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.
    """
    decisions, chances, members = _read(logits, where)
    return _share(decisions, chances, members & _read_labels(labels, logits))


def recall(logits: Tensor, labels: Tensor, where: Tensor | None = None) -> Rate:
    """The true positive rate by its other name.

    Args:
        logits: (n,).
        labels: 0 or 1, (n,).
        where: Whom it is about, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.
    """
    return true_positive_rate(logits, labels, where)


def false_positive_rate(logits: Tensor, labels: Tensor, where: Tensor | None = None) -> Rate:
    """The share of positive decisions among the examples labelled 0.

    Args:
        logits: (n,).
        labels: 0 or 1, (n,).
        where: Whom it is about, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.
    """
    decisions, chances, members = _read(logits, where)
    return _share(decisions, chances, members & ~_read_labels(labels, logits))


def accuracy(logits: Tensor, labels: Tensor, where: Tensor | None = None) -> Rate:
    """The share of decisions that are those of the labels.

    Args:
        logits: (n,).
        labels: 0 or 1, (n,).
        where: Whom it is about, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.
    """
    decisions, chances, members = _read(logits, where)
    is_one = _read_labels(labels, logits)
    return _share(decisions == is_one, torch.where(is_one, chances, 1 - chances), members)


def precision(logits: Tensor, labels: Tensor, where: Tensor | None = None) -> Rate:
    """The share of examples labelled 1 among the positive decisions; its count is the number of these decisions.

    The surrogate is the ratio of expected numbers, ``sum(p y) / sum(p)`` with p the probability of a positive decision.

    In a batch without a positive decision it is missing, and its constraints wait. The mean over batches is the
    precision where every batch is drawn from the same data, however small. Where batches differ (sorted, or of one
    source each), those with few positive decisions count too much: take the ratio of two shares instead, whose linear
    row is not biased, ``f.hits / f.positives >= 0.9`` with `true_positives` and `positive_rate`.

    Args:
        logits: (n,).
        labels: 0 or 1, (n,).
        where: Whom it is about, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.
    """
    decisions, chances, members = _read(logits, where)
    is_one = _read_labels(labels, logits)
    exact = _share(is_one, chances, members & decisions)
    likely = chances * members
    tiny = torch.finfo(likely.dtype).tiny
    return Rate(exact.value, (likely * is_one).sum() / likely.sum().clamp(min=tiny), exact.count)


def true_positives(logits: Tensor, labels: Tensor, where: Tensor | None = None) -> Rate:
    """The share of examples that are labelled 1 and decided so, of all of them: the numerator of a precision or an F1.

    Args:
        logits: (n,).
        labels: 0 or 1, (n,).
        where: Whom it is about, (n,), bool; None for all.

    Raises:
        InputError: Other shapes or types.

    Example:
        >>> import ferero
        >>> f = ferero.objectives("loss", "hits", "positives")
        >>> print(ferero.Preference(f, [f.hits / f.positives >= 0.9], minimize=f.loss))
        minimize loss
        subject to hits / positives >= 0.9
    """
    decisions, chances, members = _read(logits, where)
    is_one = _read_labels(labels, logits)
    return _share(decisions & is_one, chances * is_one, members)


def _share(decisions: Tensor, chances: Tensor, members: Tensor) -> Rate:
    """The mean over the members, 0 where there are none."""
    count = members.sum()
    some = count.clamp(min=1)
    exact = (decisions & members).sum().to(chances.dtype) / some
    return Rate(exact, (chances * members).sum() / some, count)


def _read(logits: Any, where: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Decisions (n,) bool, their probabilities (n,) with the graph, and whom the rate is about, (n,) bool."""
    if not isinstance(logits, Tensor) or logits.ndim != 1 or not logits.is_floating_point():
        raise InputError(f"logits: expected (n,), one real number for each example, found {_shown(logits)}.")
    if where is None:
        members = torch.ones_like(logits, dtype=torch.bool)
    elif isinstance(where, Tensor) and where.shape == logits.shape and where.dtype == torch.bool:
        members = where
    else:
        raise InputError(
            f"where: expected ({len(logits)},), bool, one for each logit, found {_shown(where)}; write groups == 0."
        )
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return logits.detach() > 0, torch.sigmoid(wide), members


def _read_labels(labels: Any, logits: Tensor) -> Tensor:
    if not isinstance(labels, Tensor) or labels.shape != logits.shape:
        raise InputError(f"labels: expected ({len(logits)},), 0 or 1 for each logit, found {_shown(labels)}.")
    return labels > 0.5


def _shown(found: Any) -> str:
    return f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
