"""Methods on a GPU: the same decisions as on the CPU, and no step waits for the device."""

import pytest
import torch

import ferero
from ferero.methods import Observation
from ferero.preference import Preference

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

METHODS = {
    "Ferero": ferero.Ferero(bound=10.0, solver="batched"),
    "FereroSA": ferero.FereroSA(gamma=0.1),
    "FereroPI": ferero.FereroPI(),
    "FereroQG": ferero.FereroQG(solver="batched"),
    "LinearScalarization": ferero.LinearScalarization(),
    "Tchebycheff": ferero.Tchebycheff(),
    "SmoothTchebycheff": ferero.SmoothTchebycheff(),
    "MGDA": ferero.MGDA(solver="batched"),
    "PMTL": ferero.PMTL(solver="batched"),
    "EPO": ferero.EPO(solver="batched"),
    "WCMGDA": ferero.WCMGDA(solver="batched"),
    "XWCMGDA": ferero.XWCMGDA(solver="batched"),
}


def observations(m, count, steps):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        J = torch.randn(count, m, m + 2, generator=generator, dtype=torch.float64)
        losses = 0.2 + torch.rand(count, m, generator=generator, dtype=torch.float64)
        yield losses, J @ J.mT, -torch.rand(count, m, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("m", [2, 6])
@pytest.mark.parametrize("name", METHODS)
def test_many_preferences_without_waiting(name, m):
    method, count = METHODS[name], 50
    rays = ferero.spread(m, count) + 0.1
    wanted = [Preference.pareto(m) if name == "MGDA" else Preference.ray(ray) for ray in rays]
    stack = Preference.stack(wanted)
    here, there = method.init(stack), method.init(stack)
    there = type(there)(**{name: value.cuda() for name, value in vars(there).items()})
    seen = [Observation(*parts) for parts in observations(m, count, 3)]
    copies = [Observation(o.losses.cuda(), o.gramian.cuda(), o.slopes.cuda()) for o in seen]
    method.update(stack, copies[0], there)  # what is cached for the device is made now
    for on_cpu, on_gpu in zip(seen, copies, strict=True):
        expected, here = method.update(stack, on_cpu, here)
        torch.cuda.set_sync_debug_mode("error")
        try:
            found, there = method.update(stack, on_gpu, there)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert found.weights.is_cuda
        torch.testing.assert_close(found.weights.cpu(), expected.weights, rtol=1e-5, atol=1e-6)
