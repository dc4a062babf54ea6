"""The command line: each command reads its options, calls the lab, and shows a table or prints JSON.

Exit codes: 0 done, 1 bad input (one sentence on stderr), 2 `solve` ended without meeting its conditions,
130 interrupted.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

import ferero
from ferero.errors import InputError, MissingExtraError
from ferero_lab import run_command
from ferero_lab.speaking import JsonOption, new_console, print_json, sentences
from ferero_lab.tables import answer_table, new_table, status_text
from ferero_lab.waiting import waiting

__all__ = ["app", "main"]

_BENCHES = "core, steer, methods or tasks"

app = typer.Typer(
    help="Finds the trade-off you ask for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(args: list[str] | None = None) -> int:
    """Runs the command line.

    Args:
        args: those of the process if None.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return int(app(args, standalone_mode=False) or 0)
    except Exception as error:
        show = getattr(error, "show", None)  # the option parser's errors, whichever package they live in
        if show is None:
            raise
        show()
        return 1


def _terminate(signum: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds like an interrupt, so that half-written folders are taken away."""
    del frame
    sys.exit(128 + signum)


app.command()(run_command.run)
app.command()(run_command.report)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"ferero {ferero.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave."),
    ] = False,
) -> None:
    del version


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The report folder.")] = Path("runs/demo"),
    json: JsonOption = False,
) -> None:
    """A model trained under a bound; rays, a bound and an impossible wish on the paper's problem; with a report."""
    console = new_console(json)
    with sentences("interrupted; no report was written"):
        from ferero_lab.demo import FILES, run_demo
        from ferero_lab.live_training import follow_training, show_training
        from ferero_lab.report import check_folder, write_folder

        check_folder(out, FILES)
        trained = follow_training(console)
        show_training(console, trained)
        with waiting(console, "finding the points"):
            found = run_demo()
        console.print(answer_table(found.some_answers, "Two losses that pull against each other (the paper's problem)"))
        console.print(Text("Rays are traced together, so their milliseconds are shares. The last wish:"))
        console.print(Padding(Text(found.too_much.result.message, style="dim"), (0, 0, 1, 2)))
        with waiting(console, "drawing the pictures"):
            files = found.files(trained)
        write_folder(out, files)
        console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)
        if json:
            print_json({**found.to_dict(), "training": trained.to_dict(), "config": found.config()})


@app.command("list")
def show_list(json: JsonOption = False) -> None:
    """The problems and experiments that come with it."""
    from ferero_lab import problems
    from ferero_lab.experiments import registry

    known = [problems.get(name) for name in problems.names()]
    with sentences():
        experiments = [registry.get(name) for name in registry.names()]
    if json:
        print_json(
            {
                "problems": [
                    {
                        "name": p.name,
                        "losses": p.m,
                        "parameters": p.n,
                        "starts": list(p.start_kinds),
                        "summary": p.summary,
                    }
                    for p in known
                ],
                "experiments": [{"name": one.name, "summary": one.summary} for one in experiments],
            }
        )
        return
    table = new_table("Problems")
    for name in ("name", "losses", "parameters", "what it is"):
        table.add_column(name, justify="right" if name in {"losses", "parameters"} else "left")
    for p in known:
        table.add_row(p.name, str(p.m), str(p.n), p.summary)
    second = new_table("Experiments (ferero run NAME)")
    second.add_column("name")
    second.add_column("what it is")
    for one in experiments:
        second.add_row(one.name, one.summary)
    new_console(json).print(table, second)


@app.command()
def solve(
    target: Annotated[str, typer.Argument(metavar="FILE:FUNCTION", help="theta -> (m,) losses; problem.py:losses.")],
    preference: Annotated[
        str,
        typer.Option("--preference", "-p", help='What is wanted: "f1 <= 0.3", "ray 1 2", "minimize f1 + f2".'),
    ],
    x0: Annotated[str | None, typer.Option(help='The start, "0,0,0".')] = None,
    n: Annotated[int | None, typer.Option(help="The number of parameters, for a random start.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random start.")] = 0,
    names: Annotated[str | None, typer.Option(help='Of the losses, "cost,time"; f1,f2,... by default.')] = None,
    step: Annotated[str, typer.Option(help="auto, or a fixed step such as 0.05.")] = "auto",
    max_iter: Annotated[int, typer.Option(help="The most steps.")] = 200,
    tol: Annotated[float, typer.Option(help="On each part of the certificate.")] = 1e-6,
    numpy: Annotated[
        bool, typer.Option("--numpy", help="Call it with numpy arrays (or set FUNCTION.numpy = True).")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write a report folder.")] = None,
    json: JsonOption = False,
) -> None:
    """Your own problem: the point of its front that you ask for. Exits with 2 if it is not reached."""
    console = new_console(json)
    with sentences():
        from ferero_lab import solve as solving
        from ferero_lab.report import check_folder, write_folder
        from ferero_lab.user_problem import is_numpy, load_function

        if out is not None:
            check_folder(out, solving.FILES)
        function = load_function(target)
        start = solving.read_start(x0, n, seed, numpy=numpy or is_numpy(function))
        options: dict[str, Any] = {"step": solving.read_step(step), "max_iter": max_iter, "tol": tol}
        with waiting(console, "searching"):
            named = solving.read_names(names, function, start)
            answer = solving.solve_problem(function, start, preference, named, **options)
        if out is not None:
            label = f"{Path(target.rpartition(':')[0]).name}:{target.rpartition(':')[2]}"
            given = {"preference": preference, "x0": x0, "n": n, "seed": seed, "names": named, **options}
            write_folder(out, solving.solution_files(answer, label, **given))
    if json:
        print_json(answer.to_dict())
    else:
        _show_answer(console, answer, out)
    raise typer.Exit(0 if answer.result.success else 2)


def _show_answer(console: Console, answer: Any, out: Path | None) -> None:
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


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help=f"Which one: {_BENCHES}.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small sample.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
    rivals: Annotated[bool, typer.Option("--rivals", help="tasks: train the rivals again, too (hours).")] = False,
    lines: Annotated[
        Path | None, typer.Option(help="tasks: a folder that keeps each cell; the same command then goes on.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="tasks: processes; as many as cores by default.")] = None,
    form: Annotated[list[str] | None, typer.Option(help="tasks: only this form, such as 'as it is'; repeat.")] = None,
    json: JsonOption = False,
) -> None:
    """Measures what is promised, beside what others do."""
    console = new_console(json)
    kept = "interrupted; nothing was written" if lines is None else f"interrupted; the cells done are in {lines}"
    with sentences(kept):
        from ferero_lab.report import to_json, write_file

        options = {"rivals": rivals or None, "lines": lines, "jobs": jobs, "forms": form or None}
        given = {option: value for option, value in options.items() if value is not None}
        if given and name != "tasks":
            option = next(iter(given)).removesuffix("s") if form else next(iter(given))
            raise InputError(f"--{option}: only bench tasks has this option, found bench {name}; leave it out.")
        module = _bench_module(name)
        columns = (
            TextColumn("{task.description}"),
            TextColumn("{task.completed:.0f} done"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True, disable=json) as bar:
            result = module.run(quick, partial(_next_part, bar), **given)
        if out is not None:
            write_file(out, to_json(result).encode())
    if json:
        print_json(result)
    else:
        module.show(result, console)


def _next_part(bar: Progress, title: str) -> Callable[[], None]:
    """Begins a line of progress; calling what it returns counts one more piece of work as done."""
    for task in bar.tasks:
        bar.stop_task(task.id)
    return partial(bar.advance, bar.add_task(title, total=None))


def _bench_module(name: str) -> Any:
    if not name.isidentifier():
        raise InputError(f"NAME: expected a benchmark such as {_BENCHES}, found {name!r}.")
    wanted = f"ferero_lab.bench.{name}"
    try:
        return importlib.import_module(wanted)
    except ModuleNotFoundError as error:
        if error.name in {wanted, "ferero_lab.bench"}:
            raise InputError(f"NAME: there is no benchmark {name!r}; try {_BENCHES}.") from None
        raise MissingExtraError(f'bench: {error.name} is not installed; pip install "ferero[lab]".') from None
