"""Which run is chosen, which levels follow from it, and all parts one after the other on a tiny corpus."""

import json
from dataclasses import replace

import pytest
import torch
from tests.lab.speech.tiny import CPU, tiny_sets

from ferero_lab.experiments.experiment import Context, Settings
from ferero_lab.experiments.speech import bench as bench_module
from ferero_lab.experiments.speech.bench import Bench, keep_model, start_key
from ferero_lab.experiments.speech.parts import best_run, levels_of, make_parts, runs_of, search_key, seed_key
from ferero_lab.experiments.speech.plan import read_plan
from ferero_lab.report import to_json
from ferero_lab.speech.encoder import SIZES, ConformerSize

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
    stages=("methods", "sweep", "timing"),
)


def run(average, *, cpc=3.0, zh=2.0, en=1.5, levels=None, **more):
    return {"dev": {"average": average, "losses": {"cpc": cpc, "zh": zh, "en": en}}, "levels": levels, **more}


def test_the_best_run_has_the_lowest_error():
    runs = [run(30.0), run(20.0), run(25.0)]
    assert best_run({"runs": runs}) is runs[1]


def test_of_those_with_levels_it_is_the_best_that_keeps_them():
    levels = {"cpc": 3.0, "gap": 0.5}
    kept, better, off = (
        run(30.0, levels=levels, cpc=3.019),
        run(25.0, levels=levels, zh=2.015),
        run(5.0, levels=levels, zh=2.2),
    )
    assert best_run({"runs": [kept, better, off]}) is better
    assert best_run({"runs": [off, kept]}) is kept
    farther = run(1.0, levels=levels, cpc=3.5)
    assert best_run({"runs": [farther, off]}) is off
    assert best_run({"runs": [run(9.0, levels=levels, cpc=1.0), kept]})["dev"]["average"] == 9.0


def test_runs_come_in_the_order_of_their_seeds():
    found = {seed_key("ferero", seed): run(float(seed)) for seed in (11, 2, 1, 10)}
    found |= {search_key("ferero"): {"runs": [run(50.0), run(0.5)]}, seed_key("ferero-sa", 3): run(99.0)}
    found |= {search_key("ferero-sa"): {"runs": [run(98.0)]}, "timing": {}, start_key(1): run(77.0)}
    assert [each["dev"]["average"] for each in runs_of("ferero", found)] == [0.5, 1.0, 2.0, 10.0, 11.0]
    assert [each["dev"]["average"] for each in runs_of("ferero-sa", found)] == [98.0, 99.0]
    assert runs_of("mgda", found) == []


def test_levels_follow_from_linear_scalarization_at_the_same_seed():
    found = {
        search_key("ls"): {"runs": [run(40.0, cpc=9.0), run(20.0, cpc=4.0, zh=2.0, en=1.2)]},
        seed_key("ls", 1): run(30.0, cpc=5.0, zh=1.0, en=2.0),
        search_key("ferero"): {"runs": [run(1.0, cpc=1.0)]},
    }
    plan = replace(PLAN, tightening=0.1, shift=-0.15, floors=(0.5, 0.0, 0.25))
    first, second = (levels_of(plan, found, seed) for seed in (0, 1))
    assert (first.cpc, first.gap, *first.floors) == pytest.approx((3.6, 0.65, 2.0, 0.0, 0.3))
    assert (second.cpc, second.gap, *second.floors) == pytest.approx((4.5, -1.15, 2.5, 0.0, 0.5))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(SIZES, "tiny", ConformerSize(blocks=1, width=16, heads=2, kernel=3, inner=32, channels=4))
    monkeypatch.setattr(bench_module, "load_sets", lambda *_: tiny_sets())
    return Bench(PLAN, tiny_sets(), CPU)


def run_parts(folder, plan=PLAN, found=None):
    found, told = {} if found is None else found, {}
    for part in make_parts(plan):
        if part.key in found:
            continue
        place = folder / part.key
        place.mkdir(parents=True)
        steps = told.setdefault(part.key, [])
        context = Context(Settings(mode="quick"), place, lambda *where, steps=steps: steps.append(where), found)
        found[part.key] = json.loads(to_json(part.run(context)))
    return found, told


def test_all_parts_on_a_tiny_corpus(tiny, tmp_path):
    found, told = run_parts(tmp_path)
    assert list(found) == [
        *("pretrain-0", "pretrain-1", "ls-search", "ls-1", "ferero-search", "ferero-1", "sweep-0", "timing")
    ]
    for steps in told.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]
    assert not list(tmp_path.rglob("training*.pt"))
    assert [each["rate"] for each in found["ls-search"]["runs"]] == [1e-3, 1e-2]
    chosen = best_run(found["ferero-search"])
    assert found["ferero-1"]["rate"] == found["sweep-0"]["rate"] == chosen["rate"]
    end = best_run(found["ls-search"])["dev"]["losses"]
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


def test_the_model_of_the_best_run_is_kept(tiny, tmp_path):
    found, _ = run_parts(tmp_path, replace(PLAN, seeds=1, methods=("ls",), stages=("methods",)))
    model = tiny.kept(tmp_path / search_key("ls"))
    assert tiny.measures(model)["dev"]["losses"] == pytest.approx(best_run(found["ls-search"])["dev"]["losses"])


def test_a_part_that_was_broken_off_is_taken_up_again(tiny, tmp_path, monkeypatch):
    schedule = tiny.schedule(2, 1e-2, every=2)
    whole = tiny.train(tiny.fresh(0), "ls", schedule, seed=0, checkpoint=tmp_path / "a.pt", advance=lambda *_: None)
    monkeypatch.setattr("ferero_lab.experiments.speech.training._SAVE_AFTER", 0.0)

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


def test_a_search_that_was_broken_off_goes_on_with_the_run_that_was_not_finished(tiny, tmp_path, monkeypatch):
    plan = replace(PLAN, seeds=1, methods=("ls",), stages=("methods",))
    whole, _ = run_parts(tmp_path / "whole", plan)
    found, _ = run_parts(tmp_path / "broken", replace(plan, rates=(1e-3,)))
    folder = tmp_path / "broken" / search_key("ls")
    begun = []

    real = Bench.train

    def search(stop):
        def train(self, model, name, schedule, **more):
            begun.append(schedule.rate)
            if schedule.rate == stop:
                raise KeyboardInterrupt
            return real(self, model, name, schedule, **more)

        monkeypatch.setattr(Bench, "train", train)
        part = next(part for part in make_parts(plan) if part.key == search_key("ls"))
        return part.run(Context(Settings(mode="quick"), folder, lambda *_: None, found))

    with pytest.raises(KeyboardInterrupt):
        search(stop=1e-2)
    again = search(stop=None)
    assert begun == [1e-3, 1e-2, 1e-2]
    for one in (*again["runs"], *whole["ls-search"]["runs"]):
        del one["seconds"]
    assert to_json(again["runs"]) == to_json(whole["ls-search"]["runs"])
    model = tiny.kept(folder)
    assert tiny.measures(model)["dev"]["losses"] == pytest.approx(best_run(again)["dev"]["losses"])
    assert [file.name for file in folder.iterdir()] == ["model.pt"]


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
    real = bench_module.Training

    def spied(*arguments, levels, **others):
        given.setdefault(str(arguments[2]), levels and levels.floors)
        return real(*arguments, levels=levels, **others)

    monkeypatch.setattr(bench_module, "Training", spied)
    found, _ = run_parts(tmp_path, replace(PLAN, seeds=1, floors=(0.5, 0.25, 0.0), stages=("methods",)))
    levels = best_run(found["ferero-search"])["levels"]
    ends = best_run(found["ls-search"])["dev"]["losses"]
    assert levels["floors"] == pytest.approx([0.5 * ends["cpc"], 0.25 * ends["zh"], 0.0])
    assert list(given.values()) == [None, pytest.approx(tuple(levels["floors"]))]
