"""The peer: PureJaxRL's PPO (luchris429/purejaxrl, `ppo.py` at 31756b1), adapted to gymnax 1.0's six-value step.

Everything that determines its speed is kept: actor, critic and log-probability inside the rollout scan; a reset sampled
in every step by gymnax itself; statistics of episodes returned for every step; advantages by a reversed scan unrolled
16 times; a sorted permutation of the whole batch each epoch; separate 64-64 tanh networks; optax's clip and Adam with a
linear schedule; `vmap` over seeds outside everything. Its debug print, a host callback, is left out, as its own
benchmark does; so are the entries that gymnax 1.0 added to `info`, which its scan would otherwise store.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=500_000)
parser.add_argument("--seeds", type=int, default=1)
parser.add_argument("--minatar", action="store_true", help="use the recipe's hyperparameters for MinAtar")
parser.add_argument("--block", type=int, default=0, help="report the returns of each seed in blocks of this many steps")
args = parser.parse_args()

import distrax  # noqa: E402
import flax.linen as nn  # noqa: E402
import gymnax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from flax.training.train_state import TrainState  # noqa: E402
from gymnax.wrappers.purerl import FlattenObservationWrapper, LogWrapper  # noqa: E402

import_s = measure.seconds_since_start()

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCHES = 4, 128, 4, 4
LEARNING_RATE, DISCOUNT, GAE_LAMBDA, CLIP = 2.5e-4, 0.99, 0.95, 0.2
ENTROPY_WEIGHT, VALUE_WEIGHT, MAX_GRAD_NORM = 0.01, 0.5, 0.5
if args.minatar:
    NUM_ENVS, MINIBATCHES, LEARNING_RATE = 64, 8, 5e-3
BATCH = NUM_ENVS * NUM_STEPS
UPDATES = args.total_steps // BATCH
LOGGED = ("discount", "returned_episode", "returned_episode_lengths", "returned_episode_returns")


class ActorCritic(nn.Module):
    """Two separate 64-64 networks."""

    actions: int
    activation: Callable = nn.relu if args.minatar else nn.tanh

    @nn.compact
    def __call__(self, x):
        def dense(width, scale):
            return nn.Dense(width, kernel_init=nn.initializers.orthogonal(scale))

        def tower():
            first, second = dense(64, np.sqrt(2)), dense(64, np.sqrt(2))
            return self.activation(second(self.activation(first(x))))

        actor, critic = tower(), tower()
        return distrax.Categorical(dense(self.actions, 0.01)(actor)), dense(1, 1.0)(critic).squeeze(-1)


class Step(NamedTuple):
    """One step of the rollout."""

    done: jax.Array
    action: jax.Array
    value: jax.Array
    reward: jax.Array
    log_prob: jax.Array
    obs: jax.Array
    info: dict


base, params = gymnax.make(args.env)
env = LogWrapper(FlattenObservationWrapper(base))
network = ActorCritic(env.action_space(params).n)


def learning_rate(count):
    """The learning rate after this many gradient steps."""
    return LEARNING_RATE * (1.0 - (count // (MINIBATCHES * EPOCHS)) / UPDATES)


def collect(train_state, env_state, obs, key):
    """A rollout: ((env states, observations, key), steps with leading axes [T, E])."""

    def step(carry, _):
        env_state, obs, key = carry
        key, k_act, k_env = jax.random.split(key, 3)
        policy, value = network.apply(train_state.params, obs)
        action = policy.sample(seed=k_act)
        log_prob = policy.log_prob(action)
        next_obs, env_state, reward, terminated, truncated, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            jax.random.split(k_env, NUM_ENVS), env_state, action, params
        )
        info = {name: info[name] for name in LOGGED}
        return (env_state, next_obs, key), Step(terminated | truncated, action, value, reward, log_prob, obs, info)

    return jax.lax.scan(step, (env_state, obs, key), None, NUM_STEPS)


def advantages_of(steps, last_value):
    """Generalised advantage estimates [T, E]."""

    def backward(carry, step):
        advantage, next_value = carry
        alive = 1 - step.done
        delta = step.reward + DISCOUNT * next_value * alive - step.value
        advantage = delta + DISCOUNT * GAE_LAMBDA * alive * advantage
        return (advantage, step.value), advantage

    return jax.lax.scan(backward, (jnp.zeros_like(last_value), last_value), steps, reverse=True, unroll=16)[1]


def loss(weights, steps, advantage, target):
    """PPO's loss of a minibatch, and its three parts."""
    policy, value = network.apply(weights, steps.obs)
    clipped = steps.value + (value - steps.value).clip(-CLIP, CLIP)
    value_loss = 0.5 * jnp.maximum((value - target) ** 2, (clipped - target) ** 2).mean()
    ratio = jnp.exp(policy.log_prob(steps.action) - steps.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy_loss = -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage).mean()
    entropy = policy.entropy().mean()
    return policy_loss + VALUE_WEIGHT * value_loss - ENTROPY_WEIGHT * entropy, (value_loss, policy_loss, entropy)


def minibatch_step(train_state, minibatch):
    """One gradient step."""
    losses, grads = jax.value_and_grad(loss, has_aux=True)(train_state.params, *minibatch)
    return train_state.apply_gradients(grads=grads), losses


def epoch(carry, _):
    """Gradient steps with all minibatches of a shuffled batch."""
    train_state, batch, key = carry
    key, k_shuffle = jax.random.split(key)
    order = jax.random.permutation(k_shuffle, BATCH)
    flat = jax.tree.map(lambda x: x.reshape(BATCH, *x.shape[2:]), batch)
    shuffled = jax.tree.map(lambda x: jnp.take(x, order, axis=0), flat)
    minibatches = jax.tree.map(lambda x: x.reshape(MINIBATCHES, -1, *x.shape[1:]), shuffled)
    train_state, losses = jax.lax.scan(minibatch_step, train_state, minibatches)
    return (train_state, batch, key), losses


def update(carry, _):
    """A rollout, and the epochs that learn from it."""
    train_state, env_state, obs, key = carry
    (env_state, obs, key), steps = collect(train_state, env_state, obs, key)
    advantage = advantages_of(steps, network.apply(train_state.params, obs)[1])
    batch = (steps, advantage, advantage + steps.value)
    (train_state, _, key), _ = jax.lax.scan(epoch, (train_state, batch, key), None, EPOCHS)
    return (train_state, env_state, obs, key), steps.info


def start(key):
    """Weights, optimizer and environments of one agent."""
    key, k_net, k_env, k_run = jax.random.split(key, 4)
    weights = network.init(k_net, jnp.zeros(env.observation_space(params).shape))
    rule = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.adam(learning_rate, eps=1e-5))
    train_state = TrainState.create(apply_fn=network.apply, params=weights, tx=rule)
    obs, env_state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(k_env, NUM_ENVS), params)
    return train_state, env_state, obs, k_run


def train(key):
    """The whole training of one agent: (weights, episodes of every step)."""
    (train_state, _, _, _), info = jax.lax.scan(update, start(key), None, UPDATES)
    return train_state.params, info


def blocks_of_seeds(ended, returns):
    """The mean returns [M, blocks] of the episodes that end in each block of steps."""
    shape = (args.seeds, -1, args.block)
    ended, returns = ended.reshape(shape), returns.reshape(shape)
    return (np.where(ended, returns, 0).sum(axis=2) / ended.sum(axis=2)).tolist()


def main():
    """Train, and report times and the learning curve."""
    keys = jax.random.split(jax.random.PRNGKey(30), args.seeds)
    program, phases = measure.compile_phases(jax.vmap(train), keys)
    measure.wait_for_turn()
    begin = measure.seconds_since_start()
    _, info = jax.block_until_ready(program(keys))
    run_s = measure.seconds_since_start() - begin
    ended, returns = np.asarray(info["returned_episode"]), np.asarray(info["returned_episode_returns"])  # [M, U, T, E]
    count, total = ended.sum(axis=(0, 2, 3)), np.where(ended, returns, 0).sum(axis=(0, 2, 3))  # of each update [U]
    curve = [((u + 1) * BATCH, run_s * (u + 1) / UPDATES, total[u] / count[u]) for u in np.flatnonzero(count)]
    last = ended[:, -20:]  # of the last 20 updates
    of_seeds = {"blocks_of_seeds": blocks_of_seeds(ended, returns)} if args.block else {}
    measure.report(
        steps=args.seeds * UPDATES * BATCH,
        import_s=import_s,
        run_s=run_s,
        last_return=float(np.mean(returns[:, -20:][last])),
        curve=[[int(steps), float(seconds), float(mean)] for steps, seconds, mean in curve],
        **of_seeds,
        **phases,
    )


if __name__ == "__main__":
    main()
