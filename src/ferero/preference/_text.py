"""A preference in words: the whole of it as it was written, or one line that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferero.preference._preference import Preference

__all__ = ["summary", "whole_text"]


def whole_text(preference: Preference) -> str:
    """What is minimised, subject to what; the parser reads it back."""
    if preference.members:
        return "\n".join(f"[{i}] " + str(p).replace("\n", "\n    ") for i, p in enumerate(preference.members))
    shown = preference.constraints
    if preference.ray is not None:  # the half-space of a ray goes without saying
        shown = tuple(constraint for constraint in shown if constraint.is_equality or constraint.margin > 0)
    labels = dict.fromkeys(str(constraint) for constraint in shown)
    separator = "\n" + " " * len("subject to ")
    return _order_text(preference) + ("\nsubject to " + separator.join(labels) if labels else "")


def summary(preference: Preference) -> str:
    """The names, and how many inequalities and equalities."""
    counts = f"{_counted(preference.m_g, 'inequality')}, {_counted(preference.m_h, 'equality')}"
    size = f"{len(preference.members)} preferences; " if preference.members else ""
    return f"Preference({size}{', '.join(preference.names)}: {counts})"


def _order_text(preference: Preference) -> str:
    if preference.minimized:
        return "minimize " + ", ".join(str(form) for form in preference.minimized)
    order = "" if preference.cone is None else f" with respect to {preference.cone}"
    return "minimize " + ", ".join(preference.names) + order


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun.removesuffix('y')}ies"
