"""Plain data on disk: JSON that every reader takes, and a configuration without traces of the machine."""

from __future__ import annotations

import platform
from typing import Any

__all__ = ["configuration"]


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
