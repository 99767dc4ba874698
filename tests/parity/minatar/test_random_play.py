"""A thousand random games here and in MinAtar: returns and lengths have the same distribution."""

import minatar
import numpy as np
import pytest
import scipy.stats

import shoal
from parity.minatar.replay import NAMES
from shoal.core.registry import make

GAMES, LONGEST = 1_000, 4_000
SIGNIFICANCE = 0.01 / (2 * len(NAMES))  # two numbers of each game


def played_there(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(returns, lengths) of whole games. Each game begins with a fresh environment."""
    their_env, rng, games = minatar.Environment(name), np.random.default_rng(0), []
    their_env.seed(0)
    for _ in range(GAMES):
        their_env.reset()
        their_env.last_action, total, steps, is_over = 0, 0.0, 0, False
        while not is_over:
            reward, is_over = their_env.act(int(rng.integers(6)))
            total, steps = total + reward, steps + 1
        games.append((total, steps))
    returns, lengths = zip(*games, strict=True)
    return np.array(returns), np.array(lengths)


def played_here(game: str) -> tuple[np.ndarray, np.ndarray]:
    """(returns, lengths) of the first game of each environment."""
    keep = ("terminated", "episode_return", "episode_length")
    done = shoal.rollout("random", make(f"MinAtar/{game}-v0"), key=1, num_steps=LONGEST, num_envs=GAMES, keep=keep)
    is_over = np.asarray(done["terminated"])
    assert is_over.any(axis=0).all()
    first = is_over.argmax(axis=0), np.arange(GAMES)
    return np.asarray(done["episode_return"])[first], np.asarray(done["episode_length"])[first]


@pytest.mark.long
@pytest.mark.parametrize("game", NAMES)
def test_random_games_end_as_minatars(game):
    theirs, ours = played_there(NAMES[game]), played_here(game)
    for what, there, here in zip(("returns", "lengths"), theirs, ours, strict=True):
        found = scipy.stats.ks_2samp(there, here, method="asymp")  # with ties it errs on the safe side
        means = f"mean {there.mean():.3f} there, {here.mean():.3f} here"
        assert found.pvalue > SIGNIFICANCE, f"{game} {what}: {means}; p = {found.pvalue:.2g}"
