"""How well can one play a Bernoulli bandit whose arms are uniform in [0, 1]? Bounds for agents that learn to learn.

    python benchmarks/bandit_oracle.py [--arms 5] [--pulls 10 100] [--episodes 100000] [--run RUN ...]

Prints the mean reward of an episode under the Gittins index for the pulls that are left, Thompson sampling and chance,
and, where there are few enough counts to go through, of the best policy there is. Each run in `--run` (a folder of
`shoal train rl2 BernoulliBandit-v0 --env.arms independent ...`) is evaluated beside them.

Source: Gittins 1979; for a finite horizon Kaufmann 2018, "On Bayesian index policies for sequential resource
allocation", section 3. Duan et al. 2016, "RL^2", table 1, has the same arms.
"""

import argparse
from functools import cache
from typing import Any

import numpy as np


def gittins_table(horizon: int, grid: int = 1001) -> np.ndarray:
    """Indices [pulls left, successes, failures] of an arm with a uniform prior, to 1 / (grid - 1).

    The index is the price per pull at which an arm that may be left at any time, but within the pulls that are left,
    is worth nothing: where V(left, s, f) = max(0, p - price + p V(left - 1, s + 1, f) + (1 - p) V(left - 1, s, f + 1))
    first is 0, with p = (s + 1) / (s + f + 2).
    """
    price = np.linspace(0, 1, grid)
    successes, failures = np.meshgrid(np.arange(horizon), np.arange(horizon), indexing="ij")
    p = ((successes + 1) / (successes + failures + 2))[..., None]
    value = np.zeros((horizon + 1, horizon + 1, grid), np.float32)
    table = np.zeros((horizon + 1, horizon, horizon), np.float32)
    for left in range(1, horizon + 1):
        n = horizon - left + 1  # of more successes or failures no state with so many pulls left can be
        q = p[:n, :n]
        after = q * value[1 : n + 1, :n] + (1 - q) * value[:n, 1 : n + 1]
        value[:n, :n] = np.maximum(0, q - price + after)
        table[left, :n, :n] = price[np.minimum((value[:n, :n] > 1e-7).sum(axis=-1), grid - 1)]
    return table


def best_possible(arms: int, pulls: int) -> float:
    """Mean reward of an episode under the best policy, by going through all counts. For small numbers only."""

    @cache
    def value(counts: tuple[tuple[int, int], ...], left: int) -> float:
        if left == 0:
            return 0.0
        best = 0.0
        for i, (s, f) in enumerate(counts):
            if i and counts[i - 1] == counts[i]:
                continue
            p, rest = (s + 1) / (s + f + 2), counts[:i] + counts[i + 1 :]
            won = value(tuple(sorted((*rest, (s + 1, f)))), left - 1)
            lost = value(tuple(sorted((*rest, (s, f + 1)))), left - 1)
            best = max(best, p * (1 + won) + (1 - p) * lost)
        return best

    return value(((0, 0),) * arms, pulls)


def play(choose, arms: int, pulls: int, episodes: int, seed: int = 0) -> np.ndarray:
    """Rewards of episodes. `choose(successes, failures, left, random)` picks an arm in each of them."""
    random = np.random.default_rng(seed)
    means = random.random((episodes, arms))
    successes, failures = np.zeros((2, episodes, arms), np.int64)
    rows = np.arange(episodes)
    for t in range(pulls):
        arm = choose(successes, failures, pulls - t, random)
        won = random.random(episodes) < means[rows, arm]
        successes[rows, arm] += won
        failures[rows, arm] += ~won
    return successes.sum(axis=1)


def gittins(horizon: int):
    """A policy that pulls an arm of the largest index, the first of equals."""
    table = gittins_table(horizon)
    return lambda successes, failures, left, random: table[left, successes, failures].argmax(axis=1)


def thompson(successes, failures, left, random):
    """Pull the arm that is best in a world drawn from what is believed. Source: Thompson 1933."""
    return random.beta(successes + 1, failures + 1).argmax(axis=1)


def chance(successes, failures, left, random):
    """Any arm."""
    return random.integers(0, successes.shape[1], len(successes))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=5)
    parser.add_argument("--pulls", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--run", nargs="*", default=[], help="folders of runs, evaluated on the arms of their own")
    args = parser.parse_args()
    for pulls in args.pulls:
        policies = {"Gittins": gittins(pulls), "Thompson": thompson, "chance": chance}
        words = [f"{args.arms} arms, {pulls} pulls:"]
        for name, choose in policies.items():
            rewards = play(choose, args.arms, pulls, args.episodes)
            words.append(f"{name} {rewards.mean():.3f} +- {1.96 * rewards.std() / args.episodes**0.5:.3f},")
        if args.arms * pulls <= 50:
            words.append(f"best possible {best_possible(args.arms, pulls):.3f}")
        print(" ".join(words).rstrip(","))
    for folder in args.run:
        print(evaluated(folder, args.episodes))


def evaluated(folder: str, episodes: int) -> str:
    """How a run does on fresh bandits, against the Gittins index on as many arms and pulls."""
    import shoal

    policies = shoal.load_result(folder).policies
    env: Any = policies[0].env
    if env.arms != "independent":
        raise ValueError(f"{folder}: the arms are {env.arms}, and the index is for independent ones.")
    pulls = int(env.max_steps)
    bound = play(gittins(pulls), env.num_arms, pulls, episodes).mean()
    parts = []
    for word, greedy in (("greedy", True), ("sampled", False)):
        found = shoal.evaluate(folder, episodes=max(1, episodes // len(policies)), greedy=greedy, seed=1)
        mean = np.asarray(found.episode_return).reshape(len(policies), -1).mean(axis=1)
        parts.append(f"{word} {mean.mean():.3f}, {mean.mean() / bound:.1%} of Gittins (worst {mean.min() / bound:.1%})")
    return f"{folder}: {len(policies)} members, {'; '.join(parts)}"


if __name__ == "__main__":
    main()
