"""CliffWalking: paths, the fall, the picture."""

import jax.numpy as jnp
import numpy as np

from environments import advance, init
from shoal.core.keys import make_key
from shoal.envs.toy_text.cliff_walking import CliffWalking

UP, RIGHT, DOWN, LEFT = range(4)


def test_the_path_along_the_cliff_has_return_minus_13():
    env = CliffWalking()
    state, total = init(env, make_key(0)), 0.0
    for action in [UP] + [RIGHT] * 11 + [DOWN]:
        state, reward, terminated, truncated, _ = advance(env, state, jnp.int32(action), None)
        total += float(reward)
    assert total == -13 and terminated and not truncated and state.index == 47


def test_a_fall_leads_back_to_the_start_without_ending_the_episode():
    env = CliffWalking(cliff_reward=-50.0)
    state, reward, terminated, *_ = advance(env, init(env, make_key(0)), jnp.int32(RIGHT), None)
    assert state.index == 36 and reward == -50 and not terminated


def test_the_picture_shows_the_position_of_the_agent():
    env = CliffWalking()
    state = init(env, make_key(0))
    start, later = env.render(state), env.render(state.replace(index=jnp.uint8(14)))
    assert start.shape == (256, 768, 3) and start.dtype == np.uint8
    changed = {tuple(cell) for cell in (np.argwhere((start != later).any(axis=-1)) // 64).tolist()}
    assert changed == {(3, 0), (1, 2)}
