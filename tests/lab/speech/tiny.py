"""A corpus and a recogniser so small that a training step takes a hundredth of a second."""

from functools import cache

import torch

from ferero_lab.speech.corpora import Alphabet, words_like
from ferero_lab.speech.corpora.corpus import LANGUAGES, SPLITS
from ferero_lab.speech.experiment.plan import Levels, method_named, preference_of
from ferero_lab.speech.experiment.sets import Sets
from ferero_lab.speech.experiment.train import Schedule, SpeechTraining
from ferero_lab.speech.prepare import prepare
from ferero_lab.speech.recogniser import ConformerSize, Recogniser

CPU = torch.device("cpu")
LEVELS = Levels(cpc=3.3, gap=0.5)


@cache
def tiny_sets(speakers=4, takes=1):
    corpus = words_like(speakers=speakers, takes=takes)
    alphabets = {"zh": Alphabet.of(corpus.of(language="zh", split="train")), "en": Alphabet.letters()}
    prepared = {
        (language, split): prepare(corpus.of(language=language, split=split), alphabets, cache=None)
        for language in LANGUAGES
        for split in SPLITS
    }
    return Sets(corpus.name, alphabets, prepared, corpus.skipped)


def tiny_model(sets, dropout=0.1, seed=0, future=6):
    torch.manual_seed(seed)
    size = ConformerSize(blocks=1, width=16, heads=2, kernel=3, inner=32, channels=4, dropout=dropout)
    return Recogniser(size, sets.symbols(), future_steps=future)


def tiny_schedule(**changes):
    usual = {"steps": 12, "rate": 1e-2, "seconds": 5.0, "every": 5, "tempo": 0.15, "pitch": 0.1}
    return Schedule(**{**usual, **changes})


def tiny_training(name="ferero", *, levels=LEVELS, seed=0, model=None, **changes):
    sets = tiny_sets()
    model = tiny_model(sets) if model is None else model
    method, preference = method_named(name), preference_of(name, levels)
    asked = levels if name.startswith("ferero") else None
    return SpeechTraining(
        model, sets, preference, method, tiny_schedule(**changes), seed=seed, device=CPU, levels=asked
    )
