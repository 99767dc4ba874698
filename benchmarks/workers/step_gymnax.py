"""Steps of a gymnax environment with random actions, its own auto-reset, in one compiled scan.

Every observation is added to a checksum that is returned, so that XLA cannot leave it out; with `--trajectory` all
observations are written instead. Actions are sampled in bulk before the scan, which is faster here. Each environment
gets its own key in every step, as gymnax requires. With `--envs-last` the environments are the last axis of the
checksum.
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--envs", type=int, default=2048)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--repeats", type=int, default=5)
parser.add_argument("--trajectory", action="store_true")
parser.add_argument("--envs-last", action="store_true")
args = parser.parse_args()

import gymnax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

env, params = gymnax.make(args.env)
space = env.action_space(params)


def draw_actions(key, shape):
    """Random actions."""
    if hasattr(space, "n"):
        return jax.random.randint(key, shape, 0, space.n)
    return jax.random.uniform(key, shape + space.shape, minval=space.low, maxval=space.high)


def folded(obs):
    """Observations as they are added to the checksum."""
    return jnp.moveaxis(obs, 0, -1) if args.envs_last else obs


def rollout(obs, state, checksum, key):
    """Steps of all environments: (carry of the next call, trajectory or None)."""
    k_actions, key = jax.random.split(key)
    actions = draw_actions(k_actions, (args.steps, args.envs))

    def step(carry, action):
        state, checksum, key = carry
        key, k_step = jax.random.split(key)
        keys = jax.random.split(k_step, args.envs)
        obs, state, reward, terminated, truncated, _ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            keys, state, action, params
        )
        if args.trajectory:
            return (state, checksum, key), (obs, action, reward, terminated, truncated)
        return (state, checksum + folded(obs), key), None

    (state, checksum, key), trajectory = jax.lax.scan(step, (state, checksum, key), actions)
    return (obs, state, checksum, key), trajectory


def start():
    """The arguments of the first call."""
    key = jax.random.key(0)
    obs, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, args.envs), params)
    return obs, state, jnp.zeros_like(folded(obs)), key


first, _ = measure.compile_phases(start)
program, phases = measure.compile_phases(rollout, *jax.eval_shape(start))
measure.wait_for_turn()
carry = first()


def advance():
    """Run the program once, and wait for it."""
    global carry
    carry, _ = jax.block_until_ready(program(*carry))


seconds = measure.repeat(advance, args.repeats)
measure.report(steps=args.envs * args.steps, checksum=float(carry[2].sum()), **phases, **seconds)
