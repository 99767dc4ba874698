"""The peer: PureJaxRL's DQN (luchris429/purejaxrl, `dqn.py` at 31756b1), adapted to gymnax 1.0's six-value step.

Everything that determines its speed is kept: ten environments; flashbax's flat buffer; one gradient step of 128 samples
after every step of the ten, inside a `cond`; a reset sampled in every step by gymnax itself; `vmap` over seeds outside.
Its tracking and the statistics that it stores for every step are left out.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=50_000)
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument(
    "--threads", type=int, default=1, help="number of threads; each trains a part of the seeds with its own program"
)
args = parser.parse_args()

import flashbax  # noqa: E402
import flax.linen as nn  # noqa: E402
import gymnax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from flax.training.train_state import TrainState  # noqa: E402
from gymnax.wrappers.purerl import FlattenObservationWrapper, LogWrapper  # noqa: E402

import_s = measure.seconds_since_start()

NUM_ENVS, BUFFER, BATCH = 10, 10_000, 128
LEARNING_RATE, DISCOUNT = 2.5e-4, 0.99
EPSILON_START, EPSILON_END, EPSILON_STEPS = 1.0, 0.05, 250_000
LEARNING_STARTS, TRAINING_INTERVAL, TARGET_INTERVAL = 10_000, 10, 500
UPDATES = args.total_steps // NUM_ENVS


class QNetwork(nn.Module):
    """Two layers of 120 and 84 units."""

    actions: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.actions)(nn.relu(nn.Dense(84)(nn.relu(nn.Dense(120)(x)))))


class LearnerState(TrainState):
    """Weights and optimizer state, the weights of the target network, and the number of steps taken."""

    target: Any
    steps: int


base, params = gymnax.make(args.env)
env = LogWrapper(FlattenObservationWrapper(base))
network = QNetwork(env.action_space(params).n)
buffer = flashbax.make_flat_buffer(
    max_length=BUFFER, min_length=BATCH, sample_batch_size=BATCH, add_sequences=False, add_batch_size=NUM_ENVS
)


def act(key, worth, steps):
    k_action, k_explore = jax.random.split(key)
    epsilon = jnp.clip(EPSILON_START + (EPSILON_END - EPSILON_START) / EPSILON_STEPS * steps, EPSILON_END)
    best = jnp.argmax(worth, axis=-1)
    random = jax.random.randint(k_action, best.shape, 0, worth.shape[-1])
    return jnp.where(jax.random.uniform(k_explore, best.shape) < epsilon, random, best)


def learn(learner, stored, key):
    batch = buffer.sample(stored, key).experience
    after = jnp.max(network.apply(learner.target, batch.second["obs"]), axis=-1)
    target = batch.first["reward"] + (1 - batch.first["done"]) * DISCOUNT * after

    def loss(weights):
        worth = network.apply(weights, batch.first["obs"])
        chosen = jnp.take_along_axis(worth, batch.first["action"][:, None], axis=-1).squeeze(-1)
        return jnp.mean((chosen - target) ** 2)

    value, grads = jax.value_and_grad(loss)(learner.params)
    return learner.apply_gradients(grads=grads), value


def update(carry, _):
    learner, stored, env_state, last_obs, key = carry
    key, k_act, k_env, k_learn = jax.random.split(key, 4)
    action = act(k_act, network.apply(learner.params, last_obs), learner.steps)
    obs, env_state, reward, terminated, truncated, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
        jax.random.split(k_env, NUM_ENVS), env_state, action, params
    )
    learner = learner.replace(steps=learner.steps + NUM_ENVS)
    stored = buffer.add(stored, row(last_obs, action, reward, terminated | truncated))
    is_time = (learner.steps > LEARNING_STARTS) & (learner.steps % TRAINING_INTERVAL == 0)
    learner, _ = jax.lax.cond(
        buffer.can_sample(stored) & is_time,
        lambda learner, key: learn(learner, stored, key),
        lambda learner, key: (learner, jnp.array(0.0)),
        learner,
        k_learn,
    )
    learner = jax.lax.cond(
        learner.steps % TARGET_INTERVAL == 0,
        lambda learner: learner.replace(target=optax.incremental_update(learner.params, learner.target, 1.0)),
        lambda learner: learner,
        learner,
    )
    return (learner, stored, env_state, obs, key), info["returned_episode_returns"].mean()


def row(obs, action, reward, done):
    return {"obs": obs, "action": action, "reward": reward, "done": done}


def train(key):
    k_net, k_env, k_run = jax.random.split(key, 3)
    obs, env_state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(k_env, NUM_ENVS), params)
    one = row(obs[0], jnp.int32(0), jnp.float32(0), jnp.array(False))
    weights = network.init(k_net, obs[0])
    learner = LearnerState.create(
        apply_fn=network.apply,
        params=weights,
        target=jax.tree.map(jnp.copy, weights),
        tx=optax.adam(LEARNING_RATE),
        steps=0,
    )
    (learner, *_), returns = jax.lax.scan(update, (learner, buffer.init(one), env_state, obs, k_run), None, UPDATES)
    return learner.params, returns


def main():
    keys = jax.random.split(jax.random.PRNGKey(0), (args.threads, args.seeds // args.threads))
    program, phases = measure.compile_phases(jax.vmap(train), keys[0])
    measure.wait_for_turn()
    begin = measure.seconds_since_start()
    with ThreadPoolExecutor(args.threads) as pool:
        found = list(pool.map(lambda some: jax.block_until_ready(program(some)), keys))
    run_s = measure.seconds_since_start() - begin
    measure.report(
        steps=args.seeds * UPDATES * NUM_ENVS,
        import_s=import_s,
        run_s=run_s,
        last_return=float(jnp.stack([returns[:, -100:] for _, returns in found]).mean()),
        **phases,
    )


if __name__ == "__main__":
    main()
