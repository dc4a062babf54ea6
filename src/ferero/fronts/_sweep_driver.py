"""`SweepDriver`: hands the points of a sweep to workers, collects the results, and repeats points whose worker died."""

from __future__ import annotations

import asyncio
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from torch import Tensor

from ferero._arrays import to_float64
from ferero.errors import FereroError, InputError
from ferero.fronts._front import Found
from ferero.fronts._sweep_store import pack
from ferero.fronts._trained import Trained
from ferero.optimize._result import Result
from ferero.preference import Preference

__all__ = ["LostError", "SweepDriver", "SweepError", "Workers", "Workforce", "portable"]

_SHORTEST, _LONGEST = 1e-3, 0.25  # seconds between two polls of the futures
_PATIENCE = 60.0  # seconds in which a broken pool tells its futures


class SweepError(FereroError, RuntimeError):
    """Points of a sweep failed; the finished ones are here, and in the sweep's folder.

    Attributes:
        failures: the errors by the index of the preference; empty where no single point is at fault.
        finished: the results by the index of the preference.
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


class LostError(RuntimeError):
    """Every worker that tried a point died."""


class SweepDriver:
    """Runs every point once, and again if its worker died.

    A process pool breaks as a whole when one of its processes is killed, and does not tell which point did it. All
    unfinished points are then submitted again; those that were running are suspects, and a suspect with a single
    attempt left waits until it can run alone, so a point that kills its workers costs no other point an attempt.

    Args:
        train_one: the user's function.
        preferences: by index.
        workforce: the executor.
        retries: how often a point is run again after its worker died.
        keep: called with an index and a packed result as each point finishes.

    Attributes:
        failures: the errors by index, complete when `run` has returned.
    """

    def __init__(
        self,
        train_one: Callable[[Preference], object],
        preferences: Mapping[int, Preference],
        workforce: Workforce,
        *,
        retries: int,
        keep: Callable[[int, bytes], None],
    ) -> None:
        self._train_one, self._preferences, self._workforce = train_one, preferences, workforce
        self._retries, self._keep = retries, keep
        self._waiting = list(preferences)
        self._pending: dict[int, Handle] = {}
        self._seen_running: set[int] = set()
        self._lost = dict.fromkeys(preferences, 0)
        self.failures: dict[int, BaseException] = {}

    def run(self) -> None:
        """Returns when every point is finished or has failed; cancels what is pending if it is interrupted."""
        pause = _SHORTEST
        try:
            while self._waiting or self._pending:
                self._submit()
                pause = _SHORTEST if self._collect() else min(1.5 * pause, _LONGEST)
                if self._pending:
                    time.sleep(pause)
        except BaseException:
            for handle in self._pending.values():
                with suppress(Exception):
                    handle.cancel()
            self._workforce.close(wait=False)
            raise
        self._workforce.close(wait=True)

    def _submit(self) -> None:
        together = [i for i in self._waiting if self._lost[i] < max(self._retries, 1)]
        alone = [] if self._pending or together else self._waiting[:1]
        for i in together or alone:
            preference = _ByValue(self._preferences[i])
            try:
                self._pending[i] = self._workforce.submit(_run_point, self._train_one, preference, i, self._lost[i])
            except BrokenExecutor as error:
                self._break(error, i)
                return
            self._waiting.remove(i)

    def _collect(self) -> bool:
        """Handles the points that are done; returns whether there were any."""
        before = len(self._pending)
        for i, handle in list(self._pending.items()):
            if _is_running(handle):
                self._seen_running.add(i)
            try:
                if not handle.done():
                    continue
                answer = handle.result()
            except BrokenExecutor as error:
                self._break(error, i)
                return True
            except (Exception, asyncio.CancelledError) as error:
                del self._pending[i]
                self._lose(i, error)
            else:
                del self._pending[i]
                self._take(i, answer)
        return len(self._pending) < before

    def _take(self, i: int, answer: bytes | _Raised) -> None:
        if isinstance(answer, _Raised):
            self.failures[i] = answer.error
        else:
            self._keep(i, answer)

    def _lose(self, i: int, error: BaseException) -> None:
        if _is_pickling(error):
            raise _not_picklable(error) from error
        self._lost[i] += 1
        if self._lost[i] <= self._retries:
            self._waiting.append(i)
            return
        times = "once" if self._lost[i] == 1 else f"{self._lost[i]} times"
        self.failures[i] = LostError(f"its worker was lost {times}, last by {type(error).__name__}: {error}")

    def _break(self, error: BrokenExecutor, at: int) -> None:
        """Keeps what a broken pool had finished and submits the rest again; point ``at`` revealed the break."""
        left = [i for i, handle in self._pending.items() if not self._salvage(i, handle)]
        if not left and at in self._waiting:  # a pool that accepts nothing: do not try for ever
            self._waiting.remove(at)
            left = [at]
        self._pending.clear()
        if not self._workforce.is_renewable:
            raise SweepError(
                f"executor: a worker was killed, which broke the {self._workforce.name}, and it cannot be used again. "
                "Give a function that makes one, executor=lambda: ProcessPoolExecutor(2), which is called anew after a "
                "break"
            ) from error
        self._workforce.close(wait=False)
        suspects = (self._seen_running & set(left)) or set(left)
        self._seen_running.clear()
        for i in left:
            if i in suspects:
                self._lose(i, error)
            else:
                self._waiting.append(i)

    def _salvage(self, i: int, handle: Any) -> bool:
        try:
            answer = handle.result(timeout=_PATIENCE)
        except (Exception, asyncio.CancelledError):
            return False
        self._take(i, answer)
        return True


def _is_running(handle: Any) -> bool:
    """Whether a future says that it is running; not every executor can tell."""
    running = getattr(handle, "running", None)
    return running is not None and bool(running())


class Handle(Protocol):
    """A future, as far as a sweep needs it: ``concurrent.futures.Future``, Dask's, submitit's ``Job``."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self) -> Any:
        """The return value; raises if the worker died."""

    def cancel(self) -> Any:
        """Cancels the call, if it has not begun."""


class Executor(Protocol):
    """Any object with ``submit(function, *arguments)``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Returns a `Handle`."""


Workers: TypeAlias = Executor | Callable[[], Executor] | None


class _Call:
    """A call in this process, made when its result is read."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._fn, self._args = fn, args

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self._fn(*self._args)

    def cancel(self) -> None:
        """Nothing has begun."""


class _Here:
    """Runs points in this process, one after the other."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> _Call:
        return _Call(fn, args)


class Workforce:
    """The user's executor, made when the first point is submitted.

    Args:
        executor: an executor, which is left open; a function without arguments that makes one, which is closed at the
            end and replaced if it breaks; or None for this process.

    Raises:
        InputError: for anything else.
    """

    def __init__(self, executor: Workers) -> None:
        is_instance = hasattr(executor, "submit") and not isinstance(executor, type)
        if not (executor is None or is_instance or callable(executor)):
            raise InputError(
                f"executor: expected an object with submit, a function that makes one, or None, found {executor!r}."
            )
        self._make: Any = None if executor is None or is_instance else executor
        self._executor: Any = _Here() if executor is None else executor if is_instance else None

    @property
    def is_renewable(self) -> bool:
        """Whether a broken executor can be replaced."""
        return self._make is not None

    @property
    def name(self) -> str:
        """The class of the executor."""
        return type(self._executor).__name__

    def submit(self, fn: Callable[..., Any], train_one: Callable[..., Any], *args: Any) -> Handle:
        """Submits ``fn(train_one, *args)``.

        Raises:
            InputError: for a ``train_one`` that cannot be pickled, with a pool of processes.
        """
        if self._executor is None:
            self._executor = self._make()
            if not hasattr(self._executor, "submit"):
                raise InputError(f"executor: expected it to make an object with submit, found {self._executor!r}.")
        if isinstance(self._executor, ProcessPoolExecutor):
            _check_picklable(train_one)
        handle: Handle = self._executor.submit(fn, train_one, *args)
        return handle

    def close(self, wait: bool) -> None:
        """Shuts the executor down if it was made here; the next `submit` makes another."""
        if self._make is not None and self._executor is not None:
            shutdown = getattr(self._executor, "shutdown", None)
            self._executor = None
            if shutdown is not None:
                shutdown(wait=wait)


def _check_picklable(train_one: object) -> None:
    try:
        pickle.dumps(train_one)
    except Exception as error:
        raise _not_picklable(error) from error


def _not_picklable(error: BaseException) -> InputError:
    """The error for a function that cannot be sent to another process."""
    return InputError(
        f"train_one: expected a function that can be sent to another process, found one that cannot be pickled "
        f"({error}); define train_one at the top level of a module. Dask and submitit take any function."
    )


@dataclass(frozen=True)
class _ByValue:
    """A preference that is pickled as bytes: torch would send its tensors as shared memory."""

    preference: Preference

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (pickle.dumps(self.preference),)


def _from_bytes(pickled: bytes) -> _ByValue:
    return _ByValue(pickle.loads(pickled))


@dataclass(frozen=True)
class _Raised:
    """What ``train_one`` raised, returned as a value: what a future itself raises is then the loss of its worker."""

    error: Exception

    def __reduce__(self) -> tuple[Any, ...]:
        return _Raised, (portable(self.error),)


def _run_point(
    train_one: Callable[[Preference], object],
    argument: _ByValue,
    index: int,  # noqa: ARG001
    attempt: int,  # noqa: ARG001
) -> bytes | _Raised:
    """The packed result for one preference, or the error.

    Args:
        train_one: the user's function.
        argument: the preference.
        index: of the preference; with ``attempt`` it makes each call unique, as Dask runs equal calls once.
        attempt: how often the point's worker has died.
    """
    began = time.perf_counter()
    try:
        value = train_one(argument.preference)
        return pack(_read_answer(value, argument.preference, time.perf_counter() - began))
    except SystemExit as end:
        return _Raised(RuntimeError(f"train_one called sys.exit({end.code!r})"))
    except Exception as error:
        return _Raised(error)


def _is_pickling(error: BaseException) -> bool:
    """Whether the error is about a function or an argument that cannot be pickled."""
    is_of_that_kind = isinstance(error, (TypeError, AttributeError)) and "pickle" in str(error)
    return isinstance(error, pickle.PicklingError) or is_of_that_kind


def portable(error: Exception) -> Exception:
    """The error with its traceback as a note; a RuntimeError with its text if it cannot be pickled."""
    trace = "In the worker:\n" + "".join(traceback.format_exception(error)).rstrip()
    try:
        copied = pickle.loads(pickle.dumps(error))
        is_same = type(copied) is type(error)
    except Exception:  # the user's exception class may fail in any way here
        is_same = False
    carried = copied if is_same else RuntimeError(f"{type(error).__name__}: {error}")
    carried.add_note(trace)
    return carried


def _read_answer(value: object, preference: Preference, seconds: float) -> Trained | Result:
    """The result in what ``train_one`` returned, on the CPU; "diverged" if trained losses are not finite.

    Args:
        value: losses (m,), {name: loss}, a `Trained` or a `Result`.
        preference: of the point.
        seconds: the wall time, for a value that has none.

    Raises:
        InputError: for anything else.
    """
    if isinstance(value, Result):
        _read_losses(value.losses, preference)
        return replace(value, preference=preference)
    if isinstance(value, Trained):
        losses = _read_losses(value.losses, preference)
        trained = replace(value, preference=preference, losses=losses, seconds=value.seconds or seconds)
    else:
        trained = Trained(preference, _read_losses(value, preference), seconds=seconds)
    if bool(trained.losses.isfinite().all()) or trained.status == "diverged":
        return trained
    return replace(trained, status="diverged", message=trained.message or "A loss is not finite.")


def _read_losses(value: object, preference: Preference) -> Tensor:
    """Losses (m,), float64 on the CPU, in the order of the preference's names."""
    names, m = preference.names, preference.m
    if isinstance(value, Mapping):
        if set(value) != set(names):
            found = ", ".join(map(str, value)) or "none"
            raise InputError(f"train_one: expected it to return a loss for each of {', '.join(names)}, found {found}.")
        value = [value[name] for name in names]
    if isinstance(value, (list, tuple)):
        value = [item.item() if isinstance(item, Tensor) and item.numel() == 1 else item for item in value]
    if value is None or isinstance(value, str):
        raise InputError(
            f"train_one: expected it to return its {m} losses, found {value!r}; end it with return losses."
        )
    losses = to_float64(value, "train_one: what it returned").cpu()  # type: ignore[arg-type]  # refuses what is none
    if losses.shape != (m,):
        raise InputError(
            f"train_one: expected it to return {m} losses, shape ({m},), one for each of {', '.join(names)}, found "
            f"shape {tuple(losses.shape)}."
        )
    return losses.clone()
