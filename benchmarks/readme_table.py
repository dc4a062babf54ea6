"""Writes the README's table from benchmarks/results/core.json: ``.venv/bin/python benchmarks/readme_table.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"


def table(result: dict[str, Any]) -> str:
    """The Markdown table."""
    rows = {(row["group"], row["measure"]): row for row in result["rows"]}
    lines = [
        "| start | reached | evaluations, median | SLSQP, 50 rays | trust-constr, 50 rays |",
        "|---|---|---|---|---|",
    ]
    for family, label in (
        ("normal", "N(0, 1), on the plateau"),
        ("easy", "U[-0.3, 0.3]"),
        ("hard", "near one end of the front"),
    ):
        group, rivals = f"two objectives, {family}", f"exponential, {family}"
        reached = rows[group, "reached (0.1 degrees, 0.01 of the front)"]["value"]
        evaluations = rows[group, "evaluations, median"]["value"]
        others = " | ".join(f"{rows[rivals, f'{name}: solved']['value']:.0%}" for name in ("SLSQP", "trust-constr"))
        lines.append(f"| {label} | {reached:.1%} | {evaluations:g} | {others} |")
    three = rows["three objectives", "reached (0.2 degrees, 0.01 of the front)"]["value"]
    evaluations = rows["three objectives", "evaluations, median"]["value"]
    rivals = "exponential-three, easy"
    others = " | ".join(f"{rows[rivals, f'{name}: solved']['value']:.0%}" for name in ("SLSQP", "trust-constr"))
    lines.append(f"| three objectives, 300 rays (0.2 degrees) | {three:.1%} | {evaluations:g} | {others} |")
    solved = result["profile"]["solved"]
    overall = ", ".join(f"{name} {share:.1%}" for name, share in solved.items())
    failed = next(row["value"] for (_, name), row in rows.items() if "consistent: residual" in name)
    return "\n".join([*lines, "", f"Solved over all eight problem sets (four standard ones among them): {overall}. "
                      f"Badly scaled subprograms that the exact solver missed: {failed:g} of 3,000.", ""])  # fmt: skip


def main() -> None:
    """Put the table between the README's marks."""
    result = json.loads((ROOT / "benchmarks/results/core.json").read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    readme.write_text(before + BEGIN + table(result) + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
