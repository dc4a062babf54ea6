"""The demonstration's training: an autoencoder of digits under a bound, by ferero, by five lines, and by the plain sum.

All three begin with the same weights and see the same batches with the same noise; only the loss differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import ferero
from ferero.subprogram import Array
from ferero.training import Report
from ferero_lab.bench.tasks.task import Task, make_optimizer
from ferero_lab.bench.tasks.vae import vae
from ferero_lab.report import Picture, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BOUND", "NAMES", "RATE", "Training", "train_demo"]

BOUND, STEPS, EVERY, SEED = 4.0, 3000, 25, 0
RATE, PROPORTIONAL = 0.01, 1.0
NAMES = ("ferero", "dual ascent", "plain sum")
LossOf: TypeAlias = Callable[[Tensor], Tensor]
TOLERANCE = 0.01  # share of the bound that counts as met


@dataclass(frozen=True)
class Training:
    """What the three have reached so far.

    Attributes:
        task: what is trained.
        steps: of each look, (looks,).
        losses: rec and kl on all digits at each look, by name, (looks, 2).
        report: ferero's own, at the last look.
    """

    task: Task
    steps: Array
    losses: dict[str, Array]
    report: Report

    def final(self, name: str) -> tuple[float, float]:
        """The mean losses over the last tenth of the looks."""
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


def train_demo(look: Callable[[Training], None]) -> Training:
    """Train the three side by side: some ten seconds.

    Args:
        look: called with what was reached so far, every few steps.
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
                training = Training(task, np.array(steps, dtype=float), so_far, steer.report())
                look(training)
    return training


def _dual_ascent() -> LossOf:
    """What people write by hand: a multiplier that grows with the relative violation."""
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
