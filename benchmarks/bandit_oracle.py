"""Reference returns on a Bernoulli bandit whose arm probabilities are uniform in [0, 1], for agents such as RL^2.

    python benchmarks/bandit_oracle.py [--arms 5] [--pulls 10 100] [--episodes 100000] [--run RUN ...]

Prints the mean return of an episode of the Gittins index for the remaining pulls, of Thompson sampling and of random
actions, and, if the number of states is small enough to enumerate, of the optimal policy. Each run in `--run` (a folder
of `shoal train rl2 BernoulliBandit-v0 --env.arms independent ...`) is evaluated too.

Source: Gittins 1979; for a finite horizon Kaufmann 2018, "On Bayesian index policies for sequential resource
allocation", section 3. Duan et al. 2016, "RL^2", table 1, has the same arms.
"""

import argparse
from functools import cache
from typing import Any

import numpy as np


def gittins_table(horizon: int, grid: int = 1001) -> np.ndarray:
    """Indices [pulls left, successes, failures] of an arm with a uniform prior, with precision 1 / (grid - 1).

    The index is the smallest price per pull at which pulling the arm has the value 0, if one may stop at any time
    within the remaining pulls. Here p = (s + 1) / (s + f + 2) and

        V(left, s, f) = max(0, p - price + p V(left - 1, s + 1, f) + (1 - p) V(left - 1, s, f + 1)).
    """
    price = np.linspace(0, 1, grid)
    successes, failures = np.meshgrid(np.arange(horizon), np.arange(horizon), indexing="ij")
    p = ((successes + 1) / (successes + failures + 2))[..., None]
    value = np.zeros((horizon + 1, horizon + 1, grid), np.float32)
    table = np.zeros((horizon + 1, horizon, horizon), np.float32)
    for left in range(1, horizon + 1):
        n = horizon - left + 1  # successes and failures are below n with this number of pulls left
        q = p[:n, :n]
        after = q * value[1 : n + 1, :n] + (1 - q) * value[:n, 1 : n + 1]
        value[:n, :n] = np.maximum(0, q - price + after)
        table[left, :n, :n] = price[np.minimum((value[:n, :n] > 1e-7).sum(axis=-1), grid - 1)]
    return table


def best_possible(arms: int, pulls: int) -> float:
    """The mean return of the optimal policy, by dynamic programming over all counts. For small numbers only."""

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
    """Play episodes and return their returns. `choose(successes, failures, left, random)` chooses an arm in each."""
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
    """A policy that pulls the arm with the largest index; the first one if several are equal."""
    table = gittins_table(horizon)
    return lambda successes, failures, left, random: table[left, successes, failures].argmax(axis=1)


def thompson(successes, failures, left, random):
    """Sample a probability for each arm from its posterior, and pull the best arm. Source: Thompson 1933."""
    return random.beta(successes + 1, failures + 1).argmax(axis=1)


def chance(successes, failures, left, random):
    """Pull a random arm."""
    return random.integers(0, successes.shape[1], len(successes))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=5)
    parser.add_argument("--pulls", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--run", nargs="*", default=[], help="run folders, evaluated in their own environments")
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
    """A line with the returns of a run on fresh bandits, relative to the Gittins index with its arms and pulls."""
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
