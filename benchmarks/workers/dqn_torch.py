"""The peer: CleanRL's DQN recipe (vwxyzjn/cleanrl, `dqn.py`) rewritten with torch and Gymnasium's vector environment.

Everything that takes time is kept: one environment stepped by Python, a forward pass for every greedy action, a NumPy
ring buffer, a gradient step of 128 samples every ten steps, a copy of the weights every 500 steps. Logging is left out.
"""

import argparse
import random

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=50_000)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from gymnasium.wrappers import RecordEpisodeStatistics  # noqa: E402
from torch import nn  # noqa: E402

import_s = measure.seconds_since_start()
torch.set_num_threads(args.threads)

BUFFER, BATCH, LEARNING_RATE, DISCOUNT = 10_000, 128, 2.5e-4, 0.99
EPSILON_START, EPSILON_END, EPSILON_STEPS = 1.0, 0.05, 250_000
LEARNING_STARTS, TRAINING_INTERVAL, TARGET_INTERVAL = 10_000, 10, 500

envs = gymnasium.vector.SyncVectorEnv(
    [lambda: RecordEpisodeStatistics(gymnasium.make(args.env))],
    autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
)
SIZE, ACTIONS = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)


def network():
    return nn.Sequential(nn.Linear(SIZE, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, ACTIONS))


online, target = network(), network()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=LEARNING_RATE)
stored = {
    "obs": np.zeros((BUFFER, SIZE), np.float32),
    "next_obs": np.zeros((BUFFER, SIZE), np.float32),
    "action": np.zeros((BUFFER, 1), np.int64),
    "reward": np.zeros((BUFFER, 1), np.float32),
    "terminated": np.zeros((BUFFER, 1), np.float32),
}


def choose(obs, step):
    epsilon = max(EPSILON_START + (EPSILON_END - EPSILON_START) / EPSILON_STEPS * step, EPSILON_END)
    if random.random() < epsilon:
        return np.array([envs.single_action_space.sample()])
    return torch.argmax(online(torch.Tensor(obs)), dim=1).numpy()


def learn(filled):
    index = np.random.randint(0, filled, size=BATCH)
    batch = {name: torch.as_tensor(column[index]) for name, column in stored.items()}
    with torch.no_grad():
        best, _ = target(batch["next_obs"]).max(dim=1)
        goal = batch["reward"].flatten() + DISCOUNT * best * (1 - batch["terminated"].flatten())
    worth = online(batch["obs"]).gather(1, batch["action"]).squeeze()
    loss = nn.functional.mse_loss(goal, worth)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


obs, returns = envs.reset(seed=1)[0], []
begin = measure.seconds_since_start()
for step in range(args.total_steps):
    action = choose(obs, step)
    after, reward, terminated, truncated, info = envs.step(action)
    is_over = terminated[0] or truncated[0]
    true_after = info["final_obs"][0] if is_over else after[0]
    if is_over:
        returns.append(float(info["final_info"]["episode"]["r"][0]))
    at = step % BUFFER
    for name, value in zip(stored, (obs[0], true_after, action, reward, terminated), strict=True):
        stored[name][at] = value
    obs = after
    if step > LEARNING_STARTS:
        if step % TRAINING_INTERVAL == 0:
            learn(min(step + 1, BUFFER))
        if step % TARGET_INTERVAL == 0:
            target.load_state_dict(online.state_dict())
run_s = measure.seconds_since_start() - begin
measure.report(steps=args.total_steps, import_s=import_s, run_s=run_s, last_return=float(np.mean(returns[-20:])))
