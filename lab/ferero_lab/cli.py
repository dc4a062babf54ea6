"""The lab's commands; each reads its options, calls the lab, and shows tables or prints JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from ferero.cli import JsonOption, new_console, new_table, print_json, result_table, sentences, to_json, waiting
from ferero.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ferero_lab.experiments.experiment import Settings, Story
    from ferero_lab.experiments.runner import Done, Stage
    from ferero_lab.report.panels import Table

__all__ = ["add_commands"]

_BENCHES = "core, steer, methods, tasks or solver"
_BENCH_OPTIONS = {"tasks": {"rivals", "lines", "jobs", "forms"}, "solver": {"lines", "jobs", "half"}}
_HOUR = 3600.0


def add_commands(app: typer.Typer) -> None:
    """Give the command line of the library what comes with the lab."""
    for command in (demo, run, report, bench):
        app.command()(command)
    app.command("list")(show_list)


def demo(
    out: Annotated[Path, typer.Option(help="The report folder.")] = Path("runs/demo"),
    json: JsonOption = False,
) -> None:
    """A model trained under a bound; rays, a bound and an impossible preference on the paper's problem; a report."""
    console = new_console(json)
    with sentences("interrupted; no report was written"):
        from ferero_lab.demo import FILES, follow_training, run_demo, show_training
        from ferero_lab.report import check_folder, write_folder

        check_folder(out, FILES)
        trained = follow_training(console)
        show_training(console, trained)
        with waiting(console, "finding the points"):
            found = run_demo()
        console.print(result_table(found.some_answers, "Two losses that pull against each other (the paper's problem)"))
        console.print(Text("Rays are traced together, so their milliseconds are shares. The last preference:"))
        console.print(Padding(Text(found.too_much.result.message, style="dim"), (0, 0, 1, 2)))
        with waiting(console, "drawing the pictures"):
            files = found.files(trained)
        write_folder(out, files)
        console.print(Text(f"Report: {out / 'report.html'}"), soft_wrap=True)
        if json:
            print_json({**found.to_dict(), "training": trained.to_dict(), "config": found.config()})


def run(
    name: Annotated[str, typer.Argument(help="Which one; `ferero list` names them.")],
    quick: Annotated[bool, typer.Option("--quick", help="Minutes on a laptop, no download.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="The paper's settings, exactly.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many.")] = None,
    device: Annotated[str, typer.Option(help="Where to compute, as torch writes it: cpu, cuda, cuda:1.")] = "cpu",
    data: Annotated[Path | None, typer.Option(help="The folder with the data sets; else FERERO_DATA.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only these figures or data sets: a,b or repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods: a,b or repeated.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="How long to train.")] = None,
    unit: Annotated[str | None, typer.Option(help="Mandarin in characters, syllables or toneless (speech).")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/NAME by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    jobs: Annotated[int, typer.Option(help="How many parts to run at once, in as many processes.")] = 1,
    json: JsonOption = False,
) -> None:
    """One of the paper's experiments, with its figures and tables beside the paper's."""
    console = new_console(json)
    with sentences():
        from ferero_lab import experiments
        from ferero_lab.experiments.experiment import Settings

        mode = _mode(quick, paper)
        experiment = experiments.get(name)
        if unit is not None and name != "speech":
            raise InputError(f"--unit: expected with speech alone, found with {name}; leave it out.")
        settings = Settings(mode, seeds, _device(device), data, _words(only), _words(methods), epochs, unit)
        folder = Path("runs") / (name if mode == "ours" else f"{name}-{mode}") if out is None else out
    with sentences(f"interrupted; what is finished is kept in {folder}: the same command with --resume continues"):
        done = _run_with_bar(experiment, settings, folder, resume, jobs, console, silent=json)
    _show_run(done, console, json)


def report(
    folder: Annotated[Path, typer.Argument(help="Of a run, finished or not.")],
    json: JsonOption = False,
) -> None:
    """Writes the report of a run anew, from what it has kept."""
    with sentences():
        from ferero_lab.experiments.runner import report_again

        done = report_again(folder)
    _show_run(done, new_console(json), json)


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
        Path | None, typer.Option(help="tasks, solver: a folder that keeps each cell; the same command then goes on.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as cores (tasks) or one (solver) by default.")
    ] = None,
    form: Annotated[list[str] | None, typer.Option(help="tasks: only this form, such as 'as it is'; repeat.")] = None,
    half: Annotated[str | None, typer.Option(help="solver: of the problems, report (the default) or tune.")] = None,
    json: JsonOption = False,
) -> None:
    """Measures what is promised, beside what others do."""
    console = new_console(json)
    kept = "interrupted; nothing was written" if lines is None else f"interrupted; the cells done are in {lines}"
    with sentences(kept):
        from ferero_lab.report import write_file

        options = {"rivals": rivals or None, "lines": lines, "jobs": jobs, "forms": form or None, "half": half}
        given = {option: value for option, value in options.items() if value is not None}
        _check_bench_options(name, given)
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


def _check_bench_options(name: str, given: dict[str, Any]) -> None:
    for option in given:
        having = [bench for bench, options in _BENCH_OPTIONS.items() if option in options]
        if name not in having:
            flag, verb = option.removesuffix("s") if option == "forms" else option, "have" if having[1:] else "has"
            benches = " and ".join(f"bench {bench}" for bench in having)
            raise InputError(f"--{flag}: only {benches} {verb} this option, found bench {name}; leave it out.")


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


def _mode(quick: bool, paper: bool) -> str:
    if quick and paper:
        raise InputError("--quick, --paper: expected one of them, found both; leave one out.")
    return "quick" if quick else "paper" if paper else "ours"


def _words(given: list[str] | None) -> tuple[str, ...]:
    """Names that were given one by one, or with commas between them."""
    return tuple(word.strip() for text in given or () for word in text.split(",") if word.strip())


def _device(name: str) -> str:
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        raise InputError(f"--device: expected one that torch can use here, found {name!r}; try cpu.") from None
    return str(torch.device(name))


def _run_with_bar(
    experiment: Any, settings: Settings, folder: Path, resume: bool, jobs: int, console: Console, *, silent: bool
) -> Done:
    from ferero_lab.experiments.runner import run_experiment

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    is_shown = console.is_terminal and not silent
    options: dict[str, Any] = {"transient": True, "disable": not is_shown, "speed_estimate_period": _HOUR}
    with Progress(*columns, console=console, **options) as bar:
        task = bar.add_task(experiment.name, total=None)

        def tell(stage: Stage) -> None:
            at = stage.finished + stage.share
            if stage.ended == "kept":  # took no time, and says nothing about the time left
                bar.reset(task, total=stage.parts, completed=stage.finished)
            bar.update(task, total=stage.parts, completed=at, description=stage.title)
            if not console.is_terminal and stage.ended:
                kept = ", kept" if stage.ended == "kept" else ""
                console.print(Text(f"{stage.finished} of {stage.parts}: {stage.title}{kept}"))

        return run_experiment(experiment, settings, folder, resume=resume, jobs=jobs, tell=tell)


def _show_run(done: Done, console: Console, json: bool) -> None:
    if json:
        print_json({"folder": str(done.folder), "config": done.config, "measures": done.story.measures})
        return
    console.print(Text(done.story.title, style="bold"))
    console.print(Text(done.story.lead))
    console.print()
    for table in _tables(done.story):
        _show_table(table, console)
    for key in done.damaged:
        console.print(Text(f"left out: {done.folder / 'parts' / key}.json, which is damaged; run with --resume."))
    console.print(Text(f"Report: {done.folder / 'report.html'}"), soft_wrap=True)


def _tables(story: Story) -> list[Table]:
    return [table for section in story.sections for table in section.tables]


def _show_table(table: Table, console: Console) -> None:
    shown = new_table(table.title or None)
    for index, name in enumerate(table.header):
        shown.add_column(Text(name), justify="right" if index else "left")
    for row in table.rows:
        shown.add_row(*map(Text, row))
    console.print(shown)
    if table.note:
        console.print(Text(table.note, style="dim"))
        console.print()
