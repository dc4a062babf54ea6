"""On a GPU: the same answer as on the CPU, by one replayed graph, without waiting for the device."""

import copy

import pytest
import torch

import ferero

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def preference():
    f = ferero.objectives("a", "b", "c")
    return ferero.Preference(f, [f.c <= 0.5, f.a - f.b == 0.2])


def quadratics(x):
    return ((x - torch.eye(3, dtype=x.dtype, device=x.device)) ** 2).sum(-1)


def train(device, steps=60, missing=False, every=1, steer=None):
    steer = ferero.Steer(preference(), every=every).to(device) if steer is None else steer
    x = torch.zeros(3, dtype=torch.float64, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.05)
    for t in range(steps):
        F = quadratics(x)
        if t == steps // 2:
            steer.observe(c=F[2].item() + 0.1)
        loss = steer({"a": F[0], "b": F[1], "c": None if t % 5 == 4 else F[2]} if missing else F)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return x.detach().cpu(), steer


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("every", [1, 3])
def test_same_as_on_the_cpu(missing, every):
    on_cpu, _ = train("cpu", missing=missing, every=every)
    on_gpu, steer = train("cuda", missing=missing, every=every)
    assert torch.allclose(on_cpu, on_gpu, atol=1e-9)
    assert steer.weights.dtype == torch.float64
    assert steer._captured._graphs


def test_many_losses_and_copies():
    steer = ferero.Steer(ferero.Preference.ray(torch.ones(20))).cuda()
    x = torch.rand(20, device="cuda", requires_grad=True)
    for _ in range(10):
        steer(x.square() + 0.1).backward()
    twin = copy.deepcopy(steer)
    assert torch.equal(twin(x.square() + 0.1), steer(x.square() + 0.1))
    assert torch.equal(twin.multipliers, steer.multipliers)


def test_never_waits_for_the_device():
    steer = ferero.Steer(preference()).cuda()
    x = torch.zeros(3, device="cuda", requires_grad=True)
    for _ in range(10):
        steer(quadratics(x)).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            steer(quadratics(x)).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_not_finite_raises_a_few_steps_late_and_changes_nothing():
    _, steer = train("cuda")
    before = {name: buffer.clone() for name, buffer in steer.named_buffers()}
    x = torch.full((3,), torch.nan, device="cuda", requires_grad=True)
    steer(x * 1.0).backward()
    assert torch.equal(x.grad, torch.zeros_like(x))
    for name, buffer in steer.named_buffers():
        assert torch.equal(buffer, before[name]) or name == "record_skipped", name
    x = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(ferero.FereroError, match="not finite in 1 of the last 16 steps"):
        [steer(x * 1.0) for _ in range(40)]


def test_skips_what_is_not_finite():
    steer = ferero.Steer(preference(), on_nonfinite="skip").cuda()
    x = torch.ones(3, device="cuda", requires_grad=True)
    for _ in range(6):
        steer(x * 1.0)
    before = steer.multipliers.clone()
    steer(x * torch.tensor([1.0, torch.inf, 1.0], device="cuda"))
    assert torch.equal(steer.multipliers, before)
    assert steer.report().skipped == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_and_scaler(dtype):
    steer = ferero.Steer(preference()).cuda()
    model = torch.nn.Linear(8, 3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    data = torch.rand(64, 8, device="cuda")
    for _ in range(20):
        with torch.autocast("cuda", dtype=dtype):
            loss = steer(model(data).square().mean(0))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert torch.isfinite(steer.multipliers).all()


def test_inside_a_compiled_model():
    steer = ferero.Steer(preference()).cuda()
    x = torch.zeros(3, device="cuda", requires_grad=True)
    compiled = torch.compile(lambda x: steer(quadratics(x)))
    twin = copy.deepcopy(steer)
    for _ in range(10):
        loss = compiled(x)
        assert torch.allclose(loss, twin(quadratics(x)), atol=1e-5)
