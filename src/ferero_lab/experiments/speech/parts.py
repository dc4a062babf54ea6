"""The experiment step by step: pre-training, tuning by each method from the same weights, the sweep of the gap."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from ferero.fronts.whole_file import write_whole
from ferero_lab.experiments.experiment import Context, Found, Part
from ferero_lab.experiments.speech.bench import Bench, keep_model, start_key
from ferero_lab.experiments.speech.plan import Plan
from ferero_lab.experiments.speech.sentences import say_sentences
from ferero_lab.experiments.speech.timing import time_steps
from ferero_lab.experiments.speech.wishes import TITLES, Levels, levels_after

__all__ = ["SWEPT", "best_run", "levels_of", "make_parts", "runs_of", "search_key", "seed_key"]

SWEPT = "sweep"


def make_parts(plan: Plan) -> list[Part]:
    """In the order in which they need each other."""
    trained = set(plan.stages) - {"timing"}
    parts = [
        Part(start_key(seed), f"pre-training, seed {seed}", partial(pretrain, plan, seed))
        for seed in range(plan.seeds)
        if trained
    ]
    if trained:
        for name in plan.methods:
            parts += _method_parts(plan, name)
    if "sweep" in plan.stages and "ferero" in plan.methods:
        for index, shift in enumerate(plan.shifts):
            parts.append(Part(f"{SWEPT}-{index}", f"gap moved by {shift:+g}", partial(sweep, plan, index)))
    if "timing" in plan.stages:
        parts.append(Part("timing", "time of a step", partial(time_steps, plan)))
    if "sentences" in plan.stages and "ferero" in plan.methods:
        parts.append(Part("sentences", "sentences heard", partial(say_sentences, plan)))
    return parts


def search_key(name: str) -> str:
    """The part in which a method tries its steps at the first seed."""
    return f"{name}-search"


def seed_key(name: str, seed: int) -> str:
    """The part of another seed, with the step that was best at the first."""
    return f"{name}-{seed}"


def best_run(found: Found) -> Found:
    """Of a search: the run with the lowest average error on the dev set; of FERERO among those that keep its levels.

    Where no run keeps them, the one that fails least.
    """
    runs: Sequence[Found] = found["runs"]
    return min(runs, key=lambda run: (_failure(run), run["dev"]["average"]))


def runs_of(name: str, found: Mapping[str, Found]) -> list[Found]:
    """A method's run at each seed that is there, with the step that its search chose."""
    if search_key(name) not in found:
        return []
    seeds = sorted(int(key[len(name) + 1 :]) for key in found if re.fullmatch(rf"{name}-\d+", key))
    return [best_run(found[search_key(name)]), *(found[seed_key(name, seed)] for seed in seeds)]


def levels_of(plan: Plan, found: Mapping[str, Found], seed: int) -> Levels:
    """Set by where linear scalarization ended on the dev set, from the same pre-trained weights."""
    return levels_after(_ends(found, seed), tightening=plan.tightening, shift=plan.shift, floors=plan.floors)


def pretrain(plan: Plan, seed: int, context: Context) -> Found:
    """All three losses, equally weighted, from fresh weights."""
    bench = Bench.of(plan, context)
    model = bench.fresh(seed)
    schedule = bench.schedule(plan.pretraining, plan.pretraining_rate, every=5 * plan.every, warm_up=plan.warm_up)
    checkpoint = context.folder / "training.pt"
    found = bench.train(model, "ls", schedule, seed=seed, checkpoint=checkpoint, advance=context.advance)
    keep_model(model, context.folder)
    count = sum(each.numel() for each in model.parameters())
    return {
        **found,
        "method": "start",
        "parameters": {"encoder": sum(each.numel() for each in model.encoder_parameters()), "all": count},
        "plan": asdict(plan),
        "corpus": bench.sets.name,
        "sizes": bench.sets.sizes(),
        "hours": {language: bench.sets.hours(language) for language in bench.sets.alphabets},
        "symbols": bench.sets.symbols(),
        "skipped": bench.sets.skipped.counts(),
    }


def search(plan: Plan, name: str, context: Context) -> Found:
    """A method with each step, at the first seed; the model of the best run is kept.

    Runs that are finished are not repeated when the part was broken off.
    """
    bench = Bench.of(plan, context)
    levels = levels_of(plan, context.found, 0) if name.startswith("ferero") else None
    finished = context.folder / "runs.json"
    runs: list[Found] = json.loads(finished.read_bytes()) if finished.exists() else []
    for index, rate in list(enumerate(plan.rates))[len(runs) :]:
        model = bench.pretrained(context, 0)
        run = bench.train(
            model,
            name,
            bench.schedule(plan.tuning, rate, every=plan.every),
            seed=0,
            levels=levels,
            checkpoint=context.folder / f"training-{index}.pt",
            advance=_part_of(context, index, len(plan.rates)),
        )
        runs.append(run)
        if best_run({"runs": runs}) is run:
            keep_model(model, context.folder)
        write_whole(finished, json.dumps(runs).encode())
    finished.unlink()
    return {"runs": runs}


def tune(plan: Plan, name: str, seed: int, context: Context) -> Found:
    """A method at another seed, with the step that its search chose."""
    bench = Bench.of(plan, context)
    return bench.train(
        bench.pretrained(context, seed),
        name,
        bench.schedule(plan.tuning, best_run(context.found[search_key(name)])["rate"], every=plan.every),
        seed=seed,
        levels=levels_of(plan, context.found, seed) if name.startswith("ferero") else None,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )


def sweep(plan: Plan, index: int, context: Context) -> Found:
    """FERERO with another gap, for a shorter time; the bound on CPC is left where linear scalarization ended."""
    bench = Bench.of(plan, context)
    ends = _ends(context.found, 0)
    levels = levels_after(ends, tightening=0.0, shift=plan.shifts[index], floors=plan.floors)
    return bench.train(
        bench.pretrained(context, 0),
        "ferero",
        bench.schedule(plan.sweeping, best_run(context.found[search_key("ferero")])["rate"], every=plan.every),
        seed=0,
        levels=levels,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )


def _method_parts(plan: Plan, name: str) -> list[Part]:
    title = TITLES[name]
    return [
        Part(search_key(name), f"{title}, first seed", partial(search, plan, name)),
        *(
            Part(seed_key(name, seed), f"{title}, seed {seed}", partial(tune, plan, name, seed))
            for seed in range(1, plan.seeds)
        ),
    ]


def _part_of(context: Context, index: int, count: int) -> Callable[[int, int], None]:
    """Tells how far the whole is, while one of several equal runs goes on."""
    return lambda done, total: context.advance(index * total + done, count * total)


def _ends(found: Mapping[str, Found], seed: int) -> dict[str, float]:
    """Where linear scalarization ended on the dev set."""
    run = best_run(found[search_key("ls")]) if seed == 0 else found[seed_key("ls", seed)]
    ends: dict[str, float] = run["dev"]["losses"]
    return ends


def _failure(run: Found) -> float:
    """By how much a run fails its levels on the dev set, beyond what is tolerated; 0 without levels."""
    return 0.0 if run["levels"] is None else Levels(**run["levels"]).failure(run["dev"]["losses"])
