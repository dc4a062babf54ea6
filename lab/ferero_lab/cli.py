"""The lab's commands; each reads its options, calls the lab, and shows a table or prints JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ferero.cli import JsonOption, new_console, new_table, print_json, result_table, sentences, to_json, waiting
from ferero.errors import InputError, MissingExtraError
from ferero_lab import run_command

__all__ = ["add_commands"]

_BENCHES = "core, steer, methods or tasks"


def add_commands(app: typer.Typer) -> None:
    """Give the command line of the library what comes with the lab."""
    for command in (demo, run_command.run, run_command.report, bench):
        app.command()(command)
    app.command("list")(show_list)


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
        console.print(result_table(found.some_answers, "Two losses that pull against each other (the paper's problem)"))
        console.print(Text("Rays are traced together, so their milliseconds are shares. The last wish:"))
        console.print(Padding(Text(found.too_much.result.message, style="dim"), (0, 0, 1, 2)))
        with waiting(console, "drawing the pictures"):
            files = found.files(trained)
        write_folder(out, files)
        console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)
        if json:
            print_json({**found.to_dict(), "training": trained.to_dict(), "config": found.config()})


def show_list(json: JsonOption = False) -> None:
    """The problems and experiments that come with it."""
    from ferero_lab import problems
    from ferero_lab.experiments import get, names

    known = [problems.get(name) for name in problems.names()]
    with sentences():
        experiments = [get(name) for name in names()]
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
        from ferero_lab.report import write_file

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
        raise MissingExtraError(f"bench: {error.name} is not installed; pip install ferero-lab.") from None
