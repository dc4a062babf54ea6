"""Writes the README's tables from benchmarks/results: ``.venv/bin/python benchmarks/readme_table.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"
STEER_BEGIN, STEER_END = "<!-- steering:begin -->\n", "<!-- steering:end -->"
STEER_FILES = ("steer.json", "steer-cost-cpu.json", "steer-cost-h200.json")


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


def steering_table(results: list[dict[str, Any]]) -> str:
    """Every bar of steering with what was measured, the missed ones too."""
    lines = ["| steering | measured | bar | |", "|---|---|---|---|"]
    for row in (row for result in results for row in result["rows"] if row["bar"] is not None):
        mark = "" if row["passed"] else "**missed**"
        what = f"{row['group']}: {row['measure']}".replace("|", "\\|")
        lines.append(f"| {what} | {row['value']:.4g} | {row['bar']:g} | {mark} |")
    return "\n".join([*lines, ""])


def read(name: str) -> dict[str, Any]:
    """A result of record."""
    result: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Put the tables between the README's marks."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    for begin, end, made in (
        (BEGIN, END, table(read("core.json"))),
        (STEER_BEGIN, STEER_END, steering_table([read(name) for name in STEER_FILES])),
    ):
        before, rest = text.split(begin)
        text = before + begin + made + end + rest.split(end)[1]
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
