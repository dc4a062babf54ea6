"""The parts of the experiment: pre-training, each method at several steps, the sweep of the gap, the time of a step."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from statistics import median

import torch
from torch import nn

import ferero
from ferero_lab.experiments.experiment import Context, Found, Part
from ferero_lab.speech.experiment.losses import Given, draw, training_losses
from ferero_lab.speech.experiment.plan import TITLES, Levels, SpeechPlan, levels_after, preference_of
from ferero_lab.speech.experiment.search import best_run, rate_key, rate_keys, tried
from ferero_lab.speech.experiment.sentences import say_sentences
from ferero_lab.speech.experiment.speech_setup import SpeechSetup, keep_model, start_key
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["SWEPT", "levels_of", "make_parts", "runs_of", "seed_key"]

SWEPT = "sweep"


def make_parts(plan: SpeechPlan) -> list[Part]:
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


def levels_of(plan: SpeechPlan, found: Mapping[str, Found], seed: int) -> Levels:
    """Set by where linear scalarization ended on the dev set, from the same pre-trained weights."""
    return levels_after(_ends(found, seed), tightening=plan.tightening, shift=plan.shift, floors=plan.floors)


def pretrain(plan: SpeechPlan, seed: int, context: Context) -> Found:
    """All three losses, equally weighted, from fresh weights."""
    setup = SpeechSetup.of(plan, context)
    model = setup.fresh(seed)
    schedule = setup.schedule(plan.pretraining, plan.pretraining_rate, every=5 * plan.every, warm_up=plan.warm_up)
    checkpoint = context.folder / "training.pt"
    found = setup.train(model, "ls", schedule, seed=seed, checkpoint=checkpoint, advance=context.advance)
    keep_model(model, context.folder)
    count = sum(each.numel() for each in model.parameters())
    return {
        **found,
        "method": "start",
        "parameters": {"encoder": sum(each.numel() for each in model.encoder_parameters()), "all": count},
        "plan": asdict(plan),
        "corpus": setup.sets.name,
        "sizes": setup.sets.sizes(),
        "hours": {language: setup.sets.hours(language) for language in setup.sets.alphabets},
        "symbols": setup.sets.symbols(),
        "skipped": setup.sets.skipped.counts(),
    }


def try_rate(plan: SpeechPlan, name: str, index: int, context: Context) -> Found:
    """A method with one of the steps, at the first seed; its model is kept."""
    setup = SpeechSetup.of(plan, context)
    model = setup.pretrained(context, 0)
    found = setup.train(
        model,
        name,
        setup.schedule(plan.tuning, plan.rates[index], every=plan.every),
        seed=0,
        levels=levels_of(plan, context.found, 0) if _is_held(name) else None,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )
    keep_model(model, context.folder)
    return found


def tune(plan: SpeechPlan, name: str, seed: int, context: Context) -> Found:
    """A method at another seed, with the step that its search chose."""
    setup = SpeechSetup.of(plan, context)
    return setup.train(
        setup.pretrained(context, seed),
        name,
        setup.schedule(plan.tuning, _first(name, context.found)["rate"], every=plan.every),
        seed=seed,
        levels=levels_of(plan, context.found, seed) if _is_held(name) else None,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )


def sweep(plan: SpeechPlan, index: int, context: Context) -> Found:
    """FERERO with another gap, for a shorter time; the bound on CPC is left where linear scalarization ended."""
    setup = SpeechSetup.of(plan, context)
    ends = _ends(context.found, 0)
    levels = levels_after(ends, tightening=0.0, shift=plan.shifts[index], floors=plan.floors)
    return setup.train(
        setup.pretrained(context, 0),
        "ferero",
        setup.schedule(plan.sweeping, _first("ferero", context.found)["rate"], every=plan.every),
        seed=0,
        levels=levels,
        checkpoint=context.folder / "training.pt",
        advance=context.advance,
    )


def _method_parts(plan: SpeechPlan, name: str) -> list[Part]:
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


_ROUNDS = 40
_WARM_UP = 5


def time_steps(plan: SpeechPlan, context: Context) -> Found:
    """The median over rounds of the ratio of two steps next to each other, and the median times in milliseconds."""
    setup = SpeechSetup.of(plan, context)
    model = setup.fresh(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    streams = setup.sets.streams(plan.seconds, 0, setup.device)
    given = draw(
        {language: stream.next() for language, stream in streams.items()},
        torch.Generator().manual_seed(0),
        model.contrast.steps,
        tempo=plan.tempo,
        pitch=plan.pitch,
    )
    steer = ferero.Steer(preference_of("ferero", Levels(cpc=1.0, gap=0.5))).to(setup.device)
    weights = torch.full((3,), 1 / 3, device=setup.device)
    rounds = 6 if plan.mode == "quick" else _ROUNDS
    plain, steered = [], []
    for index in range(_WARM_UP + rounds):
        times = {}
        for which in (("plain", "steered"), ("steered", "plain"))[index % 2]:
            times[which] = _time_step(model, optimizer, given, steer if which == "steered" else None, weights)
        if index >= _WARM_UP:
            plain.append(times["plain"])
            steered.append(times["steered"])
        context.advance(index + 1, _WARM_UP + rounds)
    ratios = [mine / theirs for mine, theirs in zip(steered, plain, strict=True)]
    return {
        "rounds": rounds,
        "utterances": {language: len(batch) for language, batch in given.batches.items()},
        "frames": {language: int(batch.lengths.sum()) for language, batch in given.batches.items()},
        "ratio": median(ratios),
        "ratios": ratios,
        "seconds": {"weighted sum": median(plain), "ferero": median(steered)},
    }


def _time_step(
    model: Recogniser,
    optimizer: torch.optim.Optimizer,
    given: Given,
    steer: ferero.Steer | None,
    weights: torch.Tensor,
) -> float:
    device = weights.device
    _wait(device)
    began = time.perf_counter()
    losses, counts = training_losses(model, given)
    loss = weights @ losses if steer is None else steer(losses, counts)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
