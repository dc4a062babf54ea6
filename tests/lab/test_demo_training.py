"""The demonstration's training: three losses on the same batches, told in lines, in a chart and in a picture."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from ferero_lab import live_training, training_demo
from ferero_lab.bench.tasks.vae import vae
from ferero_lab.training_demo import BOUND, NAMES, Training, train_demo


@pytest.fixture(scope="module")
def short() -> Training:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_demo, "STEPS", 100)
        return train_demo(lambda so_far: None)


def test_three_runs_begin_alike_and_are_measured_at_the_same_steps(short: Training) -> None:
    assert short.steps.tolist() == [25, 50, 75, 100]
    assert [short.losses[name].shape for name in NAMES] == [(4, 2)] * 3
    first = np.stack([short.losses[name][0, 0] for name in NAMES])
    assert np.ptp(first) < 0.1 * first.mean()
    assert all(losses[-1, 0] < losses[0, 0] for losses in short.losses.values())


def test_the_table_says_what_holds(short: Training) -> None:
    ends = {"ferero": (BOUND, 0.7), "dual ascent": (1.02 * BOUND, 0.5), "plain sum": (1.009 * BOUND, 0.3)}
    made = Training(short.task, short.steps, {name: np.tile(end, (4, 1)) for name, end in ends.items()}, short.report)
    header, rows = made.table()
    assert header[:4] == ["loss", "rec", "kl", "rec <= 4"]
    assert [row[3] for row in rows] == ["met", "missed", "met"]
    assert [row[4] for row in rows] == [short.report.status, "-", "-"]


def test_elsewhere_than_in_a_terminal_a_few_lines_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_demo, "STEPS", 200)
    monkeypatch.setattr(training_demo, "EVERY", 10)
    task = vae(BOUND)
    one_batch = replace(task, evaluate=lambda model: task.losses(model, 0, 0).detach())  # to be quick
    monkeypatch.setattr(training_demo, "vae", lambda level: one_batch)
    console = Console(file=io.StringIO(), width=80)
    live_training.show_training(console, live_training.follow_training(console))
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line[:10] for line in said[1:5]] == ["step   50:", "step  100:", "step  150:", "step  200:"]
    assert max(map(len, said)) <= 80


def test_in_a_terminal_a_chart_moves(short: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_demo, "STEPS", 100)
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(live_training, "train_demo", lambda look: look(short) or short)
    live_training.follow_training(console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "● ferero   ◆ dual ascent   + plain sum" in said
    assert "    4 │──" in said


def test_what_diverges_breaks_no_chart(short: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_demo, "STEPS", 100)
    losses = short.losses | {"plain sum": np.full((4, 2), np.nan)}
    live_training.chart(Training(short.task, short.steps, losses, short.report))


def test_the_picture_has_both_losses(short: Training) -> None:
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
