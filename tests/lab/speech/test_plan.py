"""What a user may ask for, and the exact words of what he may not."""

import re

import pytest

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Settings
from ferero_lab.speech.experiment.parts import make_parts
from ferero_lab.speech.experiment.plan import METHODS, STAGES, USUAL, read_plan

pytest.importorskip("transformers")
pytest.importorskip("soundfile")


def refused(message, **settings):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        read_plan(Settings(**settings))


def keys(**settings):
    return [part.key for part in make_parts(read_plan(Settings(**settings)))]


def test_the_paper_cannot_be_repeated_and_says_why():
    refused(
        "--paper: the paper trains on 960 hours, and its settings make nothing of the recordings here; "
        "leave it out. The model has the paper's size without it.",
        mode="paper",
    )


@pytest.mark.parametrize("mode", ["quick", "ours"])
def test_names_that_there_are_not(mode):
    stages, methods = ", ".join(STAGES), ", ".join(METHODS)
    refused(f"--only: expected some of {stages}, found 'swep'; did you mean 'sweep'?", mode=mode, only=("swep",))
    refused(f"--only: expected some of {stages}, found 'zzz'.", mode=mode, only=("sweep", "zzz"))
    refused(
        f"--methods: expected some of {methods}, found 'fererosa'; did you mean 'ferero-sa'?",
        mode=mode,
        methods=("fererosa",),
    )
    refused(f"--methods: expected some of {methods}, found ''.", mode=mode, methods=("",))


@pytest.mark.parametrize("name", METHODS)
def test_linear_scalarization_is_always_among_the_methods_and_before_those_that_need_it(name):
    plan = read_plan(Settings(methods=(name,)))
    assert set(plan.methods) == {"ls", name}
    assert plan.methods == tuple(sorted(plan.methods, key=METHODS.index))
    parts = keys(methods=(name,), seeds=2)
    if name.startswith("ferero"):
        assert parts.index("ls-1") < parts.index(f"{name}-rate-0")


def test_the_usual_plans():
    ours, quick = read_plan(Settings()), read_plan(Settings(mode="quick"))
    assert ours.methods == USUAL
    assert (ours.corpus, ours.size, ours.seeds, len(ours.shifts)) == ("sentences", "paper", 3, 5)
    assert abs(ours.shift) >= 0.1
    assert ours.tightening == 0.1
    assert quick.corpus == "synthetic"
    assert {"ls", "ferero"} <= set(quick.methods)


def test_a_data_folder_takes_the_place_of_the_synthetic_words(tmp_path):
    assert read_plan(Settings(mode="quick", data=tmp_path)).corpus == "words"
    assert read_plan(Settings(data=tmp_path)).corpus == "sentences"


def test_seeds_and_epochs():
    plan = read_plan(Settings(seeds=5, epochs=7))
    assert (plan.seeds, plan.tuning) == (5, 7)
    assert plan.pretraining == read_plan(Settings()).pretraining


@pytest.mark.parametrize("mode", ["quick", "ours"])
@pytest.mark.parametrize("only", [(), *((stage,) for stage in STAGES), ("timing", "methods")], ids=str)
@pytest.mark.parametrize("methods", [(), METHODS], ids=["usual", "all"])
def test_keys_differ_and_are_names_on_disk(mode, only, methods):
    found = keys(mode=mode, only=only, methods=methods, seeds=12)
    assert len(set(found)) == len(found)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", key) for key in found)
    assert ("timing" in found) == (not only or "timing" in only)
    assert ("sentences" in found) == (not only or "sentences" in only)
    assert any(key.startswith("sweep-") for key in found) == (mode == "ours" and (not only or "sweep" in only))


def test_only_the_time_of_a_step_trains_nothing():
    assert keys(only=("timing",)) == ["timing"]


def test_the_sweep_brings_what_it_needs():
    found = keys(only=("sweep",), seeds=2)
    assert found[:2] == ["pretrain-0", "pretrain-1"]
    assert {"ls-rate-0", "ls-rate-1", "ls-1", "ferero-rate-0", "ferero-rate-1"} <= set(found)
    assert found[-5:] == [f"sweep-{index}" for index in range(5)]
