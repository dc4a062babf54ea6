"""What a worker does: one point, whose answer or whose error it sends back as a value.

An error that ``train_one`` raises comes back as a `Raised`. So whatever a future itself raises is the loss of a worker
and nothing else, under any executor.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ferero.fronts._sweep.answer import read_answer
from ferero.fronts._sweep.pack import pack
from ferero.preference import Preference

__all__ = ["ByValue", "Raised", "is_pickling", "run_point"]


@dataclass(frozen=True)
class ByValue:
    """A preference that travels between processes as bytes: torch would send its tensors as shared memory."""

    preference: Preference

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (pickle.dumps(self.preference),)


def _from_bytes(pickled: bytes) -> ByValue:
    return ByValue(pickle.loads(pickled))


@dataclass(frozen=True)
class Raised:
    """What ``train_one`` raised."""

    error: Exception

    def __reduce__(self) -> tuple[Any, ...]:
        return Raised, (_portable(self.error),)


def run_point(train_one: Callable[[Preference], object], wanted: ByValue, index: int, attempt: int) -> bytes | Raised:  # noqa: ARG001
    """The packed result for one preference, or the error.

    Args:
        train_one: the user's function.
        wanted: its argument.
        index: of the preference; with ``attempt`` it tells calls apart where equal ones would be made once, as by Dask.
        attempt: 0, or how often the point's worker was lost.
    """
    began = perf_counter()
    try:
        value = train_one(wanted.preference)
        return pack(read_answer(value, wanted.preference, perf_counter() - began))
    except SystemExit as end:
        return Raised(RuntimeError(f"train_one called sys.exit({end.code!r})"))
    except Exception as error:
        return Raised(error)


def is_pickling(error: BaseException) -> bool:
    """Whether the error is that of a function or an argument that cannot be sent."""
    is_of_that_kind = isinstance(error, (TypeError, AttributeError)) and "pickle" in str(error)
    return isinstance(error, pickle.PicklingError) or is_of_that_kind


def _portable(error: Exception) -> Exception:
    """The error, with its traceback as a note, in a form that survives the journey."""
    trace = "In the worker:\n" + "".join(traceback.format_exception(error)).rstrip()
    try:
        copied = pickle.loads(pickle.dumps(error))
        is_same = type(copied) is type(error)
    except Exception:  # an exception with arguments of its own is allowed to fail in any way here
        is_same = False
    carried = copied if is_same else RuntimeError(f"{type(error).__name__}: {error}")
    carried.add_note(trace)
    return carried
