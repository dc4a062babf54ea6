"""The demonstration's training: three losses on the same batches, told in lines, in a chart and in a picture."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from ferero_lab.bench.tasks.vae import vae
from ferero_lab.demo import training
from ferero_lab.demo.training import BOUND, NAMES, DemoTraining, train_demo


@pytest.fixture(scope="module")
def short() -> DemoTraining:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "STEPS", 100)
        return train_demo(lambda so_far: None)


def test_three_runs_begin_alike_and_are_measured_at_the_same_steps(short: DemoTraining) -> None:
    assert short.steps.tolist() == [25, 50, 75, 100]
    assert [short.losses[name].shape for name in NAMES] == [(4, 2)] * 3
    first = np.stack([short.losses[name][0, 0] for name in NAMES])
    assert np.ptp(first) < 0.1 * first.mean()
    assert all(losses[-1, 0] < losses[0, 0] for losses in short.losses.values())


def test_the_table_says_what_holds(short: DemoTraining) -> None:
    ends = {"ferero": (BOUND, 0.7), "dual ascent": (1.02 * BOUND, 0.5), "plain sum": (1.009 * BOUND, 0.3)}
    made = DemoTraining(
        short.task, short.steps, {name: np.tile(end, (4, 1)) for name, end in ends.items()}, short.report
    )
    header, rows = made.table()
    assert header[:4] == ["loss", "rec", "kl", "rec <= 4"]
    assert [row[3] for row in rows] == ["met", "missed", "met"]
    assert [row[4] for row in rows] == [short.report.status, "-", "-"]


def test_elsewhere_than_in_a_terminal_a_few_lines_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "STEPS", 200)
    monkeypatch.setattr(training, "EVERY", 10)
    task = vae(BOUND)
    one_batch = replace(task, evaluate=lambda model: task.losses(model, 0, 0).detach())  # to be quick
    monkeypatch.setattr(training, "vae", lambda level: one_batch)
    console = Console(file=io.StringIO(), width=80)
    training.show_training(console, training.follow_training(console))
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line[:10] for line in said[1:5]] == ["step   50:", "step  100:", "step  150:", "step  200:"]
    assert max(map(len, said)) <= 80


def test_in_a_terminal_a_chart_moves(short: DemoTraining, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "STEPS", 100)
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(training, "train_demo", lambda show: show(short) or short)
    training.follow_training(console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "● ferero   ◆ dual ascent   + plain sum" in said
    assert "    4 │──" in said


def test_what_diverges_breaks_no_chart(short: DemoTraining, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "STEPS", 100)
    losses = short.losses | {"plain sum": np.full((4, 2), np.nan)}
    training.chart(DemoTraining(short.task, short.steps, losses, short.report))


def test_the_picture_has_both_losses(short: DemoTraining) -> None:
    picture = short.picture()
    assert picture.png.startswith(b"\x89PNG")
    for words in (b"rec (bounded)", b"kl (minimised)", b"dual ascent"):
        assert words in picture.svg


@pytest.mark.slow
def test_ferero_meets_the_bound_and_the_plain_sum_does_not() -> None:
    trained = train_demo(lambda so_far: None)
    assert trained.is_met("ferero")
    assert not trained.is_met("plain sum")
    assert trained.report.status in {"met", "met_within_noise"}
