"""The experiment step by step: pre-training, tuning by each method from the same weights, the sweep of the gap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from ferero_lab.experiments.experiment import Context, Found, Part
from ferero_lab.speech.experiment.bench import Bench, keep_model, start_key
from ferero_lab.speech.experiment.plan import Plan
from ferero_lab.speech.experiment.search import best_run, rate_key, rate_keys, tried
from ferero_lab.speech.experiment.sentences import say_sentences
from ferero_lab.speech.experiment.timing import time_steps
from ferero_lab.speech.experiment.wishes import TITLES, Levels, levels_after

__all__ = ["SWEPT", "levels_of", "make_parts", "runs_of", "seed_key"]

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
    searched = (start_key(0), *rate_keys(plan, "ls"), *rate_keys(plan, "ferero"))
    if "sweep" in plan.stages and "ferero" in plan.methods:
        for index, shift in enumerate(plan.shifts):
            run = partial(sweep, plan, index)
            parts.append(Part(f"{SWEPT}-{index}", f"gap moved by {shift:+g}", run, after=searched))
    if "timing" in plan.stages:
        parts.append(Part("timing", "time of a step", partial(time_steps, plan), alone=True))
    if "sentences" in plan.stages and "ferero" in plan.methods:
        parts.append(Part("sentences", "sentences heard", partial(say_sentences, plan), after=searched))
    return parts


def seed_key(name: str, seed: int) -> str:
    """The part of another seed, with the step that was best at the first."""
    return f"{name}-{seed}"


def runs_of(name: str, found: Mapping[str, Found]) -> list[Found]:
    """A method's run at each seed that is there; at the first the best of the steps that are there, without any none.

    Other seeds were run with the best of all steps.
    """
    first = tried(name, found)
    if not first:
        return []
    seeds = sorted(int(key[len(name) + 1 :]) for key in found if re.fullmatch(rf"{name}-\d+", key))
    return [best_run(first.values()), *(found[seed_key(name, seed)] for seed in seeds)]


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


def try_rate(plan: Plan, name: str, index: int, context: Context) -> Found:
    """A method with one of the steps, at the first seed; its model is kept."""
    bench = Bench.of(plan, context)
    model = bench.pretrained(context, 0)
    found = bench.train(
        model,
        name,
        bench.schedule(plan.tuning, plan.rates[index], every=plan.every),
        seed=0,
        levels=levels_of(plan, context.found, 0) if _is_held(name) else None,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )
    keep_model(model, context.folder)
    return found


def tune(plan: Plan, name: str, seed: int, context: Context) -> Found:
    """A method at another seed, with the step that its search chose."""
    bench = Bench.of(plan, context)
    return bench.train(
        bench.pretrained(context, seed),
        name,
        bench.schedule(plan.tuning, _first(name, context.found)["rate"], every=plan.every),
        seed=seed,
        levels=levels_of(plan, context.found, seed) if _is_held(name) else None,
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
        bench.schedule(plan.sweeping, _first("ferero", context.found)["rate"], every=plan.every),
        seed=0,
        levels=levels,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )


def _method_parts(plan: Plan, name: str) -> list[Part]:
    """The steps of the first seed, then the other seeds; under constraints each after those that set its levels."""
    title, rates = TITLES[name], rate_keys(plan, name)
    levels = rate_keys(plan, "ls") if _is_held(name) else ()
    first = [
        Part(
            rate_key(name, index),
            f"{title}, step {rate:g}",
            partial(try_rate, plan, name, index),
            after=(start_key(0), *levels),
        )
        for index, rate in enumerate(plan.rates)
    ]
    others = [
        Part(
            seed_key(name, seed),
            f"{title}, seed {seed}",
            partial(tune, plan, name, seed),
            after=(start_key(seed), *rates, *((seed_key("ls", seed),) if _is_held(name) else ())),
        )
        for seed in range(1, plan.seeds)
    ]
    return first + others


def _is_held(name: str) -> bool:
    """Whether it is trained under the constraints."""
    return name.startswith("ferero")


def _first(name: str, found: Mapping[str, Found]) -> Found:
    """A method's run at the first seed, with the best step."""
    return best_run(tried(name, found).values())


def _ends(found: Mapping[str, Found], seed: int) -> dict[str, float]:
    """Where linear scalarization ended on the dev set."""
    run = _first("ls", found) if seed == 0 else found[seed_key("ls", seed)]
    ends: dict[str, float] = run["dev"]["losses"]
    return ends
