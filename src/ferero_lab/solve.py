"""`ferero solve`: a user's own problem, from text to answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ferero.errors import InputError
from ferero.optimize import minimize
from ferero.optimize.evaluator import make_evaluator
from ferero.preference import Preference
from ferero_lab.report import Answer, Page, configuration, draw, to_json
from ferero_lab.tables import answer_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "read_names", "read_start", "read_step", "solution_files", "solve_problem"]

FILES = ("config.json", "results.json", "history.png", "report.html")


def read_start(x0: str | None, n: int | None, seed: int, *, numpy: bool) -> Any:
    """The start: numbers as text, or n standard normal ones; a float64 tensor, or an array for numpy.

    Raises:
        InputError: for neither, both, or what is no number.
    """
    if (x0 is None) == (n is None):
        found = "neither" if x0 is None else "both"
        raise InputError(f'--x0, --n: expected a start, "0,0,0", or a number of parameters, found {found}.')
    if x0 is not None:
        try:
            values = np.array([float(part) for part in x0.replace(",", " ").split()])
        except ValueError:
            raise InputError(f'--x0: expected numbers such as "0,0.5,1", found {x0!r}.') from None
        if not values.size:
            raise InputError('--x0: expected numbers such as "0,0.5,1", found none.')
    else:
        if n is None or n < 1:
            raise InputError(f"--n: expected a positive number of parameters, found {n}.")
        values = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).numpy()
    return values if numpy else torch.from_numpy(values)


def read_step(text: str) -> float | Literal["auto"]:
    """The step: "auto", or a number.

    Raises:
        InputError: for anything else.
    """
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise InputError(f'--step: expected "auto" or a number such as 0.05, found {text!r}.') from None


def read_names(text: str | None, fun: Callable[[Any], Any], start: Any) -> list[str]:
    """The losses' names as given, or f1..fm for as many as the function gives at the start."""
    if text is not None:
        return [name.strip() for name in text.split(",")]
    evaluator, points = make_evaluator(fun, start, None, 1)
    evaluator.losses(points)
    return [f"f{i + 1}" for i in range(evaluator.m)]


def solve_problem(
    fun: Callable[[Any], Any],
    start: Any,
    wish: str,
    names: Sequence[str],
    *,
    step: float | Literal["auto"],
    max_iter: int,
    tol: float,
) -> Answer:
    """`ferero.minimize` with the preference as text, and the time it took."""
    preference = Preference.parse(wish, names=list(names))
    began = perf_counter()
    result = minimize(fun, start, preference, step=step, max_iter=max_iter, tol=tol)
    return Answer(result, 1e3 * (perf_counter() - began))


@dataclass(frozen=True)
class _Figure:
    """The run's picture, drawn when asked."""

    answer: Answer

    def __call__(self) -> Figure:
        from ferero.plot import plot_history

        figure: Figure = plot_history(self.answer.result)[0].get_figure(root=True)  # type: ignore[assignment]
        return figure


def solution_files(answer: Answer, target: str, **options: Any) -> dict[str, bytes]:
    """The report folder's contents, by name.

    Args:
        answer: what was found.
        target: the function's name and its file's, without the path.
        options: those of the command.
    """
    config = configuration("solve", target=target, **options)
    history = draw(_Figure(answer))
    result = answer.result
    page = Page(f"ferero solve: {target}")
    page.text("Asked:")
    page.verbatim(str(result.preference))
    for note in result.preference.notes:
        page.text(f"Note: {note}")
    page.text(f"Found ({result.status}): {result.message}")
    page.table(*answer_rows([answer]))
    page.text(f"Certificate: {result.kkt}.")
    page.picture(history, "The losses at each step and, below, by how much the constraints are violated.")
    page.footer(", ".join(f"{name} {version}" for name, version in config["versions"].items()) + ".")
    return {
        "config.json": to_json(config).encode(),
        "results.json": to_json(answer.to_dict()).encode(),
        "history.png": history.png,
        "report.html": page.render(),
    }
