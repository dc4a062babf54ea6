"""Which parts of an experiment may start now, where several run side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ferero_lab.experiments.experiment import Part

__all__ = ["may_start"]


def may_start(parts: Sequence[Part], finished: Collection[str], running: Collection[str], jobs: int) -> list[Part]:
    """Those that may, the ones first that most others wait for.

    A part may start once those in its ``after`` are finished. One that is to be alone starts when nothing runs and
    nothing else may start, so that those come last; nothing starts beside it.

    Args:
        parts: of the experiment, each after the ones that it reads.
        finished: keys.
        running: keys.
        jobs: how many may run at once.
    """
    if any(part.alone for part in parts if part.key in running):
        return []
    ready = [
        part for part in parts if part.key not in {*finished, *running} and all(key in finished for key in part.after)
    ]
    waits = _chains(parts)
    together = sorted((part for part in ready if not part.alone), key=lambda part: -waits[part.key])
    if together or running:
        return together[: max(0, jobs - len(running))]
    return ready[:1]


def _chains(parts: Sequence[Part]) -> dict[str, int]:
    """For each part how many are in the longest chain of those that wait for it."""
    chains = {part.key: 0 for part in parts}
    for part in reversed(parts):
        for key in part.after:
            chains[key] = max(chains[key], chains[part.key] + 1)
    return chains
