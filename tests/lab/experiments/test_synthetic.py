"""The synthetic experiments: numbers that `minimize` gives, settings that the paper prints, columns that do not mix."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ferero
from ferero.errors import InputError
from ferero_lab.experiments.experiment import Context, Settings
from ferero_lab.experiments.runner import run_experiment
from ferero_lab.experiments.synthetic import EXPERIMENT
from ferero_lab.experiments.synthetic.plan import Choice, cases, draw_starts, even_rays, make_directions
from ferero_lab.experiments.synthetic.solve import PAPER_TIMES, solve_case, solve_scales
from ferero_lab.problems import Exponential


def context(**settings):
    return Context(Settings(**settings), Path(), lambda done, total: None)


def case_of(key, quick=True):
    column = "ours" if "-ours-" in key else "paper"
    return next(case for case in cases(column, quick) if case.key == key)


PAPER_SAMPLE = ("figure2-printed-paper-ferero", "figure3-easy-paper-ferero")


@pytest.fixture(scope="module")
def small():
    settings = Settings("quick", only=("figure2", "figure3"), methods=("ferero",))
    parts = [part for part in EXPERIMENT.parts(settings) if "-ours-" in part.key or part.key in PAPER_SAMPLE]
    return settings, {part.key: part.run(context()) for part in parts}


# what is run --------------------------------------------------------------------------------------------


def test_rays_are_the_papers():
    rays = even_rays(5)
    assert torch.rad2deg(torch.atan2(rays[:, 1], rays[:, 0])).tolist() == pytest.approx([9, 27, 45, 63, 81])


def test_starts_are_those_that_are_printed_and_those_that_were_released():
    printed, released = draw_starts("printed", 200, 0), draw_starts("released", 200, 0)
    assert printed.mean() == pytest.approx(0.0, abs=0.05)
    assert printed.std() == pytest.approx(1.0, abs=0.05)
    assert released[:, 0::2].mean() == pytest.approx(0.3, abs=0.01)
    assert released[:, 1::2].mean() == pytest.approx(-0.3, abs=0.01)
    assert torch.equal(printed, draw_starts("printed", 200, 0))
    assert not torch.equal(printed, draw_starts("printed", 200, 1))


@pytest.mark.parametrize(
    ("key", "step", "most", "c_h"),
    [
        ("figure2-printed-paper-ls", 0.1, 150, None),
        ("figure2-released-paper-mgda", 0.2, 150, None),
        ("figure2-released-paper-pmtl", 0.2, 150, None),
        ("figure2-released-paper-epo", 0.1, 100, None),
        ("figure2-released-paper-ferero", 0.05, 100, 1.0),
        ("figure2-released-paper-ferero-lines", 0.05, 100, 1.0),
        ("figure3-easy-paper-ferero", 0.6, 10, 1.0),
        ("figure3-hard-paper-pmtl", 0.5, 200, None),
        ("figure3-hard-paper-epo", 0.2, 120, None),
        ("figure3-hard-paper-ferero", 0.6, 200, 0.01),
        ("single-loop-released-paper-ferero-sa", 0.1, 100, 6.0),
        ("single-loop-easy-paper-ferero-sa-cone", 0.06, 100, 6.0),
        ("single-loop-hard-paper-ferero-sa", 0.15, 250, 0.1),
        ("single-loop-hard-paper-ferero-sa-cone", 0.15, 250, 0.1),
    ],
)
@pytest.mark.parametrize("quick", [True, False])
def test_the_papers_column_has_what_its_tables_print(key, step, most, c_h, quick):
    for choice in case_of(key, quick).choices:
        assert (choice.step, choice.max_iter, getattr(choice.method, "c_h", None)) == (step, most, c_h)


def test_our_column_has_no_step_to_choose_where_a_merit_can():
    for case in cases("ours", False):
        if case.method in ("ls", "mgda", "ferero"):
            assert [choice.step for choice in case.choices] == ["auto"]
        else:
            assert len(case.choices) > 1


def test_the_papers_mode_runs_nothing_else():
    keys = [part.key for part in EXPERIMENT.parts(Settings("paper"))]
    assert keys
    assert not [key for key in keys if "ours" in key]
    assert len(keys) == len(set(keys))


# what comes out -----------------------------------------------------------------------------------------


def test_numbers_are_those_of_minimize():
    case = case_of("figure3-easy-paper-ferero")
    runs = solve_case(case, 2, context())["runs"]
    starts = torch.cat([draw_starts("easy", 4, seed) for seed in (0, 1)])
    A = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64) / math.sqrt(5)
    for run, start, ray in zip(runs, starts, even_rays(4).repeat(2, 1), strict=True):
        wanted = ferero.Preference.ray(ray, cone=ferero.Cone(A))
        result = ferero.minimize(Exponential(), start, wanted, method=ferero.Ferero(), step=0.6, max_iter=10)
        assert run["losses"] == pytest.approx(result.losses.tolist(), abs=1e-9)
        assert run["error"] == pytest.approx(float(ferero.ray_error(result.losses, ray)), abs=1e-6)
        assert run["evaluations"] == result.evaluations
        assert run["status"] == result.status
    assert [bool(run["path"]) for run in runs] == [True] * 4 + [False] * 4
    first = runs[0]
    assert first["path"][0] == pytest.approx(Exponential()(starts[0]).tolist(), rel=1e-5)
    assert first["path"][-1] == pytest.approx(first["losses"], rel=1e-5)


def test_ferero_with_our_settings_reaches_every_ray(small):
    _, found = small
    ours = {key: one for key, one in found.items() if "-ours-" in key}
    assert len(ours) == 6
    for key, one in ours.items():
        for run in one["runs"]:
            assert run["error"] < 0.1, key
            assert run["distance"] < 0.01, key
            assert run["reached"], key


def test_the_printed_start_is_a_plateau_for_the_papers_step(small):
    _, found = small
    for run in found["figure2-printed-paper-ferero"]["runs"]:
        assert not run["reached"]
        assert run["losses"] == pytest.approx([1.0, 1.0], abs=1e-6)


def test_the_error_of_a_line_is_the_angle_seen_from_the_start():
    directions, starts = make_directions("lines", 5, "released", 0, None)
    begin = Exponential()(starts[0])
    assert torch.equal(starts, starts[:1].expand(5, -1))
    for direction in directions:
        on, off = begin + 0.2 * direction.ray, begin + 0.2 * torch.stack([direction.ray[1], -direction.ray[0]])
        assert direction.error(on) == pytest.approx(0.0, abs=1e-5)
        assert direction.error(off) == pytest.approx(90.0)
        assert direction.violation(off) == pytest.approx(0.2)
        assert float(direction.preference.violation(on).max()) == pytest.approx(0.0, abs=1e-12)
        assert math.isnan(direction.error(begin))


def test_of_several_steps_the_best_on_other_starts_is_taken():
    case = case_of("figure3-easy-paper-ferero")
    wild, good = Choice(ferero.Ferero(), 100.0, 10), case.choices[0]
    found = solve_case(replace(case, choices=(wild, good), count=2), 1, context())
    assert found["setting"] == good.words == "step 0.6, 10 its"


def test_units_change_the_length_of_the_direction_and_not_the_run_with_our_step():
    paper, ours = (solve_scales(column, context())["runs"] for column in ("paper", "ours"))
    assert [run["length"] for run in paper] == pytest.approx([0.33, 0.49, 163171], rel=0.02)
    for run in (*paper, *ours):
        assert run["turn"] < 1e-12
    for run in ours:
        assert run["apart"] < 1e-9
        assert run["status"] == "converged"
    assert paper[1]["apart"] > 0.1
    assert paper[2]["path"][-1] == pytest.approx([1.0, 1.0])


# what is told -------------------------------------------------------------------------------------------


def test_no_table_mixes_columns(small):
    settings, found = small
    story = EXPERIMENT.story(settings, found)
    assert len(story.sections) == 6
    for section in story.sections:
        (table,) = section.tables
        is_ours = section.title.endswith("our settings")
        assert is_ours or section.title.endswith("the paper's settings")
        assert all(("auto" in row[1]) == is_ours for row in table.rows)
    assert "With our settings FERERO reaches 18 of 18 rays" in story.lead
    assert story.measures["ours"]["figure3-hard-ours-ferero"]["reached"] == 4


def test_a_panel_shows_the_front_the_rays_and_who_did_not_arrive(small):
    settings, found = small
    sections = {section.title: section for section in EXPERIMENT.story(settings, found).sections}
    (panel,) = sections["Figure 2, printed start: the paper's settings"].panels
    assert [point.ok for point in panel.points] == [False] * 5
    assert all(segment.begin == [0.0, 0.0] for segment in panel.segments)
    truth = torch.tensor(panel.truth, dtype=torch.float64)
    assert float(Exponential().distance_to_front(truth).max()) < 1e-6
    panel, lines = sections["Figure 2, printed start: our settings"].panels
    assert [point.ok for point in panel.points] == [True] * 5
    begin = found["figure2-printed-ours-ferero-lines"]["runs"][0]["through"]
    assert all(segment.begin == begin for segment in lines.segments)


def test_a_story_of_what_is_there(small):
    settings, found = small
    key = "figure3-easy-ours-ferero"
    story = EXPERIMENT.story(settings, {key: found[key]})
    assert [section.title for section in story.sections] == ["Figure 3, easy start: our settings"]
    assert EXPERIMENT.story(settings, {}).sections == []


def test_a_run_ends_with_a_report(tmp_path):
    settings = Settings("paper", seeds=1, only=("scale",))
    done = run_experiment(EXPERIMENT, settings, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    (title,) = (section.title for section in done.story.sections)
    assert title == "Scale invariance: the paper's settings, fixed step 0.05"
    assert title.replace("'", "&#39;") in page
    assert len(list((tmp_path / "run").glob("scale-invariance*.png"))) == 1


def test_times_stand_beside_the_papers():
    seconds = {"per_iteration": {name: 1e-4 * (i + 1) for i, name in enumerate(PAPER_TIMES)}, "auto": 0.01}
    seconds["over_ls"] = {name: i + 1.0 for i, name in enumerate(PAPER_TIMES)}
    story = EXPERIMENT.story(Settings(), {"time": {"seconds": seconds, "evaluations": 7}})
    (table,) = story.sections[-1].tables
    assert table.rows[1] == [
        "PMTL",
        "2.0e-04",
        "2.00",
        "7.7e-04 / 7.6e-04",
        "2.19 / 2.47",
        "100 / 200",
        "0.020 / 0.040",
    ]
    assert table.rows[-1][-2:] == ["7 evaluations", "0.0100"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            Settings(only=("figure4",)),
            "--only: expected some of figure2, figure3, single-loop, scale, time, found 'figure4'; did you mean "
            "'figure3'?",
        ),
        (
            Settings(methods=("xyz",)),
            "--methods: expected some of ls, mgda, pmtl, epo, ferero, ferero-sa, ferero-qg, found 'xyz'.",
        ),
        (Settings(epochs=3), "--epochs: synthetic trains nothing, found 3; leave it out."),
        (Settings(device="cuda"), "--device: synthetic runs on the cpu, found 'cuda'; leave it out."),
        (
            Settings(only=("figure3",), methods=("ls",)),
            "--methods: none of ls is in figure3; leave one of them out.",
        ),
    ],
)
def test_refusals(settings, words):
    with pytest.raises(InputError) as refused:
        EXPERIMENT.parts(settings)
    assert str(refused.value) == words
