"""The peer: CleanRL's PPO recipe (vwxyzjn/cleanrl, `ppo.py`) rewritten with torch and Gymnasium's vector environment.

Everything that takes time is kept: four environments stepped one after the other by Python, one forward pass per step,
separate 64-64 tanh networks, 4 epochs of 4 shuffled minibatches of 128 samples, one Adam step each. Logging is left
out. With `--minatar` the hyperparameters are those of PureJaxRL's figure for MinAtar, with its limit of 1,000 steps and
without sticky actions; it needs the package MinAtar.
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=50_000)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--minatar", action="store_true", help="use the hyperparameters for MinAtar")
args = parser.parse_args()

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from gymnasium.wrappers import RecordEpisodeStatistics  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributions import Categorical  # noqa: E402

import_s = measure.seconds_since_start()
torch.set_num_threads(args.threads)

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCHES = 4, 128, 4, 4
LEARNING_RATE, DISCOUNT, GAE_LAMBDA, CLIP = 2.5e-4, 0.99, 0.95, 0.2
ENTROPY_WEIGHT, VALUE_WEIGHT, MAX_GRAD_NORM = 0.01, 0.5, 0.5
ACTIVATION, SETTINGS = nn.Tanh, {}
if args.minatar:
    import minatar.gym  # registers its environments

    minatar.gym.register_envs()
    NUM_ENVS, MINIBATCHES, LEARNING_RATE, ACTIVATION = 64, 8, 5e-3, nn.ReLU
    SETTINGS = {"max_episode_steps": 1000, "sticky_action_prob": 0.0}
BATCH = NUM_ENVS * NUM_STEPS
UPDATES = args.total_steps // BATCH


def dense(width_in, width_out, scale=2**0.5):
    """A layer with orthogonal weights."""
    layer = nn.Linear(width_in, width_out)
    nn.init.orthogonal_(layer.weight, scale)
    nn.init.zeros_(layer.bias)
    return layer


def tower(width_in, width_out, scale):
    """A network with two hidden layers."""
    return nn.Sequential(dense(width_in, 64), ACTIVATION(), dense(64, 64), ACTIVATION(), dense(64, width_out, scale))


envs = gymnasium.vector.SyncVectorEnv(
    [lambda: RecordEpisodeStatistics(gymnasium.make(args.env, **SETTINGS))] * NUM_ENVS,
    autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
)
size = int(np.prod(envs.single_observation_space.shape))
actor, critic = tower(size, envs.single_action_space.n, 0.01), tower(size, 1, 1.0)
weights = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE, eps=1e-5)


def as_input(obs):
    """Observations [E, ...] as flat vectors."""
    return torch.as_tensor(obs, dtype=torch.float32).flatten(1)


def collect(obs, done, returns):
    """A rollout: (observations, ends, rows by name [T, E]); `returns` gets those of ended episodes."""
    rows = {name: [] for name in ("obs", "action", "log_prob", "value", "reward", "done")}
    for _ in range(NUM_STEPS):
        with torch.no_grad():
            policy = Categorical(logits=actor(obs))
            action = policy.sample()
            rows["log_prob"].append(policy.log_prob(action))
            rows["value"].append(critic(obs).squeeze(-1))
        rows["obs"].append(obs)
        rows["action"].append(action)
        rows["done"].append(done)
        after, reward, terminated, truncated, info = envs.step(action.numpy())
        rows["reward"].append(torch.as_tensor(reward, dtype=torch.float32))
        obs, done = as_input(after), torch.as_tensor(terminated | truncated, dtype=torch.float32)
        if "final_info" in info:
            episode = info["final_info"]["episode"]
            returns.extend(episode["r"][episode["_r"]] if "_r" in episode else episode["r"])
    return obs, done, {name: torch.stack(column) for name, column in rows.items()}


def advantages_of(rows, obs, done):
    """Generalised advantage estimates [T, E]."""
    with torch.no_grad():
        next_value = critic(obs).squeeze(-1)
    advantage, last = torch.zeros_like(rows["reward"]), 0.0
    for t in reversed(range(NUM_STEPS)):
        alive = 1.0 - (done if t == NUM_STEPS - 1 else rows["done"][t + 1])
        delta = rows["reward"][t] + DISCOUNT * next_value * alive - rows["value"][t]
        advantage[t] = last = delta + DISCOUNT * GAE_LAMBDA * alive * last
        next_value = rows["value"][t]
    return advantage


def learn(rows):
    """Gradient steps with all epochs and minibatches of a batch."""
    for _ in range(EPOCHS):
        for index in np.split(np.random.permutation(BATCH), MINIBATCHES):
            part = {name: column[index] for name, column in rows.items()}
            policy, value = Categorical(logits=actor(part["obs"])), critic(part["obs"]).squeeze(-1)
            ratio = (policy.log_prob(part["action"]) - part["log_prob"]).exp()
            advantage = (part["advantage"] - part["advantage"].mean()) / (part["advantage"].std() + 1e-8)
            policy_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            clipped = part["value"] + (value - part["value"]).clamp(-CLIP, CLIP)
            value_loss = 0.5 * torch.max((value - part["target"]) ** 2, (clipped - part["target"]) ** 2).mean()
            loss = policy_loss + VALUE_WEIGHT * value_loss - ENTROPY_WEIGHT * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, MAX_GRAD_NORM)
            optimizer.step()


obs, done, returns, curve = as_input(envs.reset(seed=1)[0]), torch.zeros(NUM_ENVS), [], []
begin = measure.seconds_since_start()
for number in range(UPDATES):
    optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - number / UPDATES)
    before = len(returns)
    obs, done, rows = collect(obs, done, returns)
    rows["advantage"] = advantages_of(rows, obs, done)
    rows["target"] = rows["advantage"] + rows["value"]
    learn({name: column.flatten(0, 1) for name, column in rows.items()})
    if len(returns) > before:
        curve.append(((number + 1) * BATCH, measure.seconds_since_start() - begin, float(np.mean(returns[before:]))))
run_s = measure.seconds_since_start() - begin
last_return = float(np.mean(returns[-40:]))
measure.report(steps=UPDATES * BATCH, import_s=import_s, run_s=run_s, last_return=last_return, curve=curve)
