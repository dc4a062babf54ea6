"""`sweep`: a front whose points are computed by many workers, on this machine or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from ferero._arrays import ArrayLike
from ferero.errors import InputError
from ferero.fronts._front import Front, preference_text
from ferero.fronts._read_preferences import read_preferences
from ferero.fronts._sweep_driver import LostError, SweepDriver, SweepError, Workers, Workforce
from ferero.fronts._sweep_store import SweepStore, unpack
from ferero.fronts._trained import Trained
from ferero.optimize._result import Result
from ferero.preference import Preference

__all__ = ["sweep"]

_NAMED = 5  # failures that are listed one by one


def sweep(
    train_one: Callable[[Preference], object],
    preferences: Preference | Iterable[Preference] | ArrayLike,
    *,
    executor: Workers = None,
    folder: str | os.PathLike[str] | None = None,
    retries: int = 2,
    progress: Callable[[int, int], object] | None = None,
) -> Front[Any]:
    """Runs ``train_one`` for each of P preferences, on any executor, and keeps every finished point.

    With a ``folder``, each point is written there as it finishes, and the same call with the same folder resumes,
    however the last one ended: finished points are loaded and not run again. A folder belongs to one ``train_one``;
    if you change that, name another.

    A point whose worker was killed is run again. If ``train_one`` itself raises, the other points are finished
    first. Losses that are not finite are a result too, with the status "diverged".

    Args:
        train_one: ``train_one(preference)`` returns the losses (m,), or {name: loss}, or a `Trained`, or a `Result`.
            For a pool of processes it must be defined at the top level of a module.
        preferences: a list of `Preference`, a stack of them, or rays (P, m), which become `Preference.ray`.
        executor: an object with ``submit``: of ``concurrent.futures``, Dask's ``client.get_executor()``, submitit's. Or
            a function that makes one, such as ``lambda: ProcessPoolExecutor(2)``: a pool of processes breaks when one
            of them is killed, and is then replaced. None: this process, one point after the other.
        folder: keeps the finished points; None keeps them in memory only.
        retries: how often a point is run again after its worker died.
        progress: called with the number of finished points and P, at the start and after each point.

    Returns:
        The `Front`; its points are in the order of the preferences.

    Raises:
        InputError: for arguments that do not fit, a folder of another sweep, or a ``train_one`` that cannot be sent.
        SweepError: if points failed; it names them, its cause is the first error, and it holds the finished points.
        KeyboardInterrupt: on Ctrl-C, after cancelling pending points; finished ones are kept.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> front = sweep(lambda p: ferero.minimize(fun, torch.zeros(1), p), [[1.0, 1.0], [1.0, 9.0]])
        >>> front
        Front(2 points in f1, f2: 2 converged)
    """
    given = read_preferences(preferences)
    _check(train_one, retries)
    workforce = Workforce(executor)
    store = None if folder is None else SweepStore(folder, given)
    try:
        return _Sweep(train_one, given, workforce, store, progress).run(retries)
    finally:
        if store is not None:
            store.close()


class _Sweep:
    """One call of `sweep`: its finished points, its progress, and its messages if it ends early."""

    def __init__(
        self,
        train_one: Callable[[Preference], object],
        preferences: list[Preference],
        workforce: Workforce,
        store: SweepStore | None,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self._train_one, self._preferences, self._workforce = train_one, preferences, workforce
        self._store, self._progress = store, progress
        self._finished: dict[int, Trained | Result] = {} if store is None else store.load()
        self._unwritten: dict[int, Trained | Result] = {}

    def run(self, retries: int) -> Front[Any]:
        missing = {i: p for i, p in enumerate(self._preferences) if i not in self._finished}
        driver = SweepDriver(self._train_one, missing, self._workforce, retries=retries, keep=self._keep)
        try:
            self._tell()
            driver.run()
        except KeyboardInterrupt as stop:
            stop.add_note(f"sweep: stopped with {self._kept()}")
            raise
        except SweepError as error:
            raise SweepError(f"{error}; {self._kept()}", finished=self._finished | self._unwritten) from error.__cause__
        if driver.failures:
            raise self._failure(driver.failures) from min(driver.failures.items())[1]
        return Front.from_results([self._finished[i] for i in range(len(self._preferences))])

    def _keep(self, i: int, parcel: bytes) -> None:
        point = unpack(parcel, self._preferences[i])
        if self._store is not None:
            try:
                self._store.keep(i, parcel)
            except OSError as error:
                self._unwritten[i] = point
                raise SweepError(f"folder: preferences[{i}] is finished but could not be written: {error}") from error
        self._finished[i] = point
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(len(self._finished), len(self._preferences))

    def _kept(self) -> str:
        count = f"{len(self._finished)} of {len(self._preferences)} points finished"
        if self._store is None:
            return (
                f"{count}, and not kept on disk; with folder= they would be, and the same call would go on from there."
            )
        return f"{count} and kept in {self._store}; the same call with the same folder goes on from there."

    def _failure(self, failures: dict[int, BaseException]) -> SweepError:
        told = [self._sentence(i, failures[i]) for i in sorted(failures)[:_NAMED]]
        if len(failures) > _NAMED:
            told.append(f"and {len(failures) - _NAMED} more, see failures of this error")
        return SweepError(f"{'; '.join(told)}; {self._kept()}", failures, self._finished)

    def _sentence(self, i: int, error: BaseException) -> str:
        where = f"preferences[{i}] ({preference_text(self._preferences[i])})"
        return f"{where}: {error}" if isinstance(error, LostError) else f"train_one of {where} raised {_text(error)}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": .")


def _check(train_one: object, retries: object) -> None:
    if not callable(train_one):
        raise InputError(f"train_one: expected a function of a preference, found {train_one!r}.")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise InputError(f"retries: expected an integer of at least 0, found {retries!r}.")
