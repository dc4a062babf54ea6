"""The emotions experiment: its figures against the library's own, errors of input, resuming, and the bars."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ferero
from ferero.errors import InputError
from ferero_lab.experiments import get
from ferero_lab.experiments.emotions import EXPERIMENT
from ferero_lab.experiments.emotions.plan import REFERENCE, mild_rays, read_plan, uniform_rays
from ferero_lab.experiments.emotions.report import attained, measure, paired, shares_by_step
from ferero_lab.experiments.emotions.train import NAMES, make_network, song_losses
from ferero_lab.experiments.experiment import Context, Found, Settings
from ferero_lab.report.story import story_files

TINY = Settings("quick", seeds=2, epochs=2, only=("rays",), methods=("ls", "ferero"))


def run_part(settings: Settings, key: str, folder: Path) -> Found:
    """What the part gives, as it would be read from disk."""
    part = next(part for part in EXPERIMENT.parts(settings) if part.key == key)
    folder.mkdir(parents=True, exist_ok=True)
    return json.loads(json.dumps(part.run(Context(settings, folder, lambda done, total: None))))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """Two methods, two seeds, two epochs."""
    folder = tmp_path_factory.mktemp("emotions")
    return {key: run_part(TINY, key, folder / key) for key in ("rays-ls", "rays-ferero")}


def test_it_is_found_by_name() -> None:
    assert get("emotions") is EXPERIMENT


def test_rays_are_ten_unit_vectors_off_the_faces_and_mild_ones_are_milder() -> None:
    for rays, ratio in ((uniform_rays(), 11.0), (mild_rays(), 1.6)):
        assert rays.shape == (10, 6)
        torch.testing.assert_close(rays.norm(dim=1), torch.ones(10, dtype=torch.float64))
        assert rays.min() >= 0.09
        assert (rays.amax(dim=1) / rays.amin(dim=1)).max() <= ratio
    assert torch.pdist(uniform_rays()).min() > 0.1


def test_losses_are_those_of_each_label_alone() -> None:
    model, generator = make_network(8), torch.Generator().manual_seed(0)
    features = torch.randn(5, 72, generator=generator)
    labels = (torch.rand(5, 6, generator=generator) < 0.5).float()
    found = song_losses(model, (features, labels))
    p = torch.sigmoid(model(features))
    by_hand = -(labels * p.log() + (1 - labels) * (1 - p).log()).mean(dim=0)
    torch.testing.assert_close(torch.stack([found[name] for name in NAMES]), by_hand)


def test_errors_and_hypervolumes_are_the_librarys(tiny: dict[str, Found]) -> None:
    found = tiny["rays-ferero"]
    runs, rays = found["runs"], torch.tensor(found["rays"], dtype=torch.float64)
    assert len(runs) == 20
    for run in runs:
        for data in ("train", "test"):
            error = float(ferero.ray_error(run["losses"][data], rays[run["ray"]]))
            assert run["errors"][data] == pytest.approx(error, abs=1e-9)
    measured = measure(found)
    errors = torch.tensor([run["errors"]["train"] for run in runs])
    assert measured["train"]["error_median"] == pytest.approx(float(errors.quantile(0.5)), rel=1e-5)
    assert measured["train"]["error_largest"] == pytest.approx(float(errors.max()))
    for seed in (0, 1):
        points = [[0.4 * value for value in run["losses"]["train"]] for run in runs if run["seed"] == seed]
        smaller = [{**run, "losses": {"train": [0.4 * v for v in run["losses"]["train"]]}} for run in runs]
        volume = measure({**found, "runs": smaller}, ("train",))["train"]["hypervolume_by_seed"][seed]
        assert volume == pytest.approx(100 * ferero.hypervolume(points, REFERENCE))
        assert volume > 0


def test_a_model_that_diverged_counts_as_far_off_and_adds_no_volume(tiny: dict[str, Found]) -> None:
    found = tiny["rays-ls"]
    lost = {"status": "diverged", "losses": dict.fromkeys(("train", "test"), [None] * 6)}
    lost["errors"] = dict.fromkeys(("train", "test"))
    runs = [{**found["runs"][0], **lost}, *found["runs"][1:]]
    measured = measure({**found, "runs": runs})
    assert measured["diverged"] == 1
    assert measured["train"]["error_largest"] == 180
    assert all(map(math.isfinite, measured["train"]["hypervolume_by_seed"]))
    story = EXPERIMENT.story(TINY, {"rays-ls": {**found, "runs": runs}})
    assert story.measures["methods"]["ls"]["diverged"] == 1


def test_the_nearest_model_of_each_ray_is_found(tiny: dict[str, Found]) -> None:
    methods = {"ls": tiny["rays-ls"], "ferero": tiny["rays-ferero"]}
    for index, ray in enumerate(attained(methods, 1e-6)):
        every = [run["errors"]["train"] for one in methods.values() for run in one["runs"] if run["ray"] == index]
        assert ray["error"] == min(every)
        assert not ray["is_attained"]


def test_differences_are_paired_by_seed() -> None:
    assert paired([3.0, 5.0, 10.0], [1.0, 3.0, 8.0]) == (2.0, 0.0)


def test_the_story_tells_the_outcome_and_the_missing_parts_are_left_out(tiny: dict[str, Found]) -> None:
    story = EXPERIMENT.story(TINY, tiny)
    error = story.measures["bars"]["error_median"]["value"]
    assert f"{error:.1f} degrees from their rays" in story.lead
    assert "stand-in" in story.lead
    assert [section.title for section in story.sections] == ["On the rays", "Hypervolume", "Ray by ray"]
    for section in story.sections:
        for table in section.tables:
            assert all(len(row) == len(table.header) for row in table.rows)
    assert len(EXPERIMENT.story(TINY, {"rays-ls": tiny["rays-ls"]}).sections) == 3
    assert EXPERIMENT.story(TINY, {}).sections == []


def test_the_story_can_be_drawn_and_warns_where_nothing_was_learned(tiny: dict[str, Found]) -> None:
    ignorant = [
        {**run, "losses": dict.fromkeys(("train", "test"), [math.log(2)] * 6)} for run in tiny["rays-ls"]["runs"]
    ]
    warned = EXPERIMENT.story(TINY, {"rays-ls": {**tiny["rays-ls"], "runs": ignorant}})
    assert "is 1.70, where a network that knows nothing has 1.70" in warned.lead
    story = EXPERIMENT.story(TINY, tiny)
    assert "knows nothing" not in story.lead
    files = story_files(story, {})
    assert {"report.html", "measures.json", "on-the-rays.png", "hypervolume.svg"} <= set(files)
    assert json.loads(files["measures.json"])["bars"]["diverged"]["value"] == 0


def test_shares_compare_at_the_same_step() -> None:
    def searched(*errors: float) -> Found:
        return {
            "search": [{"step": step, "error_train": error} for step, error in zip((1.0, 2.0), errors, strict=True)]
        }

    methods = {"ls": searched(4.0, 9.0), "epo": searched(6.0, 3.0), "ferero": searched(1.0, 1.0)}
    assert shares_by_step(methods) == {1.0: 0.25, 2.0: pytest.approx(1 / 3)}
    assert shares_by_step({"ls": searched(1.0, 1.0)}) == {}


def test_a_search_takes_the_step_with_the_smallest_training_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ferero_lab.experiments.emotions import train
    from ferero_lab.experiments.emotions.train import train_method

    plan = replace(read_plan(TINY), steps=(1e-6, 3e-3), epochs=3, seeds=1)
    told: list[float] = []
    context = Context(TINY, tmp_path, lambda done, total: told.append(done / total))
    monkeypatch.setattr(train, "HELD_OUT", 40)
    found = train_method(plan, "ls", context)
    assert [one["step"] for one in found["search"]] == [1e-6, 3e-3]
    best = min(found["search"], key=lambda one: one["error_train"])
    assert found["step"] == best["step"]
    assert {run["seed"] for run in found["runs"]} == {0}
    assert told == sorted(told)
    assert told[-1] == 1


def test_a_part_that_was_interrupted_ends_where_it_would_have_ended(tmp_path: Path, tiny: dict[str, Found]) -> None:
    shorter = replace(TINY, methods=("ferero",))

    def stop(done: int, total: int) -> None:
        if done > total * 0.7:
            raise KeyboardInterrupt

    part = EXPERIMENT.parts(shorter)[0]
    with pytest.raises(KeyboardInterrupt):
        part.run(Context(shorter, tmp_path, stop))
    again = run_part(shorter, part.key, tmp_path)
    assert again["runs"] == tiny["rays-ferero"]["runs"]


def test_held_out_losses_can_drive(tmp_path: Path) -> None:
    found = run_part(replace(TINY, only=("held-out",), seeds=1), "held-out", tmp_path)
    cases = {(one["rays_of"], one["driven_by"]): one for one in found["cases"]}
    assert set(cases) == {(rays, data) for rays in ("mild", "uniform") for data in ("validation", "train")}
    assert all(one["epochs"] == 1 for one in found["cases"])
    story = EXPERIMENT.story(TINY, {"held-out": found})
    assert "stand-in" in story.lead
    assert {"train", "validation", "test", "step"} <= set(story.measures["held_out"][0])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"methods": ("epos",)},
            "--methods: expected some of ls, pmtl, epo, xwc-mgda, stch, ferero, found 'epos'; did",
        ),
        ({"only": ("ray",)}, "--only: expected some of rays, held-out, found 'ray'; did you mean 'rays'?"),
        ({"mode": "paper", "methods": ("stch",)}, "--methods: expected some of ls, pmtl, epo, xwc-mgda, ferero, found"),
        ({"mode": "swift"}, "mode: expected one of quick, ours, paper, found 'swift'"),
    ],
)
def test_names_that_there_are_not_are_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        EXPERIMENT.parts(replace(Settings("quick"), **changes))
    assert text in str(caught.value)


def test_true_data_that_are_damaged_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    folder = tmp_path / "emotions"
    folder.mkdir()
    (folder / "emotions-train.arff").write_text("@relation nothing\n")
    with pytest.raises(InputError, match=r"emotions-train\.arff"):
        EXPERIMENT.parts(Settings("ours", data=tmp_path))


@pytest.mark.slow
@pytest.mark.xfail(
    reason="560 steps in which six losses fall to nearly 0: the median is 11.8 degrees off, where 4 are allowed, since "
    "the integral part of rays is slow (6.7 degrees with three times of it)"
)
def test_rays_of_the_stand_in_are_met_far_better_than_by_fixed_weights(tmp_path: Path) -> None:
    settings = Settings("quick", only=("rays",), methods=("ls", "ferero"))
    found = {f"rays-{name}": run_part(settings, f"rays-{name}", tmp_path / name) for name in settings.methods}
    bars = EXPERIMENT.story(settings, found).measures["bars"]
    assert bars["error_median"]["is_met"]
    assert bars["diverged"]["is_met"]
    assert bars["over_best_neighbour"]["is_met"]
