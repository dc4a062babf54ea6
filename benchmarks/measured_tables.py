"""Writes what was measured into README.md, docs/benchmarks.md and docs/steering.md.

``.venv/bin/python benchmarks/measured_tables.py``.

Every figure comes from a file in benchmarks/results; the words beside it are here.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from pages import fill, markdown

from ferero_lab.bench.rates import TRAINED
from ferero_lab.bench.rates import table as table_of_rates
from ferero_lab.bench.solver.tables import outcomes, verdicts
from ferero_lab.bench.tasks.tables import comparison, parts, variants

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
STEER_FILES = ("steer", "steer-cost-cpu", "steer-cost-h200")
NOT_OFFERED, UNKNOWN = "-", "?"
COMMANDS = {
    "cooper": "benchmarks/cooper/compare.py",
    "cooper-resume": "benchmarks/cooper/resume.py",
    "core": "ferero bench core",
    "families-cpu": "python -m ferero_lab.bench.family_cost",
    "import-time": "benchmarks/import_time.py",
    "lowest-versions": "benchmarks/lowest_versions.py",
    "methods": "ferero bench methods",
    "methods-step-h200": "python -m ferero_lab.bench.step_cost stepper",
    "quick-times": "benchmarks/quick_times.py DATA",
    "rates-adult": "python -m ferero_lab.bench.rates adult DATA",
    "rates-german": "python -m ferero_lab.bench.rates german DATA",
    "solver": "ferero bench solver",
    "speech-alphabets": "benchmarks/data_table.py DATA",
    "steer": "ferero bench steer",
    "steer-cost-cpu": "python -m ferero_lab.bench.step_cost steer",
    "steer-cost-h200": "python -m ferero_lab.bench.step_cost steer",
    "tasks": "ferero bench tasks",
}
"""How a result is made that is no run of an experiment."""

Result = Mapping[str, Any]


def results() -> dict[str, Result]:
    """All results of record, by name."""
    files = sorted(RESULTS.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


# everyday tasks ----------------------------------------------------------------------------------------------


def tasks_table(all_results: Mapping[str, Result]) -> str:
    """Ferero's default beside the best setting of each rule, over the tasks that some setting meets."""
    return markdown(*comparison(all_results["tasks"]["summary"]))


def families_table(all_results: Mapping[str, Result]) -> str:
    """The same for each family of tasks, beside the best single setting of all rivals."""
    return markdown(*parts(all_results["tasks"]["summary"]["families"], "family"))


def variants_table(all_results: Mapping[str, Result]) -> str:
    """What half and twice of each constant, and each mechanism, is worth."""
    return markdown(*variants(all_results["tasks"]["variants"]))


# beside the neighbours ---------------------------------------------------------------------------------------


def neighbours_table(all_results: Mapping[str, Result]) -> str:
    """What ferero, Cooper, TorchJD and SLSQP offer; every yes and every figure is a link."""
    cooper, steps = "benchmarks/cooper/README.md", "benchmarks/results/steer-cost-cpu.json"
    core, rivals = "benchmarks/results/core.json", "lab/ferero_lab/bench/core/rays.py"
    units = _in_other_units(all_results["cooper"])
    ours, theirs = _best_of_six(all_results["cooper"])
    mine, slsqp = _evaluations_where_both_arrive(all_results["core"])
    solved = all_results["core"]["profile"]["solved"]
    rows: list[list[str]] = [
        ["thresholds and differences of losses", *_yes("tests/training/test_steer.py", cooper), NOT_OFFERED,
         *_yes("tests/optimize/test_minimize.py")],
        ["a ray of losses", *_yes("tests/methods/test_ferero_pi.py", cooper), NOT_OFFERED, *_yes(rivals)],
        ["another order than loss by loss (a cone)", *_yes("tests/geometry/test_cone.py"), *[NOT_OFFERED] * 3],
        ["training on batches: time of a step over the plain sum", _link(_cost(all_results), steps),
         _link("one gradient", cooper), _link("m gradients", "tests/integrations/test_torchjd.py"), NOT_OFFERED],
        ["rays of digit pairs in a short run, best of six settings: worst error, degrees", _link(ours, cooper),
         _link(theirs, cooper), NOT_OFFERED, NOT_OFFERED],
        ["one loss in other units, same settings: worst error, degrees", _link(units["ferero"], cooper),
         _link(units["Cooper"], cooper), NOT_OFFERED, UNKNOWN],
        ["smooth problems solved, 400 rays of eight sets", _link(f"{solved['ferero']:.1%}", core), *[NOT_OFFERED] * 2,
         _link(f"{solved['SLSQP']:.1%}", core)],
        ["evaluations where both arrive, median", _link(mine, core), *[NOT_OFFERED] * 2, _link(slsqp, core)],
        ["a certificate, and by how much a preference is out of reach",
         *_yes("tests/optimize/test_certificate.py"), *[NOT_OFFERED] * 3],
        ["DDP and FSDP2, losses missing on some ranks", *_yes("tests/training/distributed/test_processes.py"),
         UNKNOWN, UNKNOWN, NOT_OFFERED],
        ["saved and resumed to the last bit", *_yes("tests/training/test_everywhere_resume.py"),
         _link(_resumed(all_results["cooper-resume"]), "benchmarks/results/cooper-resume.json"),
         _link("what has no state", "tests/integrations/test_torchjd.py"), NOT_OFFERED],
        ["many trade-offs in one run", *_yes("tests/fronts/test_train_front.py"), *[NOT_OFFERED] * 3],
    ]  # fmt: skip
    return markdown(("", "ferero", "Cooper", "TorchJD", "SciPy's SLSQP"), rows)


def _yes(*targets: str) -> list[str]:
    return [_link("yes", target) for target in targets]


def _link(text: str, target: str) -> str:
    return f"[{text}]({target})"


def _cost(all_results: Mapping[str, Result]) -> str:
    ratios = [row["value"] for row in all_results["steer-cost-cpu"]["rows"] if row["group"] == "step, cpu"]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _best_of_six(cooper: Result) -> tuple[str, str]:
    """The worst error over the digit pairs at each one's best setting: ours, and Cooper's two methods'."""
    of = {name: _worst_by_setting(cooper, name) for name in ("ferero", "nuPI", "ALM")}
    best = {name: min(worst.values()) for name, worst in of.items()}
    default = of["ferero"][_key(cooper["searches"]["ferero"]["default"])]
    return f"{best['ferero']:.2f}, default {default:.2f}", f"{best['ALM']:.2f}, {best['nuPI']:.2f}"


def _worst_by_setting(cooper: Result, method: str) -> dict[str, float]:
    worst: dict[str, float] = {}
    for run in cooper["runs"]:
        if (run["family"], run["method"]) == ("pairs", method):
            key = _key(run["setting"])
            worst[key] = max(run["worst"], worst.get(key, 0.0))
    return worst


def _key(setting: Mapping[str, float]) -> str:
    return json.dumps(setting, sort_keys=True)


def _in_other_units(cooper: Result) -> dict[str, str]:
    runs = [run for run in cooper["runs"] if run["family"] == "units: second loss x 100"]
    worst = {name: max(run["worst"] for run in runs if run["method"] == name) for name in ("ferero", "nuPI", "ALM")}
    return {"ferero": f"{worst['ferero']:.0e}", "Cooper": f"{worst['nuPI']:.0f}, {worst['ALM']:.0f}"}


def _resumed(result: Result) -> str:
    """The methods of Cooper's that always go on as if nothing had been, and what the others need for it."""
    sure, unsure = (
        [row for row in result["rows"] if (row["same"] == row["trials"]) is wanted] for wanted in (True, False)
    )
    if not unsure:
        return "yes"
    always = sorted({row["method"] for row in sure} - {row["method"] for row in unsure})
    others = [f"{row['method']} with {row['constraints']}: {row['same']} of {row['trials']}" for row in unsure]
    return "; ".join([*always, *others])


def _evaluations_where_both_arrive(core: Result) -> tuple[str, str]:
    taken = core["profile"]["evaluations"]
    both = [(a, b) for a, b in zip(taken["ferero"], taken["SLSQP"], strict=True) if a is not None and b is not None]
    return f"{median(a for a, _ in both):g}", f"{median(b for _, b in both):g}"


# at a glance -------------------------------------------------------------------------------------------------


def headlines_table(all_results: Mapping[str, Result]) -> str:
    """The figures that people ask for first, each with the command that measures it."""
    core, steer, images = (all_results[name] for name in ("core", "steer", "images"))
    fairness = all_results["fairness"]["measures"]["violations"]["ferero"]["driving"]
    speech = all_results["speech"]["measures"]["bars"]["average_error"]
    solved = core["profile"]["solved"]
    minutes = all_results["images-paper"]["measures"]["seconds"]["FERERO"]["seconds"] / 60
    emotions = all_results["emotions"]["measures"]["bars"]["error_median"]["value"]
    rows = [
        ("smooth problems solved; SLSQP", f"{solved['ferero']:.1%}; {solved['SLSQP']:.1%}", "ferero bench core"),
        ("a training step over the plain sum, CPU; H200", f"{_cost(all_results)}; {_cost_on_gpu(all_results)}",
         "python -m ferero_lab.bench.step_cost steer"),
        ("digit pairs, worst error over all rays, SGD; Adam", _pairs(steer), "ferero bench steer"),
        ("three image sets, median error of the rays; next best method", _rays(images),
         "ferero run images --device cuda"),
        ("45 image models in one run, H200", f"{minutes:.1f} minutes", "ferero run images --paper --device cuda"),
        ("six emotions, median error of the rays", f"{emotions:.1f} degrees", "ferero run emotions"),
        ("Adult, gap between groups bounded: worst excess over the bound", f"{fairness:.4f}", "ferero run fairness"),
        ("two languages, paper's conformer: average error minus that of the plain sum, three seeds",
         f"{speech['value']:+.1f} ± {speech['standard_error']:.1f} points (the paper: -1.3)",
         "ferero run speech --device cuda"),
        ("`import ferero` over `import torch`", f"{_import_time(all_results):.2f}", "benchmarks/import_time.py"),
    ]  # fmt: skip
    return markdown(("measure", "measured", "by"), [[what, value, f"`{command}`"] for what, value, command in rows])


def _cost_on_gpu(all_results: Mapping[str, Result]) -> str:
    ratios = [row["value"] for row in all_results["steer-cost-h200"]["rows"] if row["group"] == "step, cuda"]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _pairs(steer: Result) -> str:
    rows = {row["measure"]: row["value"] for row in steer["rows"] if row["group"] == "digit pairs"}
    return "; ".join(f"{rows[f'worst error in degrees, {name}']:.1f}" for name in ("SGD", "Adam")) + " degrees"


def _rays(images: Result) -> str:
    found = [
        {name: method["ray_error_train"]["median"] for name, method in methods.items()}
        for methods in images["measures"]["methods"].values()
    ]
    ours = ", ".join(f"{one['FERERO']:.1f}" for one in found)
    others = ", ".join(f"{min(value for name, value in one.items() if name != 'FERERO'):.0f}" for one in found)
    return f"{ours}; {others} degrees"


def _import_time(all_results: Mapping[str, Result]) -> float:
    rows = {row["measure"]: row["value"] for row in all_results["import-time"]["rows"]}
    return float(rows["import ferero over import torch, on the clock"])


# in full -----------------------------------------------------------------------------------------------------


def core_table(result: dict[str, Any]) -> str:
    """How often each kind of start reaches its ray, beside SciPy's solvers."""
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


def solver_table(all_results: Mapping[str, Result]) -> str:
    """Solved, evaluations and time for each family and kind, beside SLSQP, IPOPT and trust-constr."""
    return markdown(*outcomes(all_results["solver"]["cells"]))


def solver_bars(all_results: Mapping[str, Result]) -> str:
    """Every bar of the solver with what was measured, the missed ones too."""
    rows = [row for row in all_results["solver"]["rows"] if not row["group"].startswith("verdicts")]
    lines = [
        [f"{row['group']}: {row['measure']}", f"{row['value']:.3g}", f"{row['bar']:.3g}", _missed(row), row["note"]]
        for row in rows
        if row["bar"] is not None
    ]
    return markdown(("", "ferero", "goal", "", "over"), lines)


def _missed(row: Mapping[str, Any]) -> str:
    return "" if row["passed"] else "**missed**"


def verdicts_table(all_results: Mapping[str, Result]) -> str:
    """False verdicts on random problems."""
    return markdown(*verdicts(all_results["solver"]["rows"]))


def steering_table(results: list[dict[str, Any]]) -> str:
    """Every bar of steering with what was measured, the missed ones too."""
    lines = ["| steering | measured | bar | |", "|---|---|---|---|"]
    for row in (row for result in results for row in result["rows"] if row["bar"] is not None):
        mark = "" if row["passed"] else "**missed**"
        what = f"{row['group']}: {row['measure']}".replace("|", "\\|")
        lines.append(f"| {what} | {row['value']:.4g} | {row['bar']:g} | {mark} |")
    return "\n".join([*lines, ""])


def cooper_tables(all_results: Mapping[str, Result]) -> str:
    """As benchmarks/cooper prints them."""
    spec = importlib.util.spec_from_file_location("summary", ROOT / "benchmarks/cooper/summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.tables(all_results["cooper"])) + "\n"


def rates_table(all_results: Mapping[str, Result]) -> str:
    """Gaps and errors of decisions on people held out, beside fairlearn."""
    rows = [row for data in TRAINED for row in all_results[f"rates-{data}"]["rows"]]
    return markdown(*table_of_rates(rows))


def import_table(all_results: Mapping[str, Result]) -> str:
    """What importing costs."""
    rows = [[row["measure"], f"{row['value']:.2f}"] for row in all_results["import-time"]["rows"]]
    return markdown(("measure", "measured"), rows)


def origins_table(all_results: Mapping[str, Result]) -> str:
    """For every result where it was measured, with what, and by which command."""
    rows = [[f"`{name}.json`", f"`{_command(name, one)}`", *_where(one)] for name, one in all_results.items()]
    return markdown(("result", "by", "on", "python", "torch"), rows)


def _command(name: str, result: Result) -> str:
    if name in COMMANDS:
        return COMMANDS[name]
    options = result["config"]["options"]
    mode = "" if options["mode"] == "ours" else f" --{options['mode']}"
    return f"ferero run {options['experiment']}{mode}"


def _where(result: Result) -> list[str]:
    if "config" in result:
        config = result["config"]
        return [config["device"], config["versions"]["python"], config["versions"]["torch"]]
    there = result["environment"]
    device = there.get("accelerator", f"{there['processor']}, {there['cores']} cores")
    return [device, there["python"], there["packages"]["torch"]]


PAGES: dict[str, dict[str, Callable[[Mapping[str, Result]], str]]] = {
    "README.md": {"tasks": tasks_table, "neighbours": neighbours_table, "headlines": headlines_table},
    "docs/benchmarks.md": {
        "headlines": headlines_table,
        "core": lambda found: core_table(found["core"]),
        "solver": solver_table,
        "bars": solver_bars,
        "verdicts": verdicts_table,
        "steering": lambda found: steering_table([found[name] for name in STEER_FILES]),
        "cooper": cooper_tables,
        "rates": rates_table,
        "import": import_table,
        "origins": origins_table,
    },
    "docs/steering.md": {"tasks": tasks_table, "variants": variants_table, "families": families_table},
}
"""For each page its tables."""


def filled(page: str, text: str, all_results: Mapping[str, Result]) -> str:
    """The text of a page with its tables between their marks."""
    for name, make in PAGES[page].items():
        text = fill(text, name, make(all_results))
    return text


def main() -> None:
    """Fill all pages."""
    for page in PAGES:
        file = ROOT / page
        file.write_text(filled(page, file.read_text(encoding="utf-8"), results()), encoding="utf-8")


if __name__ == "__main__":
    main()
