"""Reinforcement learning with a bound on a cost: a server that may work fast, but at most a third of the time.

Guests arrive at a queue. Slow service costs nothing, fast service costs energy. The policy, one probability of serving
fast for each length of the queue, is trained by policy gradients (REINFORCE): the queue is to be short, and the server
fast in at most 0.33 of all minutes. No gradient flows through the environment; ferero sees two numbers an iteration,
and its weights make one cost of the two.
"""

import numpy as np

import ferero

LONGEST, MINUTES, EPISODES, DISCOUNT = 8, 60, 64, 0.95
rng = np.random.default_rng(0)


def play(logits):
    """One batch of episodes: states, actions and the two costs, all (MINUTES, EPISODES)."""
    queue = rng.integers(0, LONGEST + 1, EPISODES)
    states, actions = np.zeros((2, MINUTES, EPISODES), dtype=int)
    for minute in range(MINUTES):
        fast = rng.random(EPISODES) < 1 / (1 + np.exp(-logits[queue]))
        states[minute], actions[minute] = queue, fast
        served = rng.random(EPISODES) < np.where(fast, 0.9, 0.4)
        arrived = rng.random(EPISODES) < 0.5
        queue = np.clip(queue - served + arrived, 0, LONGEST)
    return states, actions, {"queue": states / LONGEST, "energy": actions.astype(float)}


def to_go(costs):
    """Discounted sums of what is still to come, (MINUTES, EPISODES)."""
    sums = np.zeros_like(costs)
    for minute in reversed(range(MINUTES)):
        sums[minute] = costs[minute] + (DISCOUNT * sums[minute + 1] if minute + 1 < MINUTES else 0)
    return sums


f = ferero.objectives("queue", "energy")
controller = ferero.Controller(ferero.Preference(f, [f.energy <= 0.33], minimize=f.queue))
logits = np.zeros(LONGEST + 1)
for _ in range(600):
    states, actions, costs = play(logits)
    weights = controller.step({name: cost.mean() for name, cost in costs.items()})
    returns = to_go(sum(weights[name] * cost for name, cost in costs.items()))
    advantage = returns - returns.mean(axis=1, keepdims=True)
    score = actions - 1 / (1 + np.exp(-logits[states]))  # d log p(action) / d logit
    gradient = np.bincount(states.ravel(), (score * advantage).ravel(), LONGEST + 1) / actions.size
    logits -= 1.0 * gradient

print(controller.report())
shares = {name: np.mean([play(logits)[2][name].mean() for _ in range(30)]) for name in f.names}
print(f"energy {shares['energy']:.3f}, queue {LONGEST * shares['queue']:.2f} guests")
