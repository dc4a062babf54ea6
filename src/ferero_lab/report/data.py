"""Plain data on disk: JSON that every reader takes, and a configuration without traces of the machine."""

from __future__ import annotations

import json
import math
import platform
from typing import Any

__all__ = ["configuration", "to_json"]


def to_json(value: Any) -> str:
    """Indented JSON with a last newline; what is not finite becomes null, since JSON has no word for it."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def configuration(command: str, **options: Any) -> dict[str, Any]:
    """The command, its options and the versions it ran with; no host names, no paths of this machine."""
    import numpy
    import scipy
    import torch

    import ferero

    versions = {
        "ferero": ferero.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
    return {"command": command, "options": options, "versions": versions}
