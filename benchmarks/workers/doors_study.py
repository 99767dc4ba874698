"""The search of Yasin Yousif's article "Speeding up Training of Model-Free RL": DQN on Doors in Gymnasium, with Optuna.

Each trial is the DQN of `dqn_hopt.py` in github.com/engyasin/ilsurvey, rewritten: 64 copies of Doors in a synchronous
vector environment, a network of 64 and 32 units in torch or in Flax, one gradient step every `train_frequency` steps
of all copies, a score after each of these. The score is the article's rolling reward per step: of all episodes that
end in one step, the sum of their returns divided by the sum of their lengths, and of these numbers the mean of the
newest 500. Faster than the article's: the replay buffer is a ring, where the article copies the whole buffer at every
step, and MLflow gets a point every 100 steps of all copies, where the article sends four at every step.

Without `--prune` the answer of the pruner is asked for but ignored, so that the time is that of whole trials.
"""

import argparse

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--network", choices=("torch", "flax"), default="torch")
parser.add_argument("--trials", type=int, default=2)
parser.add_argument("--steps", type=int, default=500_000, help="environment steps of a trial")
parser.add_argument("--threads", type=int, default=2, help="of torch")
parser.add_argument("--prune", action="store_true", help="end trials that the pruner ends")
parser.add_argument("--track", default="", metavar="URI", help="of an MLflow store; without it nothing is tracked")
args = parser.parse_args()

import contextlib  # noqa: E402
import copy  # noqa: E402
import logging  # noqa: E402
import warnings  # noqa: E402

import doors_gymnasium  # noqa: E402, F401 - registers Doors
import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import optuna  # noqa: E402
from gymnasium.wrappers import RecordEpisodeStatistics  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", module="gymnasium|optuna")

ENVS, DISCOUNT, LEARNING_STARTS, TARGET_PERIOD = 64, 0.99, 100, 200  # the last two in steps of all copies
EPSILON_START, EPSILON_END, EXPLORATION, NEWEST, POINT = 1.0, 0.05, 0.5, 500, 100
HIDDEN = (64, 32)
ITERATIONS = args.steps // ENVS


class Ring:
    """A ring of steps of all copies; the oldest are overwritten."""

    def __init__(self, rows, size):
        shape = (rows, ENVS)
        self.columns = [np.zeros((*shape, size), np.uint8), np.zeros((*shape, size), np.uint8)]
        self.columns += [np.zeros(shape, kind) for kind in (np.int64, np.float32, np.float32)]
        self.rows, self.written = rows, 0

    def add(self, *step):
        """Write one step of all copies."""
        for column, values in zip(self.columns, step, strict=True):
            column[self.written % self.rows] = values
        self.written += 1

    def sample(self, random, size):
        """Return a batch: observations, next observations, actions, rewards, terminations."""
        row, env = random.integers(min(self.written, self.rows), size=size), random.integers(ENVS, size=size)
        obs, after, *rest = (column[row, env] for column in self.columns)
        return obs.astype(np.float32), after.astype(np.float32), *rest


def torch_learner(size, actions, rate, optimizer, seed):
    """Return the functions of a Q-network in torch: act, learn, and let the target follow."""
    import torch
    from torch import nn

    torch.set_num_threads(args.threads)
    torch.manual_seed(seed)
    first, second = HIDDEN
    online = nn.Sequential(
        nn.Linear(size, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, actions)
    )
    target = copy.deepcopy(online)
    stepper = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](online.parameters(), lr=rate)

    def act(obs):
        with torch.no_grad():
            return online(torch.from_numpy(obs).float()).argmax(dim=1).numpy()

    def learn(batch):
        obs, after, action, reward, terminated = map(torch.from_numpy, batch)
        with torch.no_grad():
            goal = reward + DISCOUNT * target(after).max(dim=1).values * (1 - terminated)
        loss = nn.functional.mse_loss(online(obs).gather(1, action[:, None])[:, 0], goal)
        stepper.zero_grad()
        loss.backward()
        stepper.step()

    return act, learn, lambda: target.load_state_dict(online.state_dict())


def flax_learner(size, actions, rate, optimizer, seed):
    """Return the functions of a Q-network in Flax: act, learn, and let the target follow; two are compiled."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen as nn

    first, second = HIDDEN
    network = nn.Sequential([nn.Dense(first), nn.relu, nn.Dense(second), nn.relu, nn.Dense(actions)])
    stepper = {"adam": optax.adam, "sgd": optax.sgd}[optimizer](rate)
    weights = network.init(jax.random.PRNGKey(seed), jnp.zeros((1, size)))
    state = {"online": weights, "target": weights, "optimizer": stepper.init(weights)}

    @jax.jit
    def choose(weights, obs):
        return network.apply(weights, obs.astype(jnp.float32)).argmax(axis=1)

    @jax.jit
    def improve(online, target, moments, batch):
        obs, after, action, reward, terminated = batch
        goal = reward + DISCOUNT * network.apply(target, after).max(axis=1) * (1 - terminated)

        def loss(weights):
            chosen = jnp.take_along_axis(network.apply(weights, obs), action[:, None], axis=1)[:, 0]
            return jnp.mean((chosen - goal) ** 2)

        changes, moments = stepper.update(jax.grad(loss)(online), moments)
        return optax.apply_updates(online, changes), moments

    def learn(batch):
        state["online"], state["optimizer"] = improve(state["online"], state["target"], state["optimizer"], batch)

    def follow():
        state["target"] = state["online"]

    return lambda obs: np.asarray(choose(state["online"], obs)), learn, follow


def train(trial):
    """Train one trial, and return its rolling reward per step."""
    max_steps = trial.suggest_int("env.max_steps", 10, 17)
    rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)
    rows = trial.suggest_int("buffer_size", 128, 1024)
    batch_size = trial.suggest_int("batch_size", 16, 128)
    train_frequency = trial.suggest_int("train_frequency", 4, 24, log=True)
    optimizer = trial.suggest_categorical("optimizer", ["adam", "sgd"])
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: RecordEpisodeStatistics(gymnasium.make("Doors-v0", max_episode_steps=max_steps))] * ENVS,
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    size, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    learner = {"torch": torch_learner, "flax": flax_learner}[args.network]
    act, learn, follow = learner(size, actions, rate, optimizer, trial.number)
    random = np.random.default_rng(trial.number)
    buffer, scores, obs = Ring(rows, size), [0.0], envs.reset(seed=trial.number)[0]
    with tracked(trial) as track:
        for step in range(ITERATIONS):
            slope = (EPSILON_END - EPSILON_START) / (EXPLORATION * ITERATIONS)
            explores = random.random() < max(EPSILON_START + slope * step, EPSILON_END)
            action = random.integers(actions, size=ENVS) if explores else act(obs)
            after, reward, terminated, truncated, info = envs.step(action)
            over, true_after = terminated | truncated, after
            if over.any():
                episodes = info["final_info"]["episode"]
                scores.append(float(episodes["r"][over].sum() / episodes["l"][over].sum()))
                true_after = after.copy()
                true_after[over] = np.stack(info["final_obs"][over])
            buffer.add(obs, true_after, action, reward, terminated)
            obs = after
            if step > LEARNING_STARTS and step % train_frequency == 0:
                learn(buffer.sample(random, batch_size))
                if step % TARGET_PERIOD == 0:
                    follow()
            score = float(np.mean(scores[-NEWEST:]))
            if step % POINT == 0:
                track(score, step)
            trial.report(score, step)
            if trial.should_prune() and args.prune:
                envs.close()
                raise optuna.TrialPruned
    envs.close()
    return float(np.mean(scores[-NEWEST:]))


@contextlib.contextmanager
def tracked(trial):
    """Yield a function that sends a score to MLflow, in a run with the parameters of the trial."""
    if not args.track:
        yield lambda score, step: None
        return
    import mlflow

    with mlflow.start_run(run_name=f"trial {trial.number}", nested=True):
        mlflow.log_params(trial.params)
        yield lambda score, step: mlflow.log_metric("rolling_reward", score, step=step)


if args.track:
    import mlflow

    for name in ("mlflow", "alembic"):  # importing MLflow sets them
        logging.getLogger(name).setLevel(logging.WARNING)
    mlflow.set_tracking_uri(args.track)
    mlflow.set_experiment("doors")
pruner = optuna.pruners.HyperbandPruner(min_resource=max(1, round(ITERATIONS * 0.03)), max_resource=max(2, ITERATIONS))
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1), pruner=pruner)
import_s = measure.seconds_since_start()
study.optimize(train, n_trials=args.trials)
measure.report(
    trials=args.trials,
    steps=ITERATIONS * ENVS,
    import_s=import_s,
    trial_s=[trial.duration.total_seconds() for trial in study.trials],
    trained=[(trial.last_step or 0) / ITERATIONS for trial in study.trials],  # the part of a whole trial
    scores=[trial.value for trial in study.trials],
    best={"score": study.best_value, **study.best_params},
)
