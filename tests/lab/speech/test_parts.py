"""Which run is chosen, which levels follow from it, and all parts one after the other on a tiny corpus."""

import json
from dataclasses import replace

import pytest
import torch
from tests.lab.speech.tiny import CPU, tiny_sets

from ferero_lab.experiments.experiment import Context, Settings
from ferero_lab.report import to_json
from ferero_lab.speech.experiment import speech_setup
from ferero_lab.speech.experiment.parts import levels_of, make_parts, runs_of, seed_key
from ferero_lab.speech.experiment.plan import METHODS, STAGES, read_plan
from ferero_lab.speech.experiment.search import best_key, best_run, rate_key, tried
from ferero_lab.speech.experiment.speech_setup import SpeechSetup, keep_model, start_key
from ferero_lab.speech.recogniser import SIZES, ConformerSize

pytest.importorskip("transformers")
pytest.importorskip("soundfile")
pytest.importorskip("jiwer")

PLAN = replace(
    read_plan(Settings(mode="quick", seeds=2)),
    size="tiny",
    seconds=6.0,
    pretraining=3,
    tuning=1,
    rates=(1e-3, 1e-2),
    every=2,
    shifts=(0.3,),
    methods=("ls", "ferero"),
    stages=STAGES,
)


def run(average, *, cpc=3.0, zh=2.0, en=1.5, levels=None, **more):
    return {"dev": {"average": average, "losses": {"cpc": cpc, "zh": zh, "en": en}}, "levels": levels, **more}


def rates(name, *runs):
    return {rate_key(name, index): each for index, each in enumerate(runs)}


def chosen_of(name, found):
    return best_run(tried(name, found).values())


def test_the_best_run_has_the_lowest_error():
    runs = [run(30.0), run(20.0), run(25.0)]
    assert best_run(runs) is runs[1]
    assert best_key("ls", rates("ls", *runs)) == "ls-rate-1"


def test_of_those_with_levels_it_is_the_best_that_keeps_them():
    levels = {"cpc": 3.0, "gap": 0.5}
    kept, better, off = (
        run(30.0, levels=levels, cpc=3.019),
        run(25.0, levels=levels, zh=2.015),
        run(5.0, levels=levels, zh=2.2),
    )
    assert best_run([kept, better, off]) is better
    assert best_run([off, kept]) is kept
    farther = run(1.0, levels=levels, cpc=3.5)
    assert best_run([farther, off]) is off
    assert best_run([run(9.0, levels=levels, cpc=1.0), kept])["dev"]["average"] == 9.0
    assert best_key("ferero", rates("ferero", kept, better, off)) == "ferero-rate-1"


def test_steps_are_read_in_the_order_of_the_plan_and_of_the_method_alone():
    found = {rate_key("ferero", index): run(float(index)) for index in (10, 2, 1)}
    found |= {rate_key("ferero-sa", 0): run(0.0), "ferero-0": run(0.0), "xferero-rate-0": run(0.0)}
    assert list(tried("ferero", found)) == ["ferero-rate-1", "ferero-rate-2", "ferero-rate-10"]
    assert best_key("ferero", found) == "ferero-rate-1"
    assert tried("ls", found) == {}
    assert best_key("ls", found) is None


def test_of_equal_runs_the_first_is_taken():
    assert best_key("ls", rates("ls", run(20.0), run(20.0))) == "ls-rate-0"


def test_runs_come_in_the_order_of_their_seeds():
    found = {seed_key("ferero", seed): run(float(seed)) for seed in (11, 2, 1, 10)}
    found |= {**rates("ferero", run(50.0), run(0.5)), seed_key("ferero-sa", 3): run(99.0)}
    found |= {**rates("ferero-sa", run(98.0)), "timing": {}, start_key(1): run(77.0)}
    assert [each["dev"]["average"] for each in runs_of("ferero", found)] == [0.5, 1.0, 2.0, 10.0, 11.0]
    assert [each["dev"]["average"] for each in runs_of("ferero-sa", found)] == [98.0, 99.0]
    assert runs_of("mgda", found) == []


def test_of_half_a_search_the_best_so_far_is_taken_and_of_none_nothing():
    found = {**rates("ls", run(50.0), run(0.5)), seed_key("ls", 1): run(1.0)}
    del found["ls-rate-1"]
    assert [each["dev"]["average"] for each in runs_of("ls", found)] == [50.0, 1.0]
    del found["ls-rate-0"]
    assert runs_of("ls", found) == []


def test_levels_follow_from_linear_scalarization_at_the_same_seed():
    found = {
        **rates("ls", run(40.0, cpc=9.0), run(20.0, cpc=4.0, zh=2.0, en=1.2)),
        seed_key("ls", 1): run(30.0, cpc=5.0, zh=1.0, en=2.0),
        **rates("ferero", run(1.0, cpc=1.0)),
    }
    plan = replace(PLAN, tightening=0.1, shift=-0.15, floors=(0.5, 0.0, 0.25))
    first, second = (levels_of(plan, found, seed) for seed in (0, 1))
    assert (first.cpc, first.gap, *first.floors) == pytest.approx((3.6, 0.65, 2.0, 0.0, 0.3))
    assert (second.cpc, second.gap, *second.floors) == pytest.approx((4.5, -1.15, 2.5, 0.0, 0.5))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(SIZES, "tiny", ConformerSize(blocks=1, width=16, heads=2, kernel=3, inner=32, channels=4))
    monkeypatch.setattr(speech_setup, "load_sets", lambda *_: tiny_sets())
    return SpeechSetup(PLAN, tiny_sets(), CPU)


class Watched(Context):
    """Remembers whose folders are asked for."""

    def folder_of(self, key):
        self.asked.add(key)
        return super().folder_of(key)


def run_parts(folder, plan=PLAN):
    """All parts, each with the results of those that it names and no other, and with the same for folders."""
    found, told = {}, {}
    for part in make_parts(plan):
        place = folder / part.key
        place.mkdir(parents=True)
        steps = told.setdefault(part.key, [])
        read = {key: found[key] for key in part.after}
        context = Watched(Settings(mode="quick"), place, lambda *where, steps=steps: steps.append(where), read)
        object.__setattr__(context, "asked", set())
        found[part.key] = json.loads(to_json(part.run(context)))
        assert context.asked <= {*part.after, "features"}, part.key
    return found, told


@pytest.mark.slow
def test_all_parts_on_a_tiny_corpus(tiny, tmp_path):
    found, told = run_parts(tmp_path)
    assert list(found) == [
        *("pretrain-0", "pretrain-1", "ls-rate-0", "ls-rate-1", "ls-1"),
        *("ferero-rate-0", "ferero-rate-1", "ferero-1", "sweep-0", "timing", "sentences"),
    ]
    for steps in told.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]
    assert not list(tmp_path.rglob("training*.pt"))
    for name in ("ls", "ferero"):
        assert [each["rate"] for each in tried(name, found).values()] == [1e-3, 1e-2]
        assert {each["seed"] for each in tried(name, found).values()} == {0}
    chosen = chosen_of("ferero", found)
    assert found["ferero-1"]["rate"] == found["sweep-0"]["rate"] == chosen["rate"]
    end = chosen_of("ls", found)["dev"]["losses"]
    gap = end["zh"] - end["en"]
    for levels, cpc, moved in (
        (chosen["levels"], 1 - PLAN.tightening, PLAN.shift),
        (found["sweep-0"]["levels"], 1.0, 0.3),
    ):
        assert (levels["cpc"], levels["gap"]) == pytest.approx((cpc * end["cpc"], gap + moved))
    for key in ("ls-1", "ferero-1", "sweep-0", "pretrain-0"):
        course = found[key]["course"]
        assert course["steps"][0] == 0
        assert course["steps"][-1] == found[key]["steps"]
        of_the_kept = course["held_out"][course["steps"].index(course["kept"])]
        assert of_the_kept == pytest.approx([found[key]["dev"]["losses"][n] for n in ("cpc", "zh", "en")])
        assert found[key]["seconds"] > 0
    start = found["pretrain-0"]
    assert start["method"] == "start"
    assert start["sizes"]["zh"] == {"train": 12, "dev": 6, "test": 6}
    assert start["symbols"]["en"] == 28
    assert start["hours"]["zh"] == pytest.approx(tiny_sets().frames("zh") / 100 / 3600)
    assert found["timing"]["ratio"] > 0
    # Tuning starts where pre-training ended, at the same seed.
    for seed, run_ in ((0, chosen), (1, found["ferero-1"]), (1, found["ls-1"])):
        assert run_["seed"] == seed
        assert run_["course"]["held_out"][0] == pytest.approx(found[start_key(seed)]["course"]["held_out"][-1])
    assert start["dev"]["losses"] != found["pretrain-1"]["dev"]["losses"]


def test_the_model_of_each_step_is_kept(tiny, tmp_path):
    found, _ = run_parts(tmp_path, replace(PLAN, seeds=1, methods=("ls",), stages=("methods",)))
    for key in ("ls-rate-0", "ls-rate-1"):
        model = tiny.kept(tmp_path / key)
        assert tiny.measures(model)["dev"]["losses"] == pytest.approx(found[key]["dev"]["losses"])
        assert [file.name for file in (tmp_path / key).iterdir()] == ["model.pt"]
    assert found["ls-rate-0"]["dev"]["losses"] != found["ls-rate-1"]["dev"]["losses"]


def test_parts_come_after_what_they_read():
    plan = replace(PLAN, seeds=3, methods=METHODS, stages=STAGES)
    parts = {part.key: part for part in make_parts(plan)}
    ls, ours = ("ls-rate-0", "ls-rate-1"), ("ferero-rate-0", "ferero-rate-1")
    assert parts["pretrain-2"].after == ()
    assert parts["ctc-rate-1"].after == ("pretrain-0",)
    assert parts["ls-2"].after == ("pretrain-2", *ls)
    assert parts["ferero-rate-0"].after == parts["ferero-sa-rate-1"].after == ("pretrain-0", *ls)
    assert parts["ferero-2"].after == ("pretrain-2", *ours, "ls-2")
    assert parts["ferero-sa-1"].after == ("pretrain-1", "ferero-sa-rate-0", "ferero-sa-rate-1", "ls-1")
    assert parts["sweep-0"].after == parts["sentences"].after == ("pretrain-0", *ls, *ours)
    assert [key for key, part in parts.items() if part.alone] == ["timing"]


def test_a_part_that_was_broken_off_is_taken_up_again(tiny, tmp_path, monkeypatch):
    schedule = tiny.schedule(2, 1e-2, every=2)
    whole = tiny.train(tiny.fresh(0), "ls", schedule, seed=0, checkpoint=tmp_path / "a.pt", advance=lambda *_: None)
    monkeypatch.setattr("ferero_lab.speech.experiment.train._SAVE_AFTER", 0.0)

    def stop(done, _):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny.train(tiny.fresh(0), "ls", schedule, seed=0, checkpoint=tmp_path / "b.pt", advance=stop)
    assert (tmp_path / "b.pt").is_file()
    again = tiny.train(tiny.fresh(7), "ls", schedule, seed=0, checkpoint=tmp_path / "b.pt", advance=lambda *_: None)
    assert not (tmp_path / "b.pt").exists()
    del whole["seconds"], again["seconds"]
    assert to_json(again) == to_json(whole)


def test_a_model_is_kept_to_the_bit(tiny, tmp_path):
    model = tiny.fresh(3)
    keep_model(model, tmp_path / "folder")
    kept = tiny.kept(tmp_path / "folder")
    for one, two in zip(model.state_dict().values(), kept.state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_a_schedule_counts_passes(tiny):
    streams = tiny.sets.streams(PLAN.seconds, 0, CPU)
    longest = max(stream.per_epoch for stream in streams.values())
    schedule = tiny.schedule(3, 0.1, every=7, warm_up=0.2)
    assert schedule.steps == 3 * longest
    assert (schedule.rate, schedule.every, schedule.warm_up) == (0.1, 7, 0.2)
    assert (schedule.seconds, schedule.tempo, schedule.pitch) == (PLAN.seconds, PLAN.tempo, PLAN.pitch)


def test_floors_reach_the_training_of_ferero_alone(tiny, tmp_path, monkeypatch):
    given = {}
    real = speech_setup.SpeechTraining

    def spied(*arguments, levels, **others):
        given.setdefault(str(arguments[2]), levels and levels.floors)
        return real(*arguments, levels=levels, **others)

    monkeypatch.setattr(speech_setup, "SpeechTraining", spied)
    found, _ = run_parts(tmp_path, replace(PLAN, seeds=1, floors=(0.5, 0.25, 0.0), stages=("methods",)))
    levels = chosen_of("ferero", found)["levels"]
    ends = chosen_of("ls", found)["dev"]["losses"]
    assert levels["floors"] == pytest.approx([0.5 * ends["cpc"], 0.25 * ends["zh"], 0.0])
    assert list(given.values()) == [None, pytest.approx(tuple(levels["floors"]))]
