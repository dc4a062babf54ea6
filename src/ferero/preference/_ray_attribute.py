"""`Preference.ray(vector)` makes a preference and `p.ray` is its direction: one name, two faces."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from torch import Tensor

__all__ = ["constructor_and_value"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class constructor_and_value(Generic[_P, _R]):  # noqa: N801  # a decorator, like classmethod
    """Decorates a constructor so that on an instance its name reads the field of that name with a `_` before.

    Args:
        function: the constructor; its first argument is the class, as for `classmethod`.
    """

    def __init__(self, function: Callable[Concatenate[type[Any], _P], _R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[_P, _R]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Tensor | None: ...

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if instance is None:
            return MethodType(self.function, owner)
        return getattr(instance, f"_{self.function.__name__}")
