"""Those who do the work: any executor, one that is made anew when it breaks, or this process itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Protocol, TypeAlias

from ferero.errors import InputError

__all__ = ["Executor", "Handle", "Workers", "Workforce", "not_picklable"]


class Handle(Protocol):
    """A future, as far as a sweep needs it: ``concurrent.futures.Future``, Dask's, submitit's ``Job``."""

    def done(self) -> bool:
        """Whether `result` would answer at once."""

    def result(self) -> Any:
        """What the call returned; raises where its worker was lost."""

    def cancel(self) -> Any:
        """Stop it, if that can still be done."""


class Executor(Protocol):
    """Whatever has ``submit(function, *arguments)``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Returns a `Handle`."""


Workers: TypeAlias = Executor | Callable[[], Executor] | None


class _Call:
    """A call in this process, made when its result is asked for."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._fn, self._args = fn, args

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self._fn(*self._args)

    def cancel(self) -> None:
        """Nothing has begun."""


class _Here:
    """This process, one point after the other."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> _Call:
        return _Call(fn, args)


class Workforce:
    """An executor, made when the first point is given to it.

    Args:
        executor: one, which is left open; a function without arguments that makes one, which is closed at the end and
            made anew after a break; or None for this process.

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
        """Whether one that broke can be replaced."""
        return self._make is not None

    @property
    def name(self) -> str:
        """What the executor is called."""
        return type(self._executor).__name__

    def submit(self, fn: Callable[..., Any], train_one: Callable[..., Any], *args: Any) -> Handle:
        """Gives ``fn(train_one, *args)`` to a worker.

        Raises:
            InputError: for a ``train_one`` that other processes cannot get.
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
        """Ends the executor if it was made here; `submit` makes another one then."""
        if self._make is not None and self._executor is not None:
            shutdown = getattr(self._executor, "shutdown", None)
            self._executor = None
            if shutdown is not None:
                shutdown(wait=wait)


def _check_picklable(train_one: object) -> None:
    try:
        pickle.dumps(train_one)
    except Exception as error:
        raise not_picklable(error) from error


def not_picklable(error: BaseException) -> InputError:
    """The sentence for a function that cannot be sent to another process."""
    return InputError(
        f"train_one: expected a function that can be sent to another process, found one that cannot be pickled "
        f"({error}); define train_one at the top level of a module. Dask and submitit take any function."
    )
