"""A verdict is explained by the figures beside it: random records, swings, ways to another level, and plain noise."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

import ferero
from ferero.methods._rows import rows_of
from ferero.preference import Preference
from ferero.training import Steer
from ferero.training._record import Record, advance_record, tracked
from ferero.training._report import make_report

OK = ("met", "met_within_noise")


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def explain(row, is_inequality):
    """The status by the rules of the documentation, from the figures that are printed."""
    bound = 100 * row.allowed
    away = row.value + row.margin if is_inequality else abs(row.value)
    if row.swing > 0.1 * bound and abs(away) <= row.allowed + 2 * row.swing:
        return "oscillating"
    if away + 2 * row.standard_error <= row.allowed:
        return "met"
    if away <= row.allowed + min(2 * row.standard_error, 0.05 * bound):
        return "met_within_noise"
    return "saturated" if row.saturated else "not_met"


def recorded(preference, values, looks):
    """The reports at some of the steps, of values (T, m) that no method answers."""
    rows = rows_of(preference, torch.device("cpu"), torch.float64)
    record, zeros = Record.empty(preference.m, rows.count), torch.zeros(preference.m, dtype=torch.float64)
    multipliers = torch.zeros(preference.A.shape[-2] + rows.count, dtype=torch.float64)
    for t, value in enumerate(values):
        record = advance_record(record, rows, value, value, None)
        if t in looks:
            yield make_report(
                preference, None, record, losses=tracked(record), change=zeros, multipliers=multipliers, observed=zeros
            )


def steered(preference, values, looks):
    """The same by way of `Steer`."""
    steer = Steer(preference)
    for t, value in enumerate(values):
        steer(value.clone().requires_grad_())
        if t in looks:
            yield steer.report()


# random records ---------------------------------------------------------------------------------------------

ROWS, STEPS = 36, 260  # of each kind: inequalities and equalities
LOOKS = (0, 1, 2, 5, 20, 60, 120, 180, 259)


def random_relative(seed):
    """How far off its level each row is, relative to that, (STEPS, 2 ROWS): offset, noise, drift, swing, outliers."""
    n, generator = 2 * ROWS, torch.Generator().manual_seed(seed)

    def some(low, high, share=1.0):
        drawn = torch.exp(torch.empty(n).uniform_(math.log(low), math.log(high), generator=generator))
        return drawn.double() * (torch.rand(n, generator=generator) < share)

    def sign():
        return torch.randint(2, (n,), generator=generator) * 2.0 - 1

    steps = torch.arange(STEPS, dtype=torch.float64)[:, None]
    noise = torch.randn(STEPS, n, generator=generator, dtype=torch.float64)
    found = some(1e-4, 1.0, 0.8) * sign() + some(1e-4, 1.0, 0.8) * noise
    found += some(1e-3, 3.0, 0.3) * sign() * (steps / STEPS - 1)
    found += some(1e-2, 1.0, 0.3) * torch.sin(2 * math.pi * (steps / some(2.0, 200.0) + some(0.1, 1.0)))
    found += some(1e-2, 1e3, 0.3) * sign() * torch.exp(-steps / some(2.0, 100.0))
    outliers = torch.rand(STEPS, n, generator=generator) < 0.005
    return found + outliers * some(1.0, 1e12, 0.3)


def random_record(seed, margins=0.0):
    """A preference and losses: bounds on single losses (half of them), and pairs that are to be ordered or equal."""
    relative, generator = random_relative(seed), torch.Generator().manual_seed(seed + 1000)
    n = 2 * ROWS
    scale = 10 ** torch.empty(n, dtype=torch.float64).uniform_(-12, 12, generator=generator)
    has_bound = torch.rand(n, generator=generator) < 0.5
    B, b = torch.zeros(n, 2 * n, dtype=torch.float64), torch.where(has_bound, -scale, 0.0)
    index = torch.arange(n)
    B[index, 2 * index] = 1.0
    B[index, 2 * index + 1] = torch.where(has_bound, 0.0, -1.0).double()
    values = torch.stack([scale * (1 + relative), scale.expand_as(relative)], dim=-1).reshape(STEPS, 2 * n)
    preference = Preference.from_matrices(
        B_g=B[:ROWS], b_g=b[:ROWS], B_h=B[ROWS:], b_h=b[ROWS:], margins=margins, names=[f"f{i}" for i in range(2 * n)]
    )
    return preference, values


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("margins", [0.0, 2.0])
def test_a_verdict_follows_from_the_figures_beside_it(seed, margins):
    preference, values = random_record(seed, margins)
    for report in recorded(preference, values, LOOKS):
        for i, row in enumerate(report.constraints):
            is_inequality = i < preference.m_g
            assert row.status == explain(row, is_inequality), row
            figures = (row.value, row.standard_error, row.allowed, row.swing, row.margin, row.trend)
            assert all(math.isfinite(figure) for figure in figures)
            assert min(figures[1:5]) >= 0
            assert (row.margin == 0) == (margins == 0 or not is_inequality or row.standard_error == 0)
            off = row.value + row.margin if is_inequality else abs(row.value)
            if off > 6 * row.allowed:  # a hundredth and a twentieth of the bound
                assert row.status not in OK
            if is_inequality and off < -2 * row.standard_error:
                assert row.status in (*OK, "oscillating")
        worst = [row.status for row in report.constraints if row.status not in OK]
        assert (report.status in OK) == (not worst)


def test_every_verdict_occurs_among_them():
    found = Counter()
    for seed in range(4):
        preference, values = random_record(seed)
        for report in recorded(preference, values, LOOKS):
            found.update(row.status for row in report.constraints)
    assert found.keys() == {*OK, "not_met", "oscillating"}
    assert min(found.values()) > 50


@pytest.mark.parametrize("seed", range(3))
def test_the_same_by_way_of_steer_which_also_knows_what_is_saturated(seed):
    preference, values = random_record(seed, margins=1.0)
    found = Counter()
    for report in steered(preference, values, LOOKS):
        for i, row in enumerate(report.constraints):
            assert row.status == explain(row, i < preference.m_g), row
            found[row.status] += 1
    assert len(found) >= 4


def test_what_is_printed_holds_every_number_of_the_argument():
    preference, values = random_record(0, margins=1.0)
    for report in steered(preference, values, LOOKS):
        lines = str(report).splitlines()[3:]  # after the status, the losses and the head
        assert len(lines) >= len(report.constraints)
        for row, line in zip(report.constraints, lines, strict=False):
            cells = line.removeprefix(row.label).split()
            assert cells[:5] == [
                f"{row.value:.4g}",
                f"{row.standard_error:.2g}",
                f"{row.allowed:.2g}",
                f"{row.swing:.2g}",
                f"{row.margin:.2g}",
            ]
            assert ("(all)" in cells) == row.saturated
            assert cells[-1] == row.status


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_units_do_not_matter(factor):
    f = ferero.objectives("a", "b")
    values = torch.stack([1.02 + 0.3 * normal(200), 1 + 0.1 * normal(200, seed=1)], dim=-1)
    looks = range(1, 200, 9)
    plain = Preference(f, [f.a <= 1.0, f.a - f.b == 0.0, f.b <= 0.9])
    scaled = Preference(f, [f.a <= factor, f.a - f.b == 0.0, f.b <= 0.9 * factor])
    for one, other in zip(recorded(plain, values, looks), recorded(scaled, values * factor, looks), strict=True):
        for this, that in zip(one.constraints, other.constraints, strict=True):
            assert this.status == that.status
            for figure in ("value", "standard_error", "allowed", "swing", "trend"):
                wanted = factor * getattr(this, figure)
                assert getattr(that, figure) == pytest.approx(wanted, rel=1e-6, abs=1e-9 * factor)


# the truth --------------------------------------------------------------------------------------------------


def bounded(n, kind, bound=0.5):
    names = [f"f{i}" for i in range(n)]
    return Preference.parse("; ".join(f"{name} {kind} {bound}" for name in names), names=names)


def verdicts(kind, columns, looks, bound=0.5):
    """How often each verdict is given on each of the columns (T, n) at the looks."""
    found = [Counter() for _ in range(columns.shape[1])]
    for report in recorded(bounded(columns.shape[1], kind, bound), columns, looks):
        for i, row in enumerate(report.constraints):
            found[i][row.status] += 1
    return found


@pytest.mark.parametrize("kind", ["<=", "=="])
def test_what_is_off_by_more_than_six_hundredths_never_passes_and_what_holds_is_met(kind):
    noise, more = [0.0, 0.05, 0.2], [0.01, 0.1, 0.5, 3.0]  # five standard errors more where there is noise
    off = [0.06 + m + 5 * s / 14 for m in more for s in noise]
    columns = torch.stack([0.5 * (1 + o + noise[i % 3] * normal(600, seed=i)) for i, o in enumerate(off)], dim=-1)
    for found in verdicts(kind, columns, range(200, 600, 10)):
        assert set(found) == {"not_met"}
    below = torch.stack([0.5 * (0.7 + s * normal(600, seed=i)) for i, s in enumerate(noise)], dim=-1)
    for found in verdicts(kind, below, range(200, 600, 10)):
        assert set(found) == ({"met"} if kind == "<=" else {"not_met"})


PERIODS = (2, 3, 4, 5, 6, 7, 9, 12, 20, 33, 50, 80, 100, 140, 200)
TIME = torch.arange(1000, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["<=", "=="])
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("shape", ["sine", "square"])
def test_real_swings_are_reported(kind, noise, shape):
    """By 30 % about the bound; a slow one has to turn a few times before it is one."""
    columns = []
    for i, period in enumerate(PERIODS):
        angle = 2 * math.pi * (TIME / period + 0.1 + 0.13 * (i % 5))
        wave = torch.sin(angle).sign() if shape == "square" or period == 2 else torch.sin(angle)
        columns.append(0.5 * (1 + 0.3 * wave + noise * normal(1000, seed=period)))
    found = verdicts(kind, torch.stack(columns, dim=-1), range(550, 1000, 7))
    for period, counts in zip(PERIODS, found, strict=True):
        assert set(counts) == {"oscillating"}, period


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["<=", "=="])
def test_noise_of_the_same_size_is_no_swing(kind):
    for size in (0.05, 0.1, 0.212, 0.3):
        for found in verdicts(kind, 0.5 * (1 + size * normal(1000, 30)), range(5, 1000, 9)):
            assert found["oscillating"] == 0


@pytest.mark.parametrize("kind", ["<=", "=="])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_way_to_another_level_is_no_swing(kind, noise):
    ways = {
        "slow": 0.5 + 5 * torch.exp(-TIME / 100),
        "fast": 0.5 + 5 * torch.exp(-TIME / 10),
        "straight": 0.5 + 5 * (1 - TIME / 300).clamp(min=0),
        "never there": 0.5 + 2 * (1 - TIME / 1000),
        "past it": 0.8 - 0.6 * TIME / 1000,
        "a far start": torch.where(TIME < 30, 1e6, 0.5).double(),
        "up": torch.where(TIME < 500, 0.5, 0.75).double(),
        "down": torch.where(TIME < 500, 0.75, 0.5).double(),
        "there and back": torch.where((TIME - 500).abs() < 3, 50.0, 0.5).double(),
    }
    columns = torch.stack([way + 0.5 * noise * normal(1000, seed=i) for i, way in enumerate(ways.values())], dim=-1)
    for name, found in zip(ways, verdicts(kind, columns, range(1, 1000, 9)), strict=True):
        assert found["oscillating"] == 0, name


@pytest.mark.parametrize("kind", ["<=", "=="])
def test_a_way_that_has_ended_is_judged_by_its_end(kind):
    ways = {
        "fast": 0.5 + 5 * torch.exp(-TIME / 10),
        "straight": 0.5 + 5 * (1 - TIME / 300).clamp(min=0),
        "a far start": torch.where(TIME < 30, 1e6, 0.5).double(),
    }
    columns = torch.stack([way + 0.005 * normal(1000, seed=i) for i, way in enumerate(ways.values())], dim=-1)
    for name, found in zip(ways, verdicts(kind, columns, range(800, 1000, 5)), strict=True):
        assert set(found) <= set(OK), name


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_value_that_leaves_its_bound_is_not_met_until_it_comes_back(noise):
    """The mean lags; whether it has left by more than batches are noisy is asked of the last values."""
    column = torch.where(TIME < 460, 0.1, 0.75).double() + 0.5 * noise * normal(1000)
    (found,) = verdicts("<=", column[:, None], range(465, 1000))
    assert set(found) == {"not_met"}
