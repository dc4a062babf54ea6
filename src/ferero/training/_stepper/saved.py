"""Checkpoints of a stepper: plain dictionaries that say what they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ferero.errors import InputError
from ferero.training._stepper.memory import Memory

__all__ = ["load_state", "saved_state"]

_VERSION = 3


def saved_state(memory: Memory, generator: torch.Generator | None) -> dict[str, Any]:
    """A copy of everything, of types that ``torch.load(weights_only=True)`` reads."""
    return {
        "version": _VERSION,
        **_mark(memory),
        "memory": {name: tensor.detach().clone() for name, tensor in memory.named_buffers()},
        "has_multipliers": memory.has_multipliers,
        "generator": None if generator is None else generator.get_state(),
    }


def load_state(state: Any, memory: Memory, generator: torch.Generator | None) -> None:
    """Take over a checkpoint, or nothing of it.

    Raises:
        InputError: It is another version's, or belongs to something else.
    """
    if not isinstance(state, Mapping) or "version" not in state:
        raise InputError("state_dict: expected what Stepper.state_dict() gave, found something else; pass that.")
    if state["version"] != _VERSION:
        raise InputError(
            f"state_dict: expected version {_VERSION}, found {state['version']!r}; load it with the ferero that saved "
            "it, or start anew."
        )
    for what, expected in _mark(memory).items():
        if state.get(what) != expected:
            raise InputError(
                f"state_dict: expected {what} {expected}, found {state.get(what)}; load it into a stepper with the "
                "same preference and method, or leave it out to start anew."
            )
    if (state["generator"] is None) != (generator is None):
        found = "none" if state["generator"] is None else "one"
        raise InputError(f"state_dict: it was saved with {found} as generator=; pass the same to the stepper.")
    memory.take_over(state["memory"])
    memory.has_multipliers = state["has_multipliers"]
    if generator is not None:
        generator.set_state(state["generator"].cpu())


def _mark(memory: Memory) -> dict[str, Any]:
    preference = memory.preference
    return {
        "names": list(preference.names),
        "rows": [preference.A.shape[-2], preference.m_g, preference.m_h],
        "method": type(memory.method).__name__,
    }
