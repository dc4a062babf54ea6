"""The demonstration's training as it goes on: a chart that moves in a terminal, a few lines of figures elsewhere."""

from __future__ import annotations

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from ferero.cli import new_table
from ferero_lab import training_demo
from ferero_lab.training_demo import BOUND, NAMES, Training, train_demo

__all__ = ["chart", "follow_training", "show_training"]

_STYLES = dict(zip(NAMES, ("bold cyan", "yellow", "magenta"), strict=True))
_DOTS = dict(zip(NAMES, "●◆+", strict=True))
_ROWS, _COLUMNS = 13, 60
_LOW, _HIGH = 2.5, 6.1  # of the chart, in units of rec
_LINES = 4  # of figures, where nothing can move


def follow_training(console: Console) -> Training:
    """Train, and show how it goes on the way."""
    console.print(Text(f"An autoencoder of digits, rec <= {BOUND:g}, minimize kl. The values below are rec, kl:"))
    if not console.is_terminal:
        return train_demo(lambda so_far: _say(console, so_far))
    with Live(console=console, refresh_per_second=10) as live:
        trained = train_demo(lambda so_far: live.update(Group(chart(so_far), _today(so_far))))
        live.update(chart(trained))
        return trained


def show_training(console: Console, trained: Training) -> None:
    """What came of it, in a table, and what ferero's report advises."""
    header, rows = trained.table()
    table = new_table("A model under a constraint")
    for name in header:
        table.add_column(name, justify="right" if name in {"rec", "kl"} else "left")
    for name, *figures, met, said in rows:
        table.add_row(name, *figures, Text(met, style="green" if met == "met" else "red"), said)
    console.print(table)
    console.print(Padding(Text(f"ferero's report: {trained.report.advice}", style="dim"), (0, 0, 1, 2)))


def chart(so_far: Training) -> RenderableType:
    """``rec`` over the steps, and the bound."""
    grid = [[(" ", "")] * _COLUMNS for _ in range(_ROWS)]
    grid[_row(BOUND)] = [("─", "dim")] * _COLUMNS
    columns = (so_far.steps / training_demo.STEPS * (_COLUMNS - 1)).round().astype(int)
    for name in reversed(NAMES):
        for column, rec in zip(columns, so_far.losses[name][:, 0], strict=True):
            if np.isfinite(rec):
                grid[_row(float(rec))][column] = (_DOTS[name], _STYLES[name])
    lines = [
        Text.assemble(f"{'rec' if i == 0 else f'{BOUND:g}' if i == _row(BOUND) else '':>5} │", *row)
        for i, row in enumerate(grid)
    ]
    names = [(f"   {_DOTS[name]} {name}", _STYLES[name]) for name in NAMES]
    return Group(*lines, Text(f"      └{'─' * _COLUMNS}"), Text.assemble("    ", *names, ""))


def _row(rec: float) -> int:
    share = (min(max(rec, _LOW), _HIGH) - _LOW) / (_HIGH - _LOW)
    return round((1 - share) * (_ROWS - 1))


def _today(so_far: Training) -> Text:
    return Text(f"step {so_far.steps[-1]:4.0f}: {_figures(so_far)}")


def _figures(so_far: Training) -> str:
    """The losses of the three now."""
    today = {name: so_far.losses[name][-1] for name in NAMES}
    return "; ".join(f"{name} {rec:.2f}, {kl:.2f}" for name, (rec, kl) in today.items())


def _say(console: Console, so_far: Training) -> None:
    step, every = int(so_far.steps[-1]), max(training_demo.EVERY, training_demo.STEPS // _LINES)
    if step % every and step != training_demo.STEPS:
        return
    console.print(Text(f"step {step:4}: {_figures(so_far)}"), soft_wrap=True)
