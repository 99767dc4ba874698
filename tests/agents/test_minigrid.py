"""PPO learns MiniGrid: one small level here; in long tests, the ten levels of the suite with their presets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.ppo import PPO
from shoal.agents.presets import presets
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.rollouts.evaluate import evaluate
from shoal.studies.suite_file import suites

# Lowest success rate that each preset must reach.
PROMISED = dict.fromkeys(suites()["minigrid-10"]["envs"], 0.95)
PROMISED |= {"MiniGrid-Dynamic-Obstacles-5x5-v0": 0.9, "MiniGrid-FourRooms-v0": 0.7}


@pytest.mark.slow  # test_contract.py learns from small pictures, test_torsos.py from tiles
def test_ppo_learns_to_cross_an_empty_room():
    env = make("MiniGrid-Empty-5x5-v0")
    fields = {"num_envs": 16, "num_steps": 64, "learning_rate": 2e-3, "hidden": (32,), "shared": True}
    agent = to_arrays(PPO(**fields, horizon=30 * 1024, activation="relu").bind(env))

    @jax.jit
    def trained_return(key):
        state = agent.init(key, env)
        state, _ = jax.lax.scan(lambda s, clock: agent.update(s, env, clock), state, jnp.arange(30))
        policy = agent.policy_state(state)
        return evaluate(agent, policy, env, make_key(1), episodes=20, horizon=100).episode_return

    # The goal is five steps away: two forward, a turn, two forward.
    np.testing.assert_allclose(trained_return(make_key(0)), 1 - 0.9 * 5 / 100, atol=0.02)


def test_every_level_of_the_suite_has_a_preset():
    known = presets("ppo")
    assert len(PROMISED) == 10 and all(name in known for name in PROMISED)
    for name in PROMISED:
        known[name].build().bind(make(name))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROMISED)
def test_presets_reach_their_recorded_success_rate_with_new_seeds(name, tmp_path):
    preset = presets("ppo")[name]
    result = shoal.train(
        preset.build(), name, steps=preset.steps, seed=77, seeds=4, root=tmp_path, figures=False, progress=False
    )
    greedy = shoal.evaluate(result.folder, episodes=200, seed=1).episode_return
    assert (greedy > 0).mean() >= PROMISED[name]
