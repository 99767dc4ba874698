"""The peer: NAVIX's own PPO (`navix.agents.ppo`) with its default hyperparameters, all seeds in one compiled program.

The observations are those of the figure in NAVIX's paper: the symbolic view of the agent, flattened.
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="Navix-Empty-Random-5x5-v0")
parser.add_argument("--total-steps", type=int, default=1_000_000)
parser.add_argument("--seeds", type=int, default=1)
args = parser.parse_args()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import navix  # noqa: E402
import numpy as np  # noqa: E402
from navix.agents.models import ActorCritic  # noqa: E402
from navix.agents.ppo import PPO, PPOHparams  # noqa: E402

import_s = measure.seconds_since_start()
env = navix.make(args.env, observation_fn=navix.observations.symbolic_first_person)
view, space = env.observation_fn, env.observation_space
env = env.replace(
    observation_fn=lambda state: jnp.ravel(view(state)),
    observation_space=space.replace(shape=(int(np.prod(space.shape)),)),
)
hparams = PPOHparams(budget=args.total_steps)
agent = PPO(hparams=hparams, network=ActorCritic(action_dim=len(env.action_set)), env=env)
keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(args.seeds))
program, phases = measure.compile_phases(jax.vmap(agent.train), keys)
measure.wait_for_turn()
begin = measure.seconds_since_start()
jax.block_until_ready(program(keys))
run_s = measure.seconds_since_start() - begin
batch = hparams.num_envs * hparams.num_steps
steps = args.seeds * (args.total_steps // batch) * batch
measure.report(steps=steps, import_s=import_s, run_s=run_s, **phases)
