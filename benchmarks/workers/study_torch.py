"""The peer: the article's kind of search, with torch, Gymnasium and Optuna, one trial after another in one process.

Each trial is the DQN of `dqn_hopt.py` in github.com/engyasin/ilsurvey, rewritten: 64 copies of Doors in a synchronous
vector environment, a network of 64 and 32 units, one gradient step every `train_frequency` steps of all copies, a score
after each of these. Faster than the article's: the replay buffer is a ring, where the article copies the whole buffer
at every step, and nothing is sent to MLflow. The answer of the pruner is asked for but ignored, so that the time is
that of a whole trial.
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--trials", type=int, default=2)
parser.add_argument("--steps", type=int, default=500_000, help="environment steps of a trial")
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()

import warnings  # noqa: E402

import doors_gymnasium  # noqa: E402, F401 - registers Doors
import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import optuna  # noqa: E402
import torch  # noqa: E402
from gymnasium.wrappers import RecordEpisodeStatistics  # noqa: E402
from torch import nn  # noqa: E402

import_s = measure.seconds_since_start()
torch.set_num_threads(args.threads)
optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", module="gymnasium|optuna")

ENVS, DISCOUNT, LEARNING_STARTS, TARGET_PERIOD = 64, 0.99, 100, 200  # the last two in steps of all copies
EPSILON_START, EPSILON_END, EXPLORATION, NEWEST = 1.0, 0.05, 0.5, 500
ITERATIONS = args.steps // ENVS


class Ring:
    """A ring of steps of all copies; the oldest are overwritten."""

    def __init__(self, rows, size):
        shape = (rows, ENVS)
        self.columns = [np.zeros((*shape, size), np.uint8), np.zeros((*shape, size), np.uint8)]
        self.columns += [np.zeros(shape, kind) for kind in (np.int64, np.float32, np.float32)]
        self.rows, self.written = rows, 0

    def add(self, *step):
        for column, values in zip(self.columns, step, strict=True):
            column[self.written % self.rows] = values
        self.written += 1

    def sample(self, random, size):
        row, env = random.integers(min(self.written, self.rows), size=size), random.integers(ENVS, size=size)
        obs, after, *rest = (torch.from_numpy(column[row, env]) for column in self.columns)
        return obs.float(), after.float(), *rest


def network(size, actions):
    return nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, actions))


def learn(online, target, optimizer, batch):
    obs, after, action, reward, terminated = batch
    with torch.no_grad():
        goal = reward + DISCOUNT * target(after).max(dim=1).values * (1 - terminated)
    loss = nn.functional.mse_loss(online(obs).gather(1, action[:, None])[:, 0], goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(trial):
    max_steps = trial.suggest_int("env.max_steps", 10, 17)
    learning_rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)
    rows = trial.suggest_int("buffer_size", 128, 1024)
    batch_size = trial.suggest_int("batch_size", 16, 128)
    train_frequency = trial.suggest_int("train_frequency", 4, 24, log=True)
    optimizer_class = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[
        trial.suggest_categorical("optimizer", ["adam", "sgd"])
    ]
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: RecordEpisodeStatistics(gymnasium.make("Doors-v0", max_episode_steps=max_steps))] * ENVS,
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    size, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    online, target = network(size, actions), network(size, actions)
    target.load_state_dict(online.state_dict())
    optimizer, random = optimizer_class(online.parameters(), lr=learning_rate), np.random.default_rng(trial.number)
    buffer, scores, obs = Ring(rows, size), [0.0], envs.reset(seed=trial.number)[0]
    for step in range(ITERATIONS):
        slope = (EPSILON_END - EPSILON_START) / (EXPLORATION * ITERATIONS)
        if random.random() < max(EPSILON_START + slope * step, EPSILON_END):
            action = random.integers(actions, size=ENVS)
        else:
            with torch.no_grad():
                action = online(torch.from_numpy(obs).float()).argmax(dim=1).numpy()
        after, reward, terminated, truncated, info = envs.step(action)
        over, true_after = terminated | truncated, after
        if over.any():
            episodes = info["final_info"]["episode"]
            scores.append(float((episodes["r"][over] / episodes["l"][over]).mean()))
            true_after = after.copy()
            true_after[over] = np.stack(info["final_obs"][over])
        buffer.add(obs, true_after, action, reward, terminated)
        obs = after
        if step > LEARNING_STARTS and step % train_frequency == 0:
            learn(online, target, optimizer, buffer.sample(random, batch_size))
            if step % TARGET_PERIOD == 0:
                target.load_state_dict(online.state_dict())
        trial.report(np.mean(scores[-NEWEST:]), step)
        trial.should_prune()
    envs.close()
    return float(np.mean(scores[-NEWEST:]))


pruner = optuna.pruners.HyperbandPruner(min_resource=max(1, round(ITERATIONS * 0.03)), max_resource=max(2, ITERATIONS))
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1), pruner=pruner)
study.optimize(train, n_trials=args.trials)
seconds = [trial.duration.total_seconds() for trial in study.trials]
measure.report(
    trials=args.trials,
    steps=ITERATIONS * ENVS,
    import_s=import_s,
    trial_s=seconds,
    scores=[trial.value for trial in study.trials],
)
