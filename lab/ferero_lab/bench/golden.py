"""Reference outputs that somebody else's solver or released code gave."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

__all__ = ["golden"]


@cache
def golden(name: Literal["subprograms", "epo", "pmtl"]) -> list[dict[str, Any]]:
    """The instances of one kind, inputs and outputs.

    ``subprograms`` were solved in the primal by a conic solver and confirmed by a dual one; ``epo`` and ``pmtl`` are
    decisions of the authors' released code.
    """
    packed = files("ferero_lab.bench").joinpath(f"golden_{name}.json.gz").read_bytes()
    instances: list[dict[str, Any]] = json.loads(gzip.decompress(packed))
    return instances
