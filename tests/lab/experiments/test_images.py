"""The experiment on images: its parts in a tiny form, its figures by hand, its report, and errors of input."""

from __future__ import annotations

import copy
import gzip
import json
import math
from dataclasses import replace
from hashlib import sha256, shake_256
from pathlib import Path
from struct import pack

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError
from ferero_lab.data import digit_pairs, multi_images
from ferero_lab.data.registry import FILES
from ferero_lab.experiments import get
from ferero_lab.experiments.experiment import Context, Found, Settings
from ferero_lab.experiments.images import EXPERIMENT
from ferero_lab.experiments.images import experiment as image_experiment
from ferero_lab.experiments.images.measures import attained, figures_of, hypervolumes, levels, prices, ray_errors
from ferero_lab.experiments.images.oracle import (
    Tried,
    _between,
    angle,
    attainable_preferences,
    closest,
    find_oracles,
    level,
)
from ferero_lab.experiments.images.plan import accuracies, fixed_weights, load_task, ray
from ferero_lab.experiments.images.train import Recipe
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.experiments.runner import report_again
from ferero_lab.report.panels import clean
from ferero_lab.report.story import story_files

TINY = Settings("quick", seeds=2, epochs=1, methods=("LS", "MGDA", "FERERO"))


def run_part(settings: Settings, key: str, folder: Path) -> Found:
    """What the part gives, as it would be read from disk."""
    part = next(part for part in EXPERIMENT.parts(settings) if part.key == key)
    folder.mkdir(parents=True, exist_ok=True)
    return json.loads(json.dumps(part.run(Context(settings, folder, lambda done, total: None))))


def without_seconds(part: Found) -> Found:
    return {key: value for key, value in part.items() if key != "seconds"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """All parts of three methods, two seeds, one epoch."""
    folder = tmp_path_factory.mktemp("images")
    return {part.key: run_part(TINY, part.key, folder / part.key) for part in EXPERIMENT.parts(TINY)}


# parts -------------------------------------------------------------------------------------------------------


def test_it_is_found_by_name() -> None:
    assert get("images") is EXPERIMENT


def test_the_parts_of_each_mode() -> None:
    keys = {mode: [part.key for part in EXPERIMENT.parts(Settings(mode))] for mode in ("quick", "ours", "paper")}
    assert keys["quick"] == [
        f"digits-{n}" for n in ("fixed", "LS", "MGDA", "PMTL", "EPO", "XWC-MGDA", "STch", "FERERO")
    ]
    assert len(keys["ours"]) == 3 * 8
    assert keys["paper"] == [f"{kind}-{n}" for kind in ("mnist", "fashion", "fashion-mnist") for n in ("LS", "FERERO")]
    on_gpu = [part.key for part in EXPERIMENT.parts(Settings("ours", device="cuda"))]
    assert on_gpu == [*keys["ours"], "time"]
    assert [p.key for p in EXPERIMENT.parts(Settings("paper", only=("fashion",), methods=("ls",)))] == ["fashion-LS"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings("ours", only=("svhn",)), "--only: expected mnist, fashion, fashion-mnist, found 'svhn'."),
        (Settings("quick", only=("mnist",)), "--only: expected digits, found 'mnist'."),
        (Settings("paper", methods=("MGDA",)), "--methods: expected LS, FERERO, found 'MGDA'."),
        (
            Settings("quick", methods=("sgd",)),
            "--methods: expected LS, MGDA, PMTL, EPO, XWC-MGDA, STch, FERERO, found 'sgd'.",
        ),
    ],
)
def test_names_that_there_are_not(settings: Settings, message: str) -> None:
    with pytest.raises(InputError) as caught:
        EXPERIMENT.parts(settings)
    assert str(caught.value) == message


def test_shapes_of_the_parts(tiny: dict[str, Found]) -> None:
    for name, count in (("LS", 6), ("MGDA", 2), ("FERERO", 6)):
        part = tiny[f"digits-{name}"]
        assert [model["seed"] for model in part["models"]] == [0, 1] * (count // 2)
        assert [one["rate"] for one in part["search"]] == [0.3, 1.0, 3.0]
        assert part["rate"] == min(part["search"], key=lambda one: one["achieved"])["rate"]
        for model in part["models"]:
            assert model["losses"] == [model["evaluated"]["train"][side] for side in ("left", "right")]
            assert set(model["evaluated"]) == {"train", "validation", "test"}
            assert model["steps"] == 4096 // 128
    rays = [model["ray"] for model in tiny["digits-FERERO"]["models"][::2]]
    assert [math.degrees(math.atan2(b, a)) for a, b in rays] == pytest.approx([22.5, 45.0, 67.5])
    fixed = tiny["digits-fixed"]
    weights = [one["weight"] for one in fixed["fixed"]]
    assert weights == sorted(weights)
    assert {0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0} <= set(weights)
    assert len(fixed["preferences"]) == 2 * (3 + 9)


def test_the_search_looks_at_held_out_images_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the test images and the training losses say: a method without a ray is judged on all of them."""
    seen = []

    def train(task, method, preferences, recipe, seeds, context, **how):
        seen.append((recipe.epochs, recipe.rate, tuple(seeds), how["rate_factors"]))
        good = {"left": 0.1, "right": 0.1}
        results = []
        for factor in how["rate_factors"]:
            held = {"left": abs(factor - 3.0), "right": 0.5}
            results.append(type("R", (), {"evaluated": {"train": good, "test": good, "validation": held}})())
        return type("F", (), {"results": results})(), 0.0

    monkeypatch.setattr(image_experiment, "train", train)
    context = Context(TINY, tmp_path, lambda done, total: None)
    task = load_task("digits", None, validation=0, patches=False)
    rays = (22.5, 45.0, 67.5)
    for name, preferences in (
        ("LS", [ray(d) for d in rays]),
        ("MGDA", [ferero.Preference.pareto(2, names=("left", "right"))]),
    ):
        found = image_experiment._searched(task, name, preferences, rays, context)
        by_hand = [
            sum(
                max(abs(f - 3.0) / math.cos(math.radians(d)), 0.5 / math.sin(math.radians(d))) for d in rays
            ) / 3
            for f in (1.0, 10 / 3, 10.0)
        ]  # fmt: skip
        assert [one["achieved"] for one in found] == pytest.approx(by_hand)
    assert seen[0] == (1, 0.3, (0,), pytest.approx([1.0] * 3 + [10 / 3] * 3 + [10.0] * 3))


def test_a_part_that_was_interrupted_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(TINY, epochs=2, seeds=1, methods=("FERERO",))
    whole = run_part(settings, "digits-FERERO", tmp_path / "whole")
    steps = 0

    def interrupt(done: int, total: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 64 + 40:  # in the second epoch of the final run
            raise KeyboardInterrupt

    part = next(part for part in EXPERIMENT.parts(settings) if part.key == "digits-FERERO")
    folder = tmp_path / "halves"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        part.run(Context(settings, folder, interrupt))
    assert without_seconds(run_part(settings, "digits-FERERO", folder)) == without_seconds(whole)


# data --------------------------------------------------------------------------------------------------------


def test_what_is_trained_on_is_neither_held_out_nor_tested() -> None:
    task = load_task("digits", None, validation=0, patches=False)
    data = digit_pairs()
    for mine, theirs in ((task.train, data.train), (task.validation, data.validation), (task.test, data.test)):
        assert torch.equal(mine[0], theirs.images)
        assert torch.equal(mine[1], theirs.labels)
    sources = [set(part.sources.flatten().tolist()) for part in (data.train, data.validation, data.test)]
    assert not sources[0] & sources[1]
    assert not (sources[0] | sources[1]) & sources[2]


@pytest.fixture
def tiny_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with 300 training and 40 test images of either kind, registered in place of the true files."""
    for kind in ("mnist", "fashion-mnist"):
        for part, count in (("train", 300), ("t10k", 40)):
            noise = shake_256(f"{kind} {part}".encode()).digest(count * 28 * 28)
            images = np.frombuffer(noise, np.uint8).reshape(count, 28, 28)
            labels = np.arange(count, dtype=np.uint8) % 10
            for name, array in (("images-idx3", images), ("labels-idx1", labels)):
                content = bytes((0, 0, 8, array.ndim)) + pack(f">{array.ndim}I", *array.shape) + array.tobytes()
                path = f"{kind}/{part}-{name}-ubyte.gz"
                sums = {"content": sha256(content).hexdigest(), "download": sha256(content).hexdigest()}
                monkeypatch.setitem(FILES, path, replace(FILES[path], homes=(), **sums))
                (tmp_path / kind).mkdir(exist_ok=True)
                (tmp_path / path).write_bytes(gzip.compress(content, mtime=0))
    load_task.cache_clear()
    monkeypatch.setenv("FERERO_DATA", str(tmp_path))
    real = multi_images
    few = {"train": 512, "test": 64}
    monkeypatch.setattr(
        "ferero_lab.experiments.images.plan.multi_images",
        lambda kind, folder, validation: real(kind, folder, **few, validation=min(validation, 128)),
    )
    yield tmp_path
    load_task.cache_clear()


def test_held_out_images_have_sources_of_their_own(tiny_files: Path) -> None:
    data = multi_images("fashion-mnist", None, train=512, test=64, validation=128)
    for place in range(2):
        train, held = (set(part.sources[:, place].tolist()) for part in (data.train, data.validation))
        assert not train & held
        assert len(train | held) == 300
    task = load_task("fashion-mnist", None, validation=10_000, patches=False)
    assert torch.equal(task.train[0], data.train.images)
    assert torch.equal(task.validation[0], data.validation.images)
    assert torch.equal(task.test[0], data.test.images)


@pytest.mark.slow
def test_the_papers_settings_on_one_data_set(tiny_files: Path, tmp_path: Path) -> None:
    settings = Settings("paper", seeds=1, epochs=1, only=("fashion-mnist",))
    found = {part.key: run_part(settings, part.key, tmp_path / part.key) for part in EXPERIMENT.parts(settings)}
    for part in found.values():
        assert (part["rate"], part["rays"], part["epochs"]) == (1e-3, [22.5, 45.0, 67.5], 1)
        assert all(set(model["evaluated"]) == {"train", "test"} for model in part["models"])
        assert all(model["steps"] == 2 for model in part["models"])
    story = EXPERIMENT.story(settings, found)
    assert list(story.measures["methods"]) == ["fashion-mnist"], "not Multi-Fashion, whose name it begins with"
    assert story.sections[0].tables[0].rows[0][-3:] == ["3.63", "3.82", "1.05"]
    assert b"Multi-Fashion+MNIST" in story_files(story, {})["report.html"]


# figures, by hand --------------------------------------------------------------------------------------------


def made_model(left: float, right: float, seed: int, degrees: float | None) -> Found:
    figures = {"left": left, "right": right, "accuracy_left": 1 - left, "accuracy_right": 1 - right}
    direction = None if degrees is None else [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]
    return {
        "preference": "subject to something",
        "ray": direction,
        "through": None,
        "seed": seed,
        "status": "met",
        "losses": [left, right],
        "weights": [0.5, 0.5],
        "violation": 0.0,
        "evaluated": dict.fromkeys(("train", "validation", "test"), figures),
        "path": [[1.0, 1.0], [left, right]],
        "steps": 3,
    }


def made_part(models: list[Found]) -> Found:
    common = {"kind": "digits", "method": "LS", "rays": [22.5, 67.5], "rate": 0.1, "epochs": 2, "seconds": 4.0}
    return {**common, "models": models}


def at(degrees: float, size: float) -> tuple[float, float]:
    return size * math.cos(math.radians(degrees)), size * math.sin(math.radians(degrees))


def test_ray_errors_are_differences_of_angles() -> None:
    part = made_part(
        [
            made_model(*at(20.0, 0.3), 0, 22.5), made_model(*at(25.5, 0.5), 1, 22.5),
            made_model(*at(60.0, 0.3), 0, 67.5), made_model(*at(67.5, 0.1), 1, 67.5),
        ]
    )  # fmt: skip
    assert ray_errors(part, "test") == pytest.approx([2.5, 3.0, 7.5, 0.0], abs=1e-9)
    figures = figures_of(part)
    assert figures["ray_error_train"] == pytest.approx({"median": 2.75, "worst": 7.5})
    free = made_part([made_model(*at(45.0, 0.3), 0, None)])
    assert ray_errors(free, "train") == pytest.approx([22.5, 22.5])


def test_hypervolumes_are_of_each_seed_below_the_reference_point() -> None:
    part = made_part(
        [
            made_model(0.2, 0.6, 0, 22.5), made_model(0.9, 0.1, 1, 22.5),
            made_model(0.5, 0.3, 0, 67.5), made_model(2.0, 0.1, 1, 67.5),
        ]
    )  # fmt: skip
    assert hypervolumes(part, "train", "loss") == pytest.approx([0.8 * 0.4 + 0.5 * 0.3, 0.1 * 0.9])
    # in errors the reference is (0.5, 0.5), which no point of the second seed is below, and one of the first touches
    assert hypervolumes(part, "train", "accuracy") == pytest.approx([0.0, 0.0])


def test_levels_are_lengths_along_the_ray_over_those_of_the_nearest_weights() -> None:
    fixed = [(0.0, 80.0, 3.0), (0.3, 50.0, 1.0), (0.5, 44.0, 2.0), (0.7, 20.0, 1.0), (1.0, 5.0, 3.0)]
    part = {
        "rays": [45.0],
        "fixed": [{"weight": w, "losses": list(at(d, size)), "evaluated": {}} for w, d, size in fixed],
        "preferences": [{"name": "ray at 45", "seed": seed, "losses": list(at(45.0, 2.2 + seed))} for seed in (1, 0)],
    }
    (row,) = levels(part)
    assert row["weight"] == 0.5
    assert row["oracle_off"] == pytest.approx(1.0)
    assert row["oracle_level"] == pytest.approx(2.0 * math.cos(math.radians(1.0)))
    assert row["ratio"] == pytest.approx(2.2 / (2.0 * math.cos(math.radians(1.0))))
    assert attained(part) == pytest.approx((20.0, 50.0))


def test_angle_and_level() -> None:
    assert angle([1.0, 1.0]) == pytest.approx(45.0)
    assert level([3.0, 4.0], math.degrees(math.atan2(4, 3))) == pytest.approx(5.0)


# fixed weights -----------------------------------------------------------------------------------------------


def curve(weight: float) -> Tried:
    """A front as training has them: the more weight, the smaller the loss."""
    return Tried(weight, (0.1 + 0.3 * (1 - weight) ** 2, 0.2 + 0.3 * weight**2), {})


def test_preferences_are_met_by_fixed_weights_or_lie_between_two() -> None:
    tried = [curve(weight) for weight in (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0)]
    inner = [one for one in tried if 0.2 <= one.weight <= 0.8]
    preferences = attainable_preferences(tried)
    assert len(preferences) == 9
    for name, preference in preferences.items():
        violations = [float(preference.violation(one.losses).max()) for one in inner]
        if name.startswith("difference"):
            values = [float(preference.values(one.losses)[1]) for one in tried]
            assert min(values) < 0 < max(values), name
        else:
            assert min(violations) < 1e-4, name


def test_weights_are_interpolated_between_those_whose_angles_enclose_the_ray() -> None:
    tried = [Tried(w, at(d, 1.0), {}) for w, d in ((0.0, 90.0), (0.3, 60.0), (0.5, 40.0), (0.9, 10.0), (1.0, 0.0))]
    assert _between(tried, [45.0], count=1) == pytest.approx([0.45])
    assert _between(tried, [45.0, 25.0], count=2) == pytest.approx([0.45, 0.7])
    assert _between(tried, [75.0], count=1) == [], "weights of 0 and 1 enclose nothing"
    assert len(_between(tried, [45.0], count=4)) == 4


def test_fixed_weights_are_those_of_the_left_loss_first() -> None:
    assert fixed_weights(0.2).A.flatten().tolist() == pytest.approx([0.2, 0.8])


def test_accuracies_are_shares_of_right_answers() -> None:
    labels = torch.tensor([[1, 2], [3, 4], [5, 6], [7, 8]])
    logits = torch.nn.functional.one_hot(labels.T, 10).float()
    logits[1, :3] = logits[1, :3].roll(1, dims=-1)
    found = accuracies(lambda images: logits, (torch.zeros(4, 1, 2, 2), labels))
    assert {name: float(value) for name, value in found.items()} == {"accuracy_left": 1.0, "accuracy_right": 0.25}


def test_bisection_comes_nearer_to_the_rays(tmp_path: Path) -> None:
    task = load_task("digits", None, validation=0, patches=False)
    context = Context(TINY, tmp_path, lambda done, total: None)
    tried, _ = find_oracles(task, [40.0, 50.0], Recipe(3, 0.3), 0, context, rounds=1)
    first = [one for one in tried if one.weight in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)]
    for degrees in (40.0, 50.0):
        assert abs(closest(tried, degrees).angle - degrees) <= abs(closest(first, degrees).angle - degrees)
    assert len(tried) == 18


# the report --------------------------------------------------------------------------------------------------


def test_the_story_of_tiny_parts(tiny: dict[str, Found]) -> None:
    story = EXPERIMENT.story(TINY, tiny)
    assert list(story.measures["methods"]["digits"]) == ["LS", "MGDA", "FERERO"]
    assert [section.title for section in story.sections][:2] == ["What was reached", "Hypervolume"]
    violations = [w["violation"] for w in tiny["digits-fixed"]["preferences"] if not w["name"].startswith("ray")]
    assert story.measures["fixed"]["digits"]["violations"]["worst"] == max(violations)
    assert story.measures["fixed"]["digits"]["violations"]["models"] == len(violations) == 18
    for section in story.sections:
        for panel in section.panels:
            clean(panel)


@pytest.mark.parametrize("key", ["digits-fixed", "digits-LS", "digits-MGDA"])
def test_a_story_of_one_part(tiny: dict[str, Found], key: str) -> None:
    assert EXPERIMENT.story(TINY, {key: tiny[key]}).sections


def of_before(part: Found) -> Found:
    """The part as versions before kept it."""
    models = [{"wish": one["name"], **one} for one in part["preferences"]]
    return {**{key: value for key, value in part.items() if key != "preferences"}, "wishes": models}


def test_a_run_folder_of_before_is_refused_with_what_to_do(tiny: dict[str, Found], tmp_path: Path) -> None:
    words = (
        'digits-fixed: expected a part with "preferences", found one of an earlier version with "wishes"; run it anew '
        "with another --out."
    )
    old = {**tiny, "digits-fixed": of_before(tiny["digits-fixed"])}
    with pytest.raises(InputError) as refused:
        EXPERIMENT.story(TINY, old)
    assert str(refused.value) == words
    folder = RunFolder(tmp_path)
    folder.begin({"options": {"experiment": "images", **TINY.to_dict()}, "versions": {}})
    for key, part in old.items():
        folder.keep(key, part)
    with pytest.raises(InputError) as refused:
        report_again(tmp_path)
    assert str(refused.value) == words


def test_models_that_diverged_are_told_and_break_nothing(tiny: dict[str, Found]) -> None:
    found = copy.deepcopy(tiny)
    for model in (found["digits-FERERO"]["models"][1], found["digits-fixed"]["preferences"][7]):
        model["losses"], model["violation"], model["status"] = [None, None], None, "diverged"
        model["weights"], model["path"] = [None, None], [[0.5, 0.5], [None, None]]
        model["evaluated"] = {data: dict.fromkeys(figures) for data, figures in model["evaluated"].items()}
    story = EXPERIMENT.story(TINY, found)
    own = story.measures["methods"]["digits"]["FERERO"]
    assert own["diverged"] == 1
    assert own["ray_error_train"]["worst"] == 90.0
    assert story.measures["fixed"]["digits"]["violations"]["worst"] == math.inf
    for section in story.sections:
        for panel in section.panels:
            clean(panel)


def test_what_a_threshold_costs_is_held_against_the_fixed_weights_that_keep_it():
    fixed = [
        {"weight": weight, "losses": losses, "evaluated": {}}
        for weight, losses in ((0.2, [0.9, 0.3]), (0.5, [0.5, 0.5]), (0.7, [0.4, 0.8]))
    ]
    preferences = [
        {"name": "left bounded", "preference": "subject to left <= 0.5", "seed": seed, "losses": [0.45, 0.6]}
        for seed in (0, 1)
    ]
    preferences.append({"name": "ray at 45", "preference": "F along (0.7, 0.7)", "seed": 0, "losses": [0.5, 0.5]})
    (row,) = prices({"fixed": fixed, "preferences": preferences})
    assert (row["bound"], row["fixed"]) == (0.5, 0.5)
    assert row["ratio"] == pytest.approx(1.2)
