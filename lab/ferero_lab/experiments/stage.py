"""How far a run is, for those who show it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stage"]


@dataclass(frozen=True)
class Stage:
    """How far a run is.

    Attributes:
        title: of the part that runs, or of the first where several do.
        finished: parts that are done.
        parts: in all.
        share: of the part that runs, 0 to 1; where several do, their sum.
        ended: "run" where the part has just been run, "kept" where an earlier run had done it, else "".
    """

    title: str
    finished: int
    parts: int
    share: float = 0.0
    ended: str = ""
