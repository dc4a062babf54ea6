"""What an experiment is: parts that can be run one by one and kept, and a report made of what they gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ferero_lab.report.panels import Panel, Table

__all__ = ["Context", "Experiment", "Part", "Section", "Settings", "Story"]

Found: TypeAlias = dict[str, Any]
"""What a part gives: plain data for JSON. Times go under keys "seconds", which a resumed run may change."""


@dataclass(frozen=True)
class Settings:
    """What the user chose on the command line.

    Attributes:
        mode: "quick" (minutes on a laptop, no download), "ours" (full, our settings) or "paper" (the paper's settings).
        seeds: how many; None for the experiment's own number.
        device: where to train, as torch writes it.
        data: the folder with the data sets; None: FERERO_DATA, then a download.
        only: names of data sets or panels to restrict the run to; empty for all.
        methods: names of methods to restrict it to; empty for all.
        epochs: how long; None for the experiment's own number.
        unit: what Mandarin is written in, for speech; None for characters.
    """

    mode: str = "ours"
    seeds: int | None = None
    device: str = "cpu"
    data: Path | None = None
    only: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    epochs: int | None = None
    unit: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data, without the data folder, which is a matter of the machine."""
        return {key: value for key, value in asdict(self).items() if key != "data"}


@dataclass(frozen=True)
class Context:
    """What a part may use while it runs.

    Attributes:
        settings: the user's.
        folder: for checkpoints, its own.
        advance: tell how far it is: ``advance(done, total)``, any number of times.
        found: what the parts gave that it comes after (`Part.after`), by key.
    """

    settings: Settings
    folder: Path
    advance: Callable[[int, int], None]
    found: Mapping[str, Found] = field(default_factory=dict)

    def folder_of(self, key: str) -> Path:
        """Where another part of the same run, one that it comes after, kept its checkpoints."""
        return self.folder.parent / key


@dataclass(frozen=True)
class Part:
    """A piece of an experiment that is run once and kept.

    It is a function of settings and of the parts in ``after``, so that it can be repeated, and run beside others.

    Attributes:
        key: its name on disk: letters, digits, "-" and "_".
        title: what is shown while it runs.
        run: does it.
        after: keys of the parts that it reads, in `Context.found` or in their folders; they come before it.
        alone: whether nothing may run beside it, since it measures time.
    """

    key: str
    title: str
    run: Callable[[Context], Found]
    after: tuple[str, ...] = ()
    alone: bool = False


@dataclass(frozen=True)
class Section:
    """A heading with text, figures and tables below it, in this order."""

    title: str
    text: str = ""
    panels: Sequence[Panel] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Story:
    """The report of an experiment.

    Attributes:
        title: of the page.
        lead: the first paragraph: what was done and what came out.
        sections: in the order of reading.
        measures: the figures of record, as plain data: what benchmarks/results keeps.
    """

    title: str
    lead: str
    sections: Sequence[Section] = ()
    measures: dict[str, Any] = field(default_factory=dict)


class Experiment(Protocol):
    """One of the paper's experiments."""

    name: str
    summary: str
    defaults: Mapping[str, Any]

    def parts(self, settings: Settings) -> Sequence[Part]:
        """What is to be run, in order.

        Raises:
            InputError: a name in ``only`` or ``methods`` that there is not, or data that cannot be found.
        """

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of the parts that are there (by key; some may be missing)."""
