"""Two processes joined by gloo: ranks stay together, and are where one process with the joint batch would be."""

from dataclasses import replace

import pytest

from ferero_lab.bench.steer.processes import ProcessPlan, bench_processes, difference, launch, train

pytestmark = pytest.mark.slow

SPOILED = (3, 7)


def ddp(steps=12, **how):
    return ProcessPlan(steps, wrapper="ddp", **how)


def fsdp(steps=12, **how):
    return ProcessPlan(steps, wrapper="fsdp", **how)


APART = {
    "inside": ddp(24, targets="none_at_times"),
    "outside": ddp(24, targets="none_at_times", is_inside=False),
    "two micro-batches": ddp(targets="some", every=2),
    "fsdp": fsdp(targets="some", is_inside=False),
    "observed by rank 0": ddp(observers=(0,), observed=(3, 6)),
    "observed by rank 1": ddp(observers=(1,), observed=(3, 6)),
    "observed by rank 1, outside": ddp(observers=(1,), observed=(3, 6), is_inside=False),
    "observed by rank 1, two micro-batches": ddp(observers=(1,), observed=(3, 6), every=2, is_inside=False),
    "observed by both": ddp(observers=(0, 1), observed=(3, 6)),
    "observed by both, outside": ddp(observers=(0, 1), observed=(3, 6), is_inside=False),
    "observed by both, fsdp": fsdp(observers=(0, 1), observed=(3, 6)),
    "raise": ddp(spoiled=SPOILED, optimizer="plain"),
    "raise, outside": ddp(spoiled=SPOILED, optimizer="plain", is_inside=False),
    "skip": ddp(spoiled=SPOILED, optimizer="plain", on_nonfinite="skip"),
    "skip, outside": ddp(spoiled=SPOILED, optimizer="plain", on_nonfinite="skip", is_inside=False),
    "skip, fsdp": fsdp(spoiled=SPOILED, optimizer="plain", on_nonfinite="skip"),
}
JOINT = ["inside", "outside", "two micro-batches", "fsdp", "observed by rank 0"]


@pytest.fixture(scope="module")
def ranks():
    first, second = launch(list(APART.values()), ranks=2)
    return {name: pair for name, *pair in zip(APART, first, second, strict=True)}


def changed(state, other):
    """Names of what both have and what differs by more than rounding, but for what was used up."""
    shared = (state.keys() & other.keys()) - {"measured", "steer.measured"}
    return {name for name in shared if not difference({name: state[name]}, {name: other[name]}) <= 1e-12}


@pytest.mark.parametrize("name", APART)
def test_ranks_stay_together(ranks, name):
    assert difference(*ranks[name]) == 0


@pytest.mark.parametrize("name", JOINT)
def test_as_one_process_with_the_joint_batch(ranks, name):
    assert changed(ranks[name][0], train(replace(APART[name], wrapper="alone"))) == set()


@pytest.mark.parametrize("name", ["observed by rank 1", "observed by rank 1, outside"])
def test_what_any_rank_observed_counts(ranks, name):
    assert ranks[name][0]["correction_observed"].tolist() == [0, 0, 2]


@pytest.mark.parametrize("name", ["observed by both", "observed by both, fsdp"])
def test_what_both_ranks_observed_counts_as_its_mean(ranks, name):
    assert changed(ranks[name][0], ranks["observed by both, outside"][0]) == set()


@pytest.mark.parametrize("name", ["raise", "raise, outside"])
def test_a_nan_on_one_rank_is_as_if_the_step_were_left_out(ranks, name):
    without = train(replace(APART[name], wrapper="alone", spoiled=(), left_out=SPOILED))
    assert changed(ranks[name][0], without) == set()


@pytest.mark.parametrize("name", ["skip", "skip, outside", "skip, fsdp"])
def test_a_skipped_step_changes_nothing_but_the_count(ranks, name):
    without = train(replace(APART[name], wrapper="alone", spoiled=(), left_out=SPOILED))
    assert {name.removeprefix("steer.") for name in changed(ranks[name][0], without)} == {"record_skipped"}
    assert ranks[name][0]["record_skipped"] == len(SPOILED)


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_a_count_of_zero_keeps_every_parameter_in_the_graph(wrapper):
    plan = ProcessPlan(12, wrapper=wrapper, targets="zero_at_times", optimizer="plain")
    [first], [second] = launch([plan], ranks=2, limit=60)
    assert difference(first, second) == 0
    assert changed(first, train(replace(plan, wrapper="alone"))) == set()


def test_the_bars():
    for row in bench_processes(True, lambda: None)[0]:
        assert row.passed, f"{row.measure}: {row.value:g}"
