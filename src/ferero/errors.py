"""One family of errors, each of which is also the built-in a caller would expect to catch."""

from __future__ import annotations

__all__ = [
    "ConeError",
    "ContradictionError",
    "FereroError",
    "InputError",
    "MissingExtraError",
    "NonFiniteError",
    "UnknownNameError",
    "UnsupportedError",
]


class FereroError(Exception):
    """Base of every error that ferero raises on purpose."""


class InputError(FereroError, ValueError):
    """An argument has the wrong shape, type or value."""


class ConeError(FereroError, ValueError):
    """A cone is empty, the whole space, without interior, or not pointed where that is needed."""


class ContradictionError(FereroError, ValueError):
    """No loss values at all could satisfy the constraints."""


class UnknownNameError(FereroError, AttributeError, LookupError):
    """A name is none of the objectives."""


class UnsupportedError(FereroError, ValueError):
    """A method cannot do what the preference or the call asks of it."""


class NonFiniteError(FereroError, ArithmeticError):
    """A loss or a gradient is NaN or infinite."""


class MissingExtraError(FereroError, ImportError):
    """An optional dependency is not installed."""
