"""The ticks of docs/methods.md, each by its experiment."""

import json
from pathlib import Path

import pytest

from ferero_lab.bench.methods.claims import CLAIMS, SETTINGS, ClaimSetting

RESULT = Path(__file__).parents[3] / "benchmarks/results/methods.json"
QUICK = [claim for claim in CLAIMS if not claim.startswith(("reaches", "walks"))]
SLOW = [claim for claim in CLAIMS if claim not in QUICK]


def kept(name: str, claim: str) -> bool:
    """What the result of record says."""
    rows = {row["measure"]: row["value"] for row in json.loads(RESULT.read_text())["rows"] if row["group"] == "claims"}
    return bool(rows[f"{name}: {claim}"])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("claim", QUICK)
def test_the_claim_holds_or_not(name: str, claim: str) -> None:
    assert CLAIMS[claim](SETTINGS[name]) == kept(name, claim)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("claim", SLOW)
def test_where_it_ends(name: str, claim: str) -> None:
    assert CLAIMS[claim](SETTINGS[name]) == kept(name, claim)


def test_every_public_method_makes_claims() -> None:
    import ferero

    public = [getattr(ferero, name) for name in ferero.__all__]
    methods = {cls for cls in public if isinstance(cls, type) and hasattr(cls, "update") and hasattr(cls, "requires")}
    assert methods == {type(setting.method) for setting in SETTINGS.values()}
    assert all(isinstance(setting, ClaimSetting) for setting in SETTINGS.values())
