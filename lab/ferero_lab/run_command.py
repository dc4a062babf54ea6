"""`ferero run` and `ferero report`: an experiment from the command line, with a bar, tables and a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from ferero.cli import JsonOption, new_console, new_table, print_json, sentences
from ferero.errors import InputError

if TYPE_CHECKING:
    from ferero_lab.experiments.experiment import Settings, Story
    from ferero_lab.experiments.runner import Done, Stage
    from ferero_lab.report.panels import Table

__all__ = ["report", "run"]

_HOUR = 3600.0


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
        done = _run(experiment, settings, folder, resume, jobs, console, silent=json)
    _show(done, console, json)


def report(
    folder: Annotated[Path, typer.Argument(help="Of a run, finished or not.")],
    json: JsonOption = False,
) -> None:
    """Writes the report of a run anew, from what it has kept."""
    with sentences():
        from ferero_lab.experiments.runner import report_again

        done = report_again(folder)
    _show(done, new_console(json), json)


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


def _run(
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


def _show(done: Done, console: Console, json: bool) -> None:
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
