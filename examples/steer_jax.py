"""A JAX training step: the compiled step takes the weights as arguments and returns the losses; ferero does the rest.

jax is no dependency of ferero: `pip install jax`.
"""

import jax
import jax.numpy as jnp

import ferero

f = ferero.objectives("left", "right")
controller = ferero.Controller(ferero.Preference(f, [f.left == 2 * f.right]))

key = jax.random.key(0)
inputs = jax.random.normal(jax.random.fold_in(key, 1), (512, 8))
targets = {name: inputs @ jax.random.normal(jax.random.fold_in(key, n), (8,)) for n, name in enumerate(f.names, 2)}


def losses(params, rows):
    output = inputs[rows] @ params
    return {name: jnp.mean((output - target[rows]) ** 2) for name, target in targets.items()}


@jax.jit
def train_step(params, weights, rows):
    def total(params):
        found = losses(params, rows)
        return sum(weights[name] * found[name] for name in found), found

    gradient, found = jax.grad(total, has_aux=True)(params)
    return params - 0.02 * gradient, found


params = jnp.zeros(8)
weights = dict.fromkeys(f.names, 0.5)
for step in range(400):
    rows = jax.random.randint(jax.random.fold_in(key, 100 + step), (64,), 0, 512)
    params, found = train_step(params, weights, rows)
    weights = controller.step(found)  # for the next step

print(controller.report())
found = losses(params, jnp.arange(512))
print(f"left over right, on all examples: {found['left'] / found['right']:.3f}")
