"""How a sweep fails: by an error that holds everything that was finished."""

from __future__ import annotations

from collections.abc import Mapping

from ferero.errors import FereroError
from ferero.fronts._found import Found

__all__ = ["SweepError"]


class SweepError(FereroError, RuntimeError):
    """Points of a sweep could not be had; those that could are here, and in the sweep's folder.

    Attributes:
        failures: what happened, by the index of the preference; empty where no point is to blame.
        finished: the results that there are, by the index of the preference.
    """

    def __init__(
        self,
        message: str,
        failures: Mapping[int, BaseException] | None = None,
        finished: Mapping[int, Found] | None = None,
    ) -> None:
        super().__init__(message)
        self.failures = dict(failures or {})
        self.finished = dict(finished or {})
