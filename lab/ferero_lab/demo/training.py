"""The demonstration's training: an autoencoder of digits under a bound, by ferero, by five lines, and by the plain sum.

All three begin with the same weights and see the same batches with the same noise; only the loss differs. A
terminal shows them as a chart that moves, a file as a few lines of figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text
from torch import Tensor

import ferero
from ferero.cli import new_table
from ferero.subprogram import Array
from ferero.training import Report
from ferero_lab.bench.tasks.task import Task, make_optimizer
from ferero_lab.bench.tasks.vae import vae
from ferero_lab.report import Picture, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BOUND", "NAMES", "RATE", "DemoTraining", "chart", "follow_training", "show_training", "train_demo"]

BOUND, STEPS, EVERY, SEED = 4.0, 3000, 25, 0
RATE, PROPORTIONAL = 0.01, 1.0
NAMES = ("ferero", "dual ascent", "plain sum")
LossOf: TypeAlias = Callable[[Tensor], Tensor]
TOLERANCE = 0.01  # share of the bound that counts as met

_STYLES = dict(zip(NAMES, ("bold cyan", "yellow", "magenta"), strict=True))
_DOTS = dict(zip(NAMES, "●◆+", strict=True))
_ROWS, _COLUMNS = 13, 60
_LOW, _HIGH = 2.5, 6.1  # of the chart, in units of rec
_LINES = 4  # of figures, where nothing can move


@dataclass(frozen=True)
class DemoTraining:
    """What the three have reached so far.

    Attributes:
        task: what is trained.
        steps: of each evaluation, (evaluations,).
        losses: rec and kl on all digits at each evaluation, by name, (evaluations, 2).
        report: ferero's own, at the last evaluation.
    """

    task: Task
    steps: Array
    losses: dict[str, Array]
    report: Report

    def final(self, name: str) -> tuple[float, float]:
        """The mean losses over the last tenth of the evaluations."""
        rec, kl = self.losses[name][-max(1, len(self.steps) // 10) :].mean(axis=0)
        return float(rec), float(kl)

    def is_met(self, name: str) -> bool:
        """Whether the bound holds then, within a hundredth."""
        return self.final(name)[0] <= (1 + TOLERANCE) * BOUND

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The header, and a row for each of the three."""
        header = ["loss", "rec", "kl", f"rec <= {BOUND:g}", "verdict of the report"]
        rows = []
        for name in NAMES:
            rec, kl = self.final(name)
            said = self.report.status if name == "ferero" else "-"
            rows.append([name, f"{rec:.2f}", f"{kl:.2f}", "met" if self.is_met(name) else "missed", said])
        return header, rows

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {
            "preference": str(self.task.preference),
            "steps": self.steps.tolist(),
            "losses": {name: np.round(losses, 5).tolist() for name, losses in self.losses.items()},
            "met": {name: self.is_met(name) for name in NAMES},
            "verdict": self.report.status,
        }

    def picture(self) -> Picture:
        """Both losses over the steps, and the bound.

        Raises:
            MissingExtraError: without matplotlib.
        """
        return draw(self._draw)

    def _draw(self) -> Figure:
        from ferero.plot.style import DASHES, LINE, finish, new_panels, page_of

        axes = new_panels(4.6, (1.9, 1.4))
        page = page_of(axes[0])
        for name, color, place in zip(NAMES, page.colors(len(NAMES)), (3, 2, 1), strict=True):
            for ax, losses in zip(axes, self.losses[name].T, strict=True):
                ax.plot(self.steps, losses, color=color, linewidth=LINE, label=name, zorder=place)
        axes[0].axhline(BOUND, color=page.ink, linewidth=LINE, linestyle=DASHES, label=f"rec <= {BOUND:g}", zorder=0.5)
        settled = np.concatenate([losses[len(losses) // 5 :] for losses in self.losses.values()])
        for ax, label, values in zip(axes, ("rec (bounded)", "kl (minimised)"), settled.T, strict=True):
            low, high = min(BOUND, *values) if ax is axes[0] else 0.0, max(values)
            ax.set_ylim(low - 0.15 * (high - low), high + 0.25 * (high - low))
            ax.set_ylabel(label)
        axes[1].set_xlabel("step")
        axes[1].set_xlim(0, self.steps[-1])
        finish(axes[0])
        figure: Figure = axes[0].get_figure(root=True)  # type: ignore[assignment]
        return figure


def train_demo(show: Callable[[DemoTraining], None]) -> DemoTraining:
    """Train the three side by side: some ten seconds.

    Args:
        show: called with what was reached so far, every few steps.
    """
    task = vae(BOUND)
    steer = ferero.Steer(task.preference)
    makers: tuple[LossOf, ...] = (steer, _dual_ascent(), lambda losses: losses.sum())
    losses_of = dict(zip(NAMES, makers, strict=True))
    models = {name: task.model(SEED) for name in NAMES}
    optimizers = {name: make_optimizer(task, model.parameters()) for name, model in models.items()}
    steps: list[int] = []
    seen: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    with _one_thread():
        for step in range(STEPS):
            for name, model in models.items():
                loss = losses_of[name](task.losses(model, step, SEED))
                optimizers[name].zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizers[name].step()
            if (step + 1) % EVERY == 0:
                steps.append(step + 1)
                with torch.no_grad():
                    for name, model in models.items():
                        seen[name].append(task.evaluate(model).tolist())
                so_far = {name: np.array(values) for name, values in seen.items()}
                training = DemoTraining(task, np.array(steps, dtype=float), so_far, steer.report())
                show(training)
    return training


def _dual_ascent() -> LossOf:
    """Dual ascent as written by hand: a multiplier that grows with the relative violation."""
    multiplier = 0.0

    def loss_of(losses: Tensor) -> Tensor:
        nonlocal multiplier
        violation = losses[0].item() / BOUND - 1
        multiplier = max(0.0, multiplier + RATE * violation)
        return losses[1] + max(0.0, multiplier + PROPORTIONAL * violation) * losses[0] / BOUND

    return loss_of


@contextmanager
def _one_thread() -> Iterator[None]:
    """Nets this small are slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def follow_training(console: Console) -> DemoTraining:
    """Trains, and shows the losses as they change."""
    console.print(Text(f"An autoencoder of digits, rec <= {BOUND:g}, minimize kl. The values below are rec, kl:"))
    if not console.is_terminal:
        return train_demo(lambda so_far: _say(console, so_far))
    with Live(console=console, refresh_per_second=10) as live:
        trained = train_demo(lambda so_far: live.update(Group(chart(so_far), _today(so_far))))
        live.update(chart(trained))
        return trained


def show_training(console: Console, trained: DemoTraining) -> None:
    """Shows the final losses in a table, and the advice of ferero's report."""
    header, rows = trained.table()
    table = new_table("A model under a constraint")
    for name in header:
        table.add_column(name, justify="right" if name in {"rec", "kl"} else "left")
    for name, *figures, met, said in rows:
        table.add_row(name, *figures, Text(met, style="green" if met == "met" else "red"), said)
    console.print(table)
    console.print(Padding(Text(f"ferero's report: {trained.report.advice}", style="dim"), (0, 0, 1, 2)))


def chart(so_far: DemoTraining) -> RenderableType:
    """``rec`` over the steps, and the bound."""
    grid = [[(" ", "")] * _COLUMNS for _ in range(_ROWS)]
    grid[_row(BOUND)] = [("─", "dim")] * _COLUMNS
    columns = (so_far.steps / STEPS * (_COLUMNS - 1)).round().astype(int)
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


def _today(so_far: DemoTraining) -> Text:
    return Text(f"step {so_far.steps[-1]:4.0f}: {_figures(so_far)}")


def _figures(so_far: DemoTraining) -> str:
    """The losses of the three now."""
    today = {name: so_far.losses[name][-1] for name in NAMES}
    return "; ".join(f"{name} {rec:.2f}, {kl:.2f}" for name, (rec, kl) in today.items())


def _say(console: Console, so_far: DemoTraining) -> None:
    step, every = int(so_far.steps[-1]), max(EVERY, STEPS // _LINES)
    if step % every and step != STEPS:
        return
    console.print(Text(f"step {step:4}: {_figures(so_far)}"), soft_wrap=True)
