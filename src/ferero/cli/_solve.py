"""`ferero solve`: a user's own function, loaded from a file by its path, minimised under a preference given as text."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer
from rich.console import Console
from rich.text import Text
from torch import Tensor

from ferero.cli._console import JsonOption, new_console, new_table, print_json, sentences, status_text, waiting
from ferero.cli._timed_result import TimedResult
from ferero.errors import FereroError, InputError, MissingExtraError
from ferero.optimize import minimize
from ferero.optimize._box import read_bounds
from ferero.optimize._evaluator import UserFunction, make_evaluator
from ferero.preference import Preference

__all__ = ["UserCodeError", "solve"]


class UserCodeError(FereroError, RuntimeError):
    """The user's own code failed."""


def solve(
    target: Annotated[str, typer.Argument(metavar="FILE:FUNCTION", help="theta -> (m,) losses; problem.py:losses.")],
    preference: Annotated[
        str,
        typer.Option("--preference", "-p", help='The preference: "f1 <= 0.3", "ray 1 2", "minimize f1 + f2".'),
    ],
    x0: Annotated[str | None, typer.Option(help='The start, "0,0,0".')] = None,
    n: Annotated[int | None, typer.Option(help="The number of parameters, for a random start.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random start.")] = 0,
    names: Annotated[str | None, typer.Option(help='Of the losses, "cost,time"; f1,f2,... by default.')] = None,
    step: Annotated[str, typer.Option(help="auto, or a fixed step such as 0.05.")] = "auto",
    max_iter: Annotated[int, typer.Option(help="The most steps.")] = 200,
    tol: Annotated[float, typer.Option(help="On each part of the certificate.")] = 1e-6,
    bounds: Annotated[
        str | None,
        typer.Option(help='Of the parameters: "0:1" for all, or one each, "0:1,:5,-1:"; an open side is empty.'),
    ] = None,
    constraints: Annotated[
        str | None, typer.Option(help="The name in FILE of constraints in x, as SciPy writes them: one or a list.")
    ] = None,
    numpy: Annotated[
        bool, typer.Option("--numpy", help="UserFunction it with numpy arrays (or set FUNCTION.numpy = True).")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report folder.")] = None,
    json: JsonOption = False,
) -> None:
    """Your own problem: the point of its front that you ask for. Exits with 2 if it is not reached."""
    console = new_console(json)
    with sentences():
        write = None if out is None else _writer(out)
        function = _load_function(target)
        start = _read_start(x0, n, seed, numpy=numpy or bool(getattr(function, "numpy", False)))
        options: dict[str, Any] = {"step": _read_step(step), "max_iter": max_iter, "tol": tol}
        in_x: dict[str, Any] = {
            "bounds": _read_bounds(bounds, start.size if isinstance(start, np.ndarray) else start.numel()),
            "constraints": _load_constraints(constraints, target),
        }
        with waiting(console, "searching"):
            named = _read_names(names, function, start, in_x["bounds"])
            answer = _solve_problem(function, start, preference, named, **options, **in_x)
        if write is not None:
            label = f"{Path(target.rpartition(':')[0]).name}:{target.rpartition(':')[2]}"
            options |= {"bounds": bounds, "constraints": constraints}
            write(answer, label, preference=preference, x0=x0, n=n, seed=seed, names=named, **options)
    if json:
        print_json(answer.to_dict())
    else:
        _show_answer(console, answer, out)
    raise typer.Exit(0 if answer.result.success else 2)


def _writer(out: Path) -> Callable[..., None]:
    """A function that writes the report folder.

    Raises:
        MissingExtraError: without the lab, which makes the pages.
    """
    try:
        from ferero_lab.report import check_folder, write_folder
        from ferero_lab.report.solution import FILES, solution_files
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"--out: reports come with ferero-lab, and {error.name} is not installed; pip install ferero-lab, or leave "
            "--out away."
        ) from None
    check_folder(out, FILES)

    def write(answer: TimedResult, label: str, **options: Any) -> None:
        write_folder(out, solution_files(answer, label, **options))

    return write


def _show_answer(console: Console, answer: TimedResult, out: Path | None) -> None:
    result = answer.result
    console.print(Text(str(result.preference)))
    for note in result.preference.notes:
        console.print(Text(f"note: {note}", style="dim"))
    console.print()
    console.print(Text.assemble(status_text(result.status), f": {result.message}"))
    table = new_table()
    table.add_column("loss")
    table.add_column("value", justify="right")
    table.add_column("weight", justify="right")
    for name, value in answer.losses.items():
        table.add_row(Text(name), f"{value:.6g}", f"{answer.weights[name]:.4g}")
    console.print(table)
    values = [f"{float(value):.6g}" for value in result.x.reshape(-1)]
    shown = ", ".join(values) if len(values) <= 12 else ", ".join(values[:10]) + f", ... ({len(values)} in all)"
    console.print(Text(f"x = {shown}"))
    console.print(Text(f"certificate: {result.kkt}"))
    console.print(Text(f"{result.iterations} steps, {result.evaluations} evaluations, {answer.milliseconds:.1f} ms"))
    if out is not None:
        console.print(Text(f"report: {out / 'report.html'}"), soft_wrap=True)


def _read_start(x0: str | None, n: int | None, seed: int, *, numpy: bool) -> Any:
    """The start: numbers as text, or n standard normal ones; a float64 tensor, or an array for numpy.

    Raises:
        InputError: for neither, both, a seed beside numbers, or what is no number.
    """
    if (x0 is None) == (n is None):
        found = "neither" if x0 is None else "both"
        raise InputError(f'--x0, --n: expected a start, "0,0,0", or a number of parameters, found {found}.')
    if x0 is not None:
        if seed:
            raise InputError(f"--seed: expected none beside --x0, which leaves nothing to draw, found {seed}.")
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


def _read_step(text: str) -> float | Literal["auto"]:
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


def _read_bounds(text: str | None, size: int) -> list[tuple[float | None, float | None]] | None:
    """Pairs from "0:1,:5,-1:", or one pair for all.

    Raises:
        InputError: for anything else.
    """
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) not in (1, size):
        raise InputError(f"--bounds: expected one pair or {size}, one a parameter, found {len(parts)}.")
    pairs = []
    for part in parts:
        low, colon, high = part.partition(":")
        try:
            pair = tuple(float(side) if side.strip() else None for side in (low, high))
        except ValueError:
            pair = ()
        if not colon or len(pair) != 2:
            raise InputError(f'--bounds: expected lower:upper such as "0:1" or ":5", found {part!r}.')
        pairs.append((pair[0], pair[1]))
    return pairs * size if len(pairs) == 1 else pairs


def _load_constraints(name: str | None, target: str) -> Any:
    """The constraints that the user's file has under that name.

    Raises:
        InputError: where it has none.
    """
    if name is None:
        return None
    path = Path(target.rpartition(":")[0])
    found = vars(_run_file(path)).get(name)
    if found is None:
        raise InputError(f"--constraints: {path} has no {name!r}; name a constraint or a list of them in it.")
    return found


def _read_names(text: str | None, fun: Callable[[Any], Any], start: Any, bounds: Any) -> list[str]:
    """The losses' names as given, or f1..fm for as many as the function gives at the start."""
    if text is not None:
        return [name.strip() for name in text.split(",")]
    call = UserFunction(fun, None, read_bounds(bounds, len(start)))
    evaluator, points = make_evaluator(fun, start, None, 1, call)
    evaluator.losses(points)
    return [f"f{i + 1}" for i in range(evaluator.m)]


def _solve_problem(
    fun: Callable[[Any], Any],
    start: Any,
    text: str,
    names: Sequence[str],
    *,
    step: float | Literal["auto"],
    max_iter: int,
    tol: float,
    bounds: Any,
    constraints: Any,
) -> TimedResult:
    """`ferero.minimize` with the preference as text, and the time it took."""
    preference = Preference.parse(text, names=list(names))
    began = perf_counter()
    result = minimize(
        fun, start, preference, step=step, max_iter=max_iter, tol=tol, bounds=bounds, constraints=constraints
    )
    return TimedResult(result, 1e3 * (perf_counter() - began))


def _load_function(target: str) -> Callable[[Any], Any]:
    """The function of ``FILE:FUNCTION``; what it raises becomes a sentence that names the line.

    Raises:
        InputError: for a target, a file or a function that is not there.
        UserCodeError: when the file cannot be run.
    """
    place, _, name = target.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(f"FILE:FUNCTION: expected for example problem.py:losses, found {target!r}.")
    path = Path(place)
    if not path.is_file():
        raise InputError(f"FILE:FUNCTION: there is no file {place}.")
    module = _run_file(path)
    function = vars(module).get(name)
    if function is None:
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"FILE:FUNCTION: {place} has no {name!r}; it has {', '.join(found) or 'no functions'}.")
    if not callable(function):
        raise InputError(f"FILE:FUNCTION: {name!r} in {place} is no function but a {type(function).__name__}.")
    return _guarded(function, path)


def _run_file(path: Path) -> Any:
    if path.suffix != ".py":
        raise InputError(f"FILE:FUNCTION: expected a .py file, found {path}.")
    spec = importlib.util.spec_from_file_location(f"_ferero_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"FILE:FUNCTION: {path} cannot be read as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles in the file look themselves up there
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)  # as `python FILE` would, so that the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _sentence(error, path) from error
    finally:
        sys.path.remove(folder)
    return module


def _guarded(function: Callable[[Any], Any], path: Path) -> Callable[[Any], Any]:
    @wraps(function)
    def call(theta: Any) -> Any:
        try:
            return function(theta)
        except Exception as error:
            raise _sentence(error, path, _numpy_hint(theta, path)) from error

    return call


def _numpy_hint(theta: Any, path: Path) -> str:
    """Advice for a function that got a tensor and whose file mentions numpy."""
    is_suspect = isinstance(theta, Tensor) and "numpy" in path.read_text(encoding="utf-8", errors="replace")
    return " If the function is written with numpy, add --numpy." if is_suspect else ""


def _sentence(error: Exception, path: Path, hint: str = "") -> UserCodeError:
    """The error with the last line of the user's file that it went through."""
    if isinstance(error, SyntaxError):
        line = error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if Path(f.filename).name == path.name), None)
    where = path.name if line is None else f"{path.name}, line {line}"
    return UserCodeError(f"{where}: {type(error).__name__}: {str(error).rstrip('.')}.{hint}")
