"""An optimizer that evaluates its closure again and again within a step sees one function, and the law moves once."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

import ferero
from ferero.training import Steer
from ferero.training._repeats import is_repeated_closure

f = ferero.objectives("a", "b")
PREFERENCE = ferero.Preference(f, [f.a <= 0.5])


def start():
    return torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)


def losses_of(x):
    return {"a": (x - 1).square().sum() + 0.1 * x[0] ** 4, "b": (x + 1).square().sum() + x[0].cos()}


def moves(steer):
    return int(steer.record_arrived.max())


class Loop:
    """A closure, and the weights it has seen."""

    def __init__(self, steer, x, optimizer, micro=1):
        self.steer, self.x, self.optimizer, self.micro, self.seen = steer, x, optimizer, micro, []

    def __call__(self):
        self.optimizer.zero_grad()
        whole = 0.0
        for _ in range(self.micro):
            loss = self.steer(losses_of(self.x)) / self.micro
            loss.backward()
            whole += loss.detach()
            self.seen.append(self.steer.weights.clone())
        return whole


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("micro", [1, 3])
def test_lbfgs_moves_the_law_once_a_step(line_search, micro):
    steer, x = Steer(PREFERENCE, every=micro), start()
    optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=6, line_search_fn=line_search)
    for step in range(4):
        loop = Loop(steer, x, optimizer, micro)
        optimizer.step(loop)
        assert len(loop.seen) > 2 * micro
        assert all(torch.equal(weights, loop.seen[0]) for weights in loop.seen)
        assert moves(steer) == step + 1
    assert steer.calls == (4 * micro if micro > 1 else 0)


def test_repeats_give_the_gradient_of_the_weights_that_were_held():
    steer, x = Steer(PREFERENCE), start()
    optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = steer(losses_of(x))
        loss.backward()
        wanted = sum(w * v for w, v in zip(steer.weights, losses_of(x).values(), strict=True))
        torch.testing.assert_close(loss, wanted)
        torch.testing.assert_close(x.grad, torch.autograd.grad(wanted, x)[0])
        return loss

    optimizer.step(closure)
    optimizer.step(closure)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_that_is_evaluated_once_is_as_a_plain_loop(kind, by_name):
    found = []
    for with_closure in (False, True):
        steer, x = Steer(PREFERENCE), start()
        optimizer = kind([x], lr=0.05)
        loop = Loop(steer, x, optimizer)
        for _ in range(5):
            if not with_closure:
                loop()
                optimizer.step()
            elif by_name:
                assert optimizer.step(closure=loop) is not None
            else:
                optimizer.step(loop)
        found.append((x.detach(), steer.weights))
        assert moves(steer) == 5
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_a_closure_that_raises_leaves_nothing_frozen():
    steer, x = Steer(PREFERENCE), start()
    optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=6)
    loop = Loop(steer, x, optimizer)

    def fails():
        if len(loop.seen) == 2:
            raise KeyboardInterrupt
        return loop()

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(fails)
    assert moves(steer) == 1
    plain = torch.optim.SGD([x], lr=0.05)
    for _ in range(3):
        steer(losses_of(x)).backward()
        plain.step()
        plain.zero_grad()
    assert moves(steer) == 4
    another = torch.optim.LBFGS([x], lr=0.5, max_iter=6)
    another.step(Loop(steer, x, another))
    assert moves(steer) == 5


class Twice(torch.optim.Optimizer):
    """Lets another optimizer step two times, each with the closure."""

    def __init__(self, inner):
        self.inner = inner
        super().__init__(inner.param_groups, {})

    def step(self, closure=None):
        self.inner.step(closure)
        return self.inner.step(closure=closure)


def test_the_outer_of_nested_optimizers_counts():
    steer, x = Steer(PREFERENCE), start()
    inner = torch.optim.SGD([x], lr=0.01)
    outer = Twice(inner)
    for step in range(3):
        outer.step(Loop(steer, x, inner))
        assert moves(steer) == step + 1


def test_what_is_trained_inside_a_closure_has_its_own_steps():
    outside, inside, x = Steer(PREFERENCE), Steer(PREFERENCE), start()
    optimizer, inner = torch.optim.LBFGS([x], lr=0.5, max_iter=3), torch.optim.SGD([start()], lr=0.1)
    loop, evaluations = Loop(outside, x, optimizer), []

    def closure():
        y = inner.param_groups[0]["params"][0]
        inner.step(lambda: inside(losses_of(y)))
        evaluations.append(1)
        return loop()

    optimizer.step(closure)
    assert len(evaluations) > 2
    assert moves(outside) == 1
    assert moves(inside) == len(evaluations)


def test_a_repeat_that_is_not_finite_is_left_to_the_line_search():
    steer, x = Steer(PREFERENCE), start()
    optimizer = torch.optim.LBFGS([x], lr=1.0, max_iter=4, line_search_fn="strong_wolfe")
    given = []

    def closure():
        optimizer.zero_grad()
        losses = losses_of(x)
        loss = steer({**losses, "a": losses["a"] * (float("inf") if len(given) == 1 else 1.0)})
        loss.backward()
        given.append(loss.item())
        return loss

    optimizer.step(closure)
    assert given[1] == float("inf")
    assert torch.isfinite(x).all()
    assert moves(steer) == 1
    assert steer.record_skipped == 0


def test_copies_and_unpickled_ones_follow_as_well():
    for make in (copy.deepcopy, lambda steer: pickle.loads(pickle.dumps(steer))):
        steer, x = Steer(PREFERENCE), start()
        steer(losses_of(x))
        steer = make(steer)
        optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=4)
        optimizer.step(Loop(steer, x, optimizer))
        assert moves(steer) == 2


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_a_compiled_step_is_followed_as_well():
    steer, x = Steer(PREFERENCE), start()
    optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=4)

    @torch.compile(backend="eager")
    def step(closure):
        optimizer.step(closure)

    for count in (1, 2):
        step(Loop(steer, x, optimizer))
        assert moves(steer) == count
    plain = torch.optim.SGD([x], lr=0.01)
    compiled = torch.compile(plain.step, backend="eager")
    for count in (3, 4):
        steer(losses_of(x)).backward()
        compiled()
        assert moves(steer) == count


def test_another_thread_is_not_held():
    """A closure repeated here says nothing of training there."""
    steer, x, found = Steer(PREFERENCE), start(), []

    def elsewhere():
        found.append(is_repeated_closure())

    def closure():
        loss = steer(losses_of(x))
        worker = threading.Thread(target=elsewhere)
        worker.start()
        worker.join()
        loss.backward()
        return loss

    torch.optim.LBFGS([x], lr=0.1, max_iter=3).step(closure)
    assert len(found) > 2
    assert not any(found)
