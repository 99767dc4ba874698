"""Steps of a NAVIX environment with random actions, its own auto-reset, in one compiled scan.

It uses the observation of NAVIX that is most similar to MiniGrid's: `symbolic_first_person`, 7 x 7 x 3, in which walls
hide nothing and the carried object is not shown. Every observation is added to a checksum in its own dtype, which is
returned. With `--envs-last` the environments are the last axis of the checksum (see `step_shoal.py`).
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="Navix-DoorKey-8x8-v0")
parser.add_argument("--envs", type=int, default=2048)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--envs-last", action="store_true")
args = parser.parse_args()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import navix  # noqa: E402

env = navix.make(args.env, observation_fn=navix.observations.symbolic_first_person)


def folded(obs):
    """Observations as they are added to the checksum."""
    return jnp.moveaxis(obs, 0, -1) if args.envs_last else obs


def rollout(timestep, checksum, key):
    """Steps of all environments: the arguments of the next call."""
    k_actions, key = jax.random.split(key)
    actions = jax.random.randint(k_actions, (args.steps, args.envs), 0, len(env.action_set))

    def step(carry, action):
        timestep, checksum = carry
        timestep = jax.vmap(env.step)(timestep, action)
        return (timestep, checksum + folded(timestep.observation)), None

    (timestep, checksum), _ = jax.lax.scan(step, (timestep, checksum), actions)
    return timestep, checksum, key


def start():
    """The arguments of the first call."""
    key = jax.random.key(0)
    timestep = jax.vmap(env.reset)(jax.random.split(key, args.envs))
    return timestep, jnp.zeros_like(folded(timestep.observation)), key


first, _ = measure.compile_phases(start)
program, phases = measure.compile_phases(rollout, *jax.eval_shape(start))
measure.wait_for_turn()
carry = first()


def advance():
    """Run the program once, and wait for it."""
    global carry
    carry = jax.block_until_ready(program(*carry))


seconds = measure.repeat(advance, args.repeats)
measure.report(steps=args.envs * args.steps, checksum=float(carry[1].sum()), **phases, **seconds)
