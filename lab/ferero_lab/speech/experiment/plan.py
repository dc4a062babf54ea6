"""What a run of the speech experiment trains: recordings, model, methods with their preferences, and how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ferero
from ferero.errors import InputError
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.experiments.chosen import chosen
from ferero_lab.experiments.experiment import Settings
from ferero_lab.speech.corpora.alphabet import UNITS
from ferero_lab.speech.experiment.losses import NAMES

__all__ = [
    "METHODS",
    "STAGES",
    "TITLES",
    "TOLERANCE",
    "USUAL",
    "Levels",
    "SpeechPlan",
    "levels_after",
    "method_named",
    "preference_of",
    "read_plan",
]

METHODS = ("ctc", "cpc", "ls", "ferero", "ferero-sa", "mgda", "stch")
"""By name, in the order in which they are run: the constraints are set by where `ls` ends."""
USUAL = ("ctc", "cpc", "ls", "ferero")
TITLES = {
    "start": "pre-trained",
    "ctc": "CTC losses only",
    "cpc": "CPC loss only",
    "ls": "linear scalarization",
    "ferero": "FERERO",
    "ferero-sa": "FERERO, Algorithm 3",
    "mgda": "MGDA",
    "stch": "smooth Tchebycheff",
}


TOLERANCE = 0.02
"""By how much a level may be missed on the dev set, in nats."""


@dataclass(frozen=True)
class Levels:
    """``cpc <= cpc`` and ``zh - en == gap``.

    Attributes:
        cpc: the first.
        gap: the second.
        floors: for each loss of NAMES, how much of it is out of reach. FERERO measures violations against the size of
            the losses, so it is given what lies above: see docs/steering.md, "Offsets".
    """

    cpc: float
    gap: float
    floors: tuple[float, ...] = (0.0, 0.0, 0.0)

    def violations(self, losses: Mapping[str, float]) -> dict[str, float]:
        """By how much each constraint fails; 0 for one that holds."""
        return {
            "cpc": max(0.0, losses["cpc"] - self.cpc),
            "gap": abs(losses["zh"] - losses["en"] - self.gap),
        }

    def failure(self, losses: Mapping[str, float]) -> float:
        """By how much the worst constraint fails beyond TOLERANCE; 0 where all hold within it."""
        return max(0.0, max(self.violations(losses).values()) - TOLERANCE)


def levels_after(
    losses: Mapping[str, float], *, tightening: float, shift: float, floors: Sequence[float] = (0.0, 0.0, 0.0)
) -> Levels:
    """Levels that both bind: CPC a share under where linear scalarization ended, the gap moved away from its gap.

    Args:
        losses: where linear scalarization ended.
        tightening: the share.
        shift: by how much the gap is moved.
        floors: for each loss of NAMES, the share of its end that is taken to be out of reach.
    """
    return Levels(
        cpc=(1 - tightening) * losses["cpc"],
        gap=losses["zh"] - losses["en"] + shift,
        floors=tuple(share * losses[name] for share, name in zip(floors, NAMES, strict=True)),
    )


def method_named(name: str) -> Method[Any]:
    """An instance."""
    known: dict[str, Method[Any]] = {
        "ctc": ferero.FereroPI(),
        "cpc": ferero.FereroPI(),
        "ls": ferero.LinearScalarization(),
        "ferero": ferero.FereroPI(),
        "ferero-sa": ferero.FereroSA(),
        "mgda": ferero.MGDA(),
        "stch": ferero.SmoothTchebycheff(),
    }
    return known[name]


def preference_of(name: str, levels: Levels | None) -> Preference:
    """The preference of the method of that name, over losses less their floors; only FERERO understands constraints.

    It minimises the same sum as linear scalarization under them, so that the constraints are the only difference.
    """
    f = ferero.objectives(*NAMES)
    if name == "ctc":
        return Preference(f, minimize=(f.zh + f.en) / 2)
    if name == "cpc":
        return Preference(f, minimize=f.cpc)
    if name.startswith("ferero") and levels is not None:
        cpc, zh, en = levels.floors
        constraints = [f.cpc <= levels.cpc - cpc, f.zh - f.en == levels.gap - zh + en]
        return Preference(f, constraints, minimize=(f.cpc + f.zh + f.en) / 3)
    return Preference(f)


MANDARIN = tuple(unit for unit, language in UNITS.items() if language == "zh")
STAGES = ("methods", "sweep", "timing", "sentences")
"""What may follow pre-training."""


@dataclass(frozen=True)
class SpeechPlan:
    """How the recognisers of a mode are trained.

    Attributes:
        mode: "quick", "ours" or "paper".
        corpus: "words", "sentences", or "synthetic" for a quick run without a data folder.
        size: of the conformer, a name in SIZES.
        dropout: in the conformer.
        future: how many frames of the encoder (40 ms each) CPC predicts.
        unit: what Mandarin is written in: "characters", "syllables" or "toneless".
        trimmed: whether the silence around the recordings is cut off.
        seconds: of speech in a step, both languages together, in proportion to how much there is of each.
        pretraining: passes over the training set from fresh weights.
        pretraining_rate: AdamW's largest step there.
        warm_up: over which share of pre-training it rises to that.
        tuning: passes of each method from the pre-trained weights.
        sweeping: passes of each model in the sweep of the gap.
        rates: AdamW's steps that each method is tried with at the first seed.
        seeds: how many, of tuning.
        every: steps between two evaluations of the held-out losses.
        shifts: by how much the gap is moved from that of linear scalarization, one model each.
        shift: the same for the methods' own runs.
        tightening: by which share the CPC loss is to be under that of linear scalarization.
        floors: the share of each loss, as linear scalarization leaves it, that is taken to be out of reach.
        tempo: largest change of an utterance's tempo while training.
        pitch: largest change of its pitch.
        methods: which.
        stages: which of STAGES.
    """

    mode: str
    corpus: str
    size: str
    seconds: float
    pretraining: int
    pretraining_rate: float
    tuning: int
    sweeping: int
    rates: tuple[float, ...]
    seeds: int
    every: int
    warm_up: float = 0.1
    dropout: float = 0.1
    future: int = 2
    unit: str = "characters"
    trimmed: bool = False
    shifts: tuple[float, ...] = ()
    shift: float = -0.15
    tightening: float = 0.1
    floors: tuple[float, float, float] = (0.0, 0.0, 0.0)
    tempo: float = 0.15
    pitch: float = 0.1
    methods: tuple[str, ...] = USUAL
    stages: tuple[str, ...] = STAGES

    @property
    def mandarin_errors(self) -> str:
        """What the errors of Mandarin are called: CER in characters, SER in syllables."""
        return "Mandarin CER" if self.unit == "characters" else "Mandarin SER"

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> SpeechPlan:
        """The plan of a run, as its parts keep it."""
        fields: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in plain.items()}
        return cls(**fields)


_OURS = SpeechPlan(
    mode="ours",
    corpus="sentences",
    size="paper",
    seconds=380.0,
    pretraining=40,
    pretraining_rate=1e-3,
    warm_up=0.3,
    tuning=25,
    sweeping=15,
    rates=(1e-3, 2e-3),
    seeds=3,
    every=10,
    floors=(0.7, 0.8, 0.8),
    shifts=(-0.6, -0.5, -0.4, -0.3, -0.2),
    shift=-0.3,
)
_QUICK = SpeechPlan(
    mode="quick",
    corpus="words",
    size="small",
    seconds=20.0,
    pretraining=7,
    pretraining_rate=3e-3,
    tuning=2,
    sweeping=1,
    rates=(1e-3,),
    seeds=1,
    every=25,
    dropout=0.0,
    trimmed=True,
    tempo=0.1,
    pitch=0.05,
    tightening=0.02,
    floors=(0.9, 0.0, 0.0),
    methods=("ls", "ferero"),
)
_SYNTHETIC = replace(_QUICK, corpus="synthetic", pretraining=20, tuning=30, shift=-0.1)
_PLANS = {"quick": _QUICK, "ours": _OURS}


def read_plan(settings: Settings) -> SpeechPlan:
    """The mode's plan with what the user changed.

    Raises:
        InputError: a name in ``only`` or ``methods`` that there is not, or the paper's mode.
    """
    if settings.mode not in _PLANS:
        raise InputError(
            f"--{settings.mode}: the paper trains on 960 hours, and its settings make nothing of the recordings here; "
            "leave it out. The model has the paper's size without it."
        )
    plan = _SYNTHETIC if settings.mode == "quick" and settings.data is None else _PLANS[settings.mode]
    chosen("--unit", () if settings.unit is None else (settings.unit,), MANDARIN)
    methods = chosen("--methods", settings.methods, METHODS) if settings.methods else plan.methods
    return replace(
        plan,
        unit=settings.unit or plan.unit,
        tuning=settings.epochs or plan.tuning,
        seeds=settings.seeds or plan.seeds,
        methods=tuple(name for name in METHODS if name in (*methods, "ls")),
        stages=chosen("--only", settings.only, STAGES),
    )
