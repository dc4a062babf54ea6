"""Which parts start, and when: each after what it reads, so many at once, and those that measure time by themselves."""

import random

import pytest
from tests.lab.experiments.made_up import MadeUp

from ferero_lab import experiments
from ferero_lab.experiments.experiment import Part, Settings
from ferero_lab.experiments.runner import may_start


def part(key, *after, alone=False):
    return Part(key, key, lambda context: {}, after, alone)


def started(parts, finished=(), running=(), jobs=9):
    return [one.key for one in may_start(parts, finished, running, jobs)]


PARTS = [part("a"), part("b", "a"), part("t", alone=True), part("c", "a", "b"), part("d")]


def test_a_part_waits_for_all_that_it_reads():
    assert started(PARTS) == ["a", "d"]
    assert started(PARTS, running=("a", "d")) == []
    assert started(PARTS, finished=("a",), running=("d",)) == ["b"]
    assert started(PARTS, finished=("b",), running=("a", "d")) == []
    assert started(PARTS, finished=("a", "b", "d")) == ["c"]


def test_no_more_than_there_are_jobs():
    assert started(PARTS, jobs=1) == ["a"]
    assert started(PARTS, running=("a",), jobs=1) == []
    assert started(PARTS, running=("a",), jobs=2) == ["d"]
    assert started([part(key) for key in "uvwxyz"], running=("w",), jobs=4) == ["u", "v", "x"]


def test_one_that_is_to_be_alone_comes_last_and_nothing_beside_it():
    assert started(PARTS, finished=("a", "b"), running=("d", "c")) == []
    assert started(PARTS, finished=("a", "b", "c", "d")) == ["t"]
    assert started(PARTS, finished=("a",), running=("t",)) == []
    two = [part("s", alone=True), part("t", alone=True)]
    assert started(two) == ["s"]
    assert started(two, finished=("s",)) == ["t"]


def test_it_does_not_come_last_where_others_wait_for_it():
    parts = [part("t", alone=True), part("a", "t")]
    assert started(parts) == ["t"]
    assert started(parts, finished=("t",)) == ["a"]


def test_the_longest_chain_begins_first():
    parts = [part("x"), part("y", "x"), part("a"), part("b", "a"), part("c", "b"), part("z")]
    assert started(parts, jobs=1) == ["a"]
    assert started(parts, jobs=2) == ["a", "x"]
    assert started(parts) == ["a", "x", "z"]


def test_nothing_is_left_to_start():
    assert started(PARTS, finished="abctd") == []
    assert started([]) == []


def simulate(parts, jobs, seed):
    """Begins and ends of all parts, as (begin, end) by key, of made-up lengths."""
    draw, now = random.Random(seed), 0.0
    finished, running, times = [], {}, {}
    while len(finished) < len(parts):
        for one in may_start(parts, finished, running, jobs):
            assert one.key not in times
            running[one.key] = now + draw.uniform(0.5, 2.0)
            times[one.key] = (now, running[one.key])
        assert 0 < len(running) <= jobs
        ended = min(running, key=running.get)
        now = running.pop(ended)
        finished.append(ended)
    return times


@pytest.mark.parametrize("jobs", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["synthetic", "speech", "made-up"])
def test_whole_experiments(name, jobs):
    if name == "speech":
        pytest.importorskip("transformers")
        from ferero_lab.speech.experiment.parts import make_parts
        from ferero_lab.speech.experiment.plan import read_plan

        parts = make_parts(read_plan(Settings(seeds=3)))
    else:
        experiment = MadeUp() if name == "made-up" else experiments.get(name)
        parts = experiment.parts(Settings(mode="quick"))
    assert [one.key for one in parts if one.alone] == ["timing" if name == "speech" else "time"]
    for seed in range(5):
        times = simulate(parts, jobs, seed)
        for one in parts:
            begin, end = times[one.key]
            assert all(times[key][1] <= begin for key in one.after)
            if one.alone:
                assert all(other[1] <= begin for key, other in times.items() if key != one.key)
                assert end == max(other[1] for other in times.values())
