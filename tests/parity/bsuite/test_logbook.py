"""The logbook against bsuite's Logging wrapper: the same rows at the same episodes, and files that bsuite loads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments import catch
from bsuite.experiments.catch import analysis
from bsuite.logging import csv_load
from bsuite.utils.wrappers import Logging, RewardNoise

from parity.bsuite.replay import assert_replays, play, row
from shoal.core.keys import make_key
from shoal.envs.bsuite.bandit import SimpleBandit
from shoal.envs.bsuite.catch import Catch
from shoal.envs.bsuite.logbook import Logbook, logbooks_in
from shoal.envs.bsuite.memory_chain import MemoryChain
from shoal.envs.bsuite.reward_noise import RewardNoise as OurRewardNoise
from shoal.envs.bsuite.reward_scale import RewardScale
from shoal.envs.bsuite.scores import Log, score
from shoal.studies.bsuite import write_csv


class Rows(list):
    write = list.append


def logged(limit=300, steps=4_000):
    env = Logbook.over([OurRewardNoise(Catch(), scale) for scale in (0.1, 3.0)], limit).replace(setting=1)
    seen = play(env, steps)
    rows = Rows()
    theirs = Logging(RewardNoise(catch.Catch(), 3.0), rows)

    def put_noise(queue, noise, before, done):
        queue.put("randn", float(noise[0]))

    theirs._env._rng = None
    assert_replays(
        Both(theirs), seen, lambda queue, state: queue.put("randint", state.inner.ball), put_noise, rtol=1e-6, atol=1e-6
    )
    return env.read(row(seen.after, -1), {"noise_scale": 3.0}), [r for r in rows if r["episode"] <= limit]


class Both:
    """bsuite's logging environment, whose two generators are replaced by one queue."""

    def __init__(self, logging):
        self.logging = logging
        self.raw_env = self

    @property
    def _rng(self):
        return None

    @_rng.setter
    def _rng(self, queue):
        self.logging._env._rng = self.logging._env._env._rng = queue

    def __getattr__(self, name):
        return getattr(self.logging, name)


def test_the_log_of_an_environment_equals_that_of_bsuite_row_for_row():
    ours, theirs = logged()
    assert len(theirs) == 29 and set(ours.columns) == set(theirs[0])
    for name, column in ours.columns.items():
        np.testing.assert_allclose(column, [r[name] for r in theirs], rtol=1e-5, atol=1e-4, err_msg=name)


def test_nothing_is_logged_after_the_last_episode():
    ours, _ = logged(limit=100, steps=2_000)
    assert ours.episode[-1] == 100


def test_bsuite_loads_the_files_and_gives_the_same_score(tmp_path):
    seen = play(Logbook.over([Catch()], 200), 1_000)
    log = Logbook.over([Catch()], 200).read(row(seen.after, -1), {})
    write_csv(tmp_path / "logs" / "bsuite_id_-_catch-0.csv", log)
    frame, _ = csv_load.load_bsuite(str(tmp_path / "logs"))
    assert list(frame.bsuite_id.unique()) == ["catch/0"]
    np.testing.assert_allclose(score("catch", [log]), analysis.score(frame), rtol=1e-6)


def test_a_setting_selects_its_environment():
    book = Logbook.over([MemoryChain(length) for length in (1, 4)], 10)
    for setting, length in enumerate((1, 4)):
        assert book.replace(setting=setting).selected.memory_length == length
    assert book.reset_every == 2 and book.env.longest_episode == 5


def test_environments_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="differ in traced fields only"):
        Logbook.over([MemoryChain(2, 1), MemoryChain(2, 2)], 10)


def test_a_logbook_is_found_anywhere_in_an_agent_state():
    state = jax.eval_shape(Logbook.over([Catch()], 10).init, jax.random.key(0))
    assert logbooks_in({"worlds": (state, 3)}) == [state]
    assert isinstance(Log({}, {"episode": np.arange(3)}).first(1).episode, np.ndarray)


def test_a_long_sum_of_rewards_does_not_drift():
    # bsuite's sums are doubles. In single precision 300,000 + 0.9 is 300,000.906, every time.
    bandit = SimpleBandit()
    env = Logbook.over([RewardScale(bandit, 0.9)], 10)
    best = jnp.int32(np.argmax(bandit.order))
    state = jax.jit(env.init)(make_key(0)).replace(total_return=jnp.float32(300_000))
    step = jax.jit(lambda state: env.transition(state, best, None)[0])
    for _ in range(300):
        state = step(state)
    np.testing.assert_allclose(float(state.total_return), 300_270, atol=0.04)
