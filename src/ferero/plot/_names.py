"""What the legend calls the preferences."""

from __future__ import annotations

from collections.abc import Sequence

from ferero.errors import InputError
from ferero.fronts._front import Found, Front, preference_text

__all__ = ["legend_texts"]

_MOST = 10  # preferences that are listed one by one; more would outgrow the picture


def legend_texts(front: Front[Found], labels: Sequence[str] | None = None) -> list[str]:
    """A text for each preference, with its index where texts would be the same; empty ones for too many.

    Args:
        front: with the preferences.
        labels: texts of the caller's own, taken as they are.

    Raises:
        InputError: a number of labels that is not that of the points.
    """
    if labels is not None:
        if isinstance(labels, str) or len(labels) != len(front):
            raise InputError(f"labels: expected a text for each of {len(front)} points, found {labels!r}.")
        return list(labels)
    if len(front) > _MOST:
        return [""] * len(front)
    texts = [preference_text(p) for p in front.preferences]
    if len(set(texts)) == len(texts):
        return texts
    return [f"[{i}] {text}" for i, text in enumerate(texts)]
