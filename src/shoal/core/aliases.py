"""The words of other libraries, and what shoal has for each. There is no other such table.

They are from Stable-Baselines3, CleanRL, PureJaxRL, rejax, gymnax, Gymnasium, and the experiment trackers.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import NamedTuple

# Shoal's name -> those of other libraries. Of several names that may be meant the likeliest comes first; which of them
# exists depends on the agent.
ALIASES: dict[str, tuple[str, ...]] = {
    # Runs.
    "agent": ("algo",),
    "greedy": ("deterministic",),
    "devices": ("device",),
    "env": ("env_id", "env_name"),
    "name": ("exp_name", "run_name"),
    "env_fields": ("env_params",),
    "evaluations": ("eval_freq",),
    "folder": ("log_dir", "output_dir", "save_dir"),
    "root": ("log_dir", "output_dir", "save_dir"),
    "eval_episodes": ("n_eval_episodes",),
    "episodes": ("n_eval_episodes", "num_episodes"),
    "seeds": ("n_seeds", "num_seeds"),
    "steps": ("num_timesteps", "num_updates", "timesteps", "total_steps", "total_timesteps"),
    "progress": ("verbose",),
    "no_progress": ("verbose",),
    # Sizes.
    "num_minibatches": ("batch_size", "minibatch_size", "n_minibatches"),
    "batch_size": ("minibatch_size", "buffer_batch_size"),
    "num_envs": ("n_envs", "num_actors"),
    "num_epochs": ("n_epochs", "update_epochs"),
    "num_steps": ("n_steps", "rollout_length"),
    "n_step": ("n_steps",),
    # Learning.
    "policy_learning_rate": ("actor_lr", "policy_lr"),
    "learning_rate": ("actor_lr", "critic_lr", "lr", "q_lr"),
    "adam_eps": ("adam_epsilon",),
    "anneal": ("anneal_lr",),
    "clip": ("clip_coef", "clip_eps", "clip_epsilon", "clip_range", "clip_ratio"),
    "value_loss": ("clip_range_vf", "clip_vloss"),
    "value_coef": ("critic_coef", "vf_coef"),
    "entropy_coef": ("ent_coef", "entropy_coeff"),
    "alpha": ("ent_coef",),
    "gae_lambda": ("gae", "lam", "lambda", "lambda_"),
    "discount": ("gamma",),
    "max_grad_norm": ("grad_clip",),
    "q_lambda": ("lam", "lambda", "lambda_"),
    "normalize_advantage": ("norm_adv",),
    "normalize_observation": ("norm_obs",),
    "normalize_reward": ("norm_reward",),
    # Networks.
    "hidden": (
        *("fc_dim_size", "hidden_layer_sizes", "hidden_size", "hidden_sizes"),
        *("layer_sizes", "net_arch", "policy_kwargs"),
    ),
    "atoms": ("num_atoms", "n_atoms", "n_quantiles"),
    "num_critics": ("n_critics",),
    "dropped": ("top_quantiles_to_drop_per_net",),
    # Replay, targets and exploration.
    "temperature": ("autotune",),
    "double": ("ddqn",),
    "epsilon_end": ("end_e", "eps_end", "eps_finish", "exploration_final_eps"),
    "epsilon_start": ("eps_start", "exploration_initial_eps", "start_e"),
    "exploration": ("exploration_fraction",),
    "train_iterations": ("gradient_steps",),
    "buffer_size": ("memory_capacity", "replay_size"),
    "target_clip": ("noise_clip", "target_noise_clip"),
    "policy_delay": ("policy_frequency",),
    "target_noise": ("policy_noise", "target_policy_noise"),
    "target_mix": ("polyak", "tau"),
    "target_period": ("target_network_frequency", "target_update_freq", "target_update_interval"),
    "train_frequency": ("train_freq",),
    "learning_starts": ("training_starts",),
    # Evolution.
    "population_size": ("pop_size", "popsize"),
    "sigma": ("sigma_init",),
    # Environments.
    "mass_cart": ("masscart",),
    "mass_pole": ("masspole",),
    "max_steps": ("max_episode_steps", "max_steps_in_episode"),
    "n": ("num_stack", "stack_size"),
    "theta_threshold": ("theta_threshold_radians",),
}

# (another library's name, shoal's name) -> what the second means, where a value of the first is no value of it.
MINIBATCH = "A minibatch has num_envs x num_steps / num_minibatches samples."
MEANINGS = {
    ("batch_size", "num_minibatches"): MINIBATCH,
    ("minibatch_size", "num_minibatches"): MINIBATCH,
    ("eval_freq", "evaluations"): "It is the number of evaluations in the whole run.",
    ("num_updates", "steps"): "It is the number of environment steps of each member.",
}

# Arguments of `train` that other libraries keep among the hyperparameters of an agent.
TRAIN_ARGUMENTS = ("env", "steps", "seed", "seeds", "evaluations", "eval_episodes", "folder", "devices")

# Methods of Stable-Baselines3's models -> what to write instead.
OTHER_METHODS = {
    "learn": 'write result = shoal.train(agent, "CartPole-v1", steps=100_000)',
    "predict": "a policy, from shoal.load(folder) or result.policy(), is called: action = policy(observation)",
    "save": "a run writes its weights into its folder, result.folder; shoal.export writes one policy for others",
    "load": "write policy = shoal.load(folder)",
}

# Arguments of other libraries' training functions that `train` does not have -> what to write instead.
CALLBACK = (
    "sinks=[...] observes a run (docs/sinks.md), and selector=... stops it or changes its members (docs/selectors.md)"
)
STOPPING = "write a selector that ends the run, as docs/selectors.md shows"
TRACK = 'track="mlflow", "tensorboard" or "wandb" sends a run to a tracker (docs/tracking.md)'
WRAP = "wrap the environment before it is given to train, as in shoal.FrameStack(env, 4)"
CHECKPOINT = (
    "a run writes a checkpoint into its folder after each of records=N records, and keep_checkpoints=N keeps every Nth"
)
OTHER_ARGUMENTS = {
    "callback": CALLBACK,
    "callbacks": CALLBACK,
    "checkpoint_freq": CHECKPOINT,
    **dict.fromkeys(("early_stop", "early_stopping", "patience"), STOPPING),
    **dict.fromkeys(("logger", "mlflow", "tensorboard", "tensorboard_log", "wandb"), TRACK),
    **dict.fromkeys(
        ("project", "project_name", "wandb_project"), 'write track=shoal.Tracking("wandb", experiment="NAME")'
    ),
    "eval_env": "write shoal.evaluate(result.policy(), env) after training, for an environment that differs",
    "log_interval": "records=N sets the number of records, which are the points of the learning curves",
    "save_freq": CHECKPOINT,
    "wrapper": WRAP,
    "wrapper_class": WRAP,
    "wrappers": WRAP,
}

# Classes and functions of other libraries that shoal does not have -> what to write instead.
NORMALIZE = (
    "normalization is a field of ppo and of other agents: write PPO(normalize_observation=True), or on the command "
    "line --normalize-observation true"
)
IN_ONE_PROGRAM = "num_envs of the agent is the number of parallel environments, as in PPO(num_envs=8)"
RETURNS = "a run records the returns of all episodes by itself, in result.curves"
VIDEO = "write shoal.render(result.folder), or on the command line `shoal render RUN`"
OTHER_NAMES = {
    **dict.fromkeys(("NormalizeObservation", "NormalizeReward", "NormalizeVecObservation"), NORMALIZE),
    **dict.fromkeys(("NormalizeVecReward", "VecNormalize"), NORMALIZE),
    **dict.fromkeys(("AsyncVectorEnv", "DummyVecEnv", "SubprocVecEnv", "SyncVectorEnv", "VecEnv"), IN_ONE_PROGRAM),
    **dict.fromkeys(("make_vec", "make_vec_env"), IN_ONE_PROGRAM),
    **dict.fromkeys(("StopTrainingOnNoModelImprovement", "StopTrainingOnRewardThreshold"), STOPPING),
    **dict.fromkeys(("LogWrapper", "Monitor", "RecordEpisodeStatistics", "VecMonitor"), RETURNS),
    **dict.fromkeys(("RecordVideo", "VecVideoRecorder"), VIDEO),
    **dict.fromkeys(("BaseCallback", "CallbackList"), f"in shoal.train, {CALLBACK}"),
    "CheckpointCallback": CHECKPOINT,
    "EvalCallback": "shoal.train evaluates by itself, as often as evaluations=N says, in eval_episodes=N episodes",
    "VecFrameStack": "write shoal.FrameStack(env, 4), or on the command line --wrap FrameStack:n=4",
    "evaluate_policy": "write shoal.evaluate(policy, episodes=100)",
    "reproduce": "`python -m reproductions`, in the repository of shoal, measures published numbers again",
}

# Attributes of the results of other libraries -> what to write instead.
RESULT_METHODS = {
    "evaluate": "write shoal.evaluate(result.policy())",
    "learn": "write shoal.train(resume=result.folder), which continues a run that was stopped",
    "plot": 'the figures are in result.folder / "figures", and `shoal plot RUN` draws others',
    "predict": "write policy = result.policy(), and then action = policy(observation)",
    "render": "write shoal.render(result.folder)",
    "save": OTHER_METHODS["save"],
}

# Attributes of gymnax's environments -> what to write instead.
GYMNAX_CONSTANTS = 'constants are fields of the environment, as in shoal.make("CartPole-v1", gravity=5.0)'
GYMNAX_ATTRIBUTES = {
    "default_params": GYMNAX_CONSTANTS,
    "max_steps_in_episode": "write env.max_steps",
    "num_actions": "write env.action_space.n",
}

# Commands of other tools -> those of shoal.
OTHER_COMMANDS = {
    "benchmark": "bench",
    "complete": "completion",
    "diff": "compare",
    **dict.fromkeys(("example", "hello", "quickstart", "tutorial"), "demo"),
    **dict.fromkeys(("enjoy", "show", "view", "watch"), "play"),
    **dict.fromkeys(("evaluate", "test"), "eval"),
    "figure": "plot",
    **dict.fromkeys(("fit", "learn", "run", "sweep"), "train"),
    **dict.fromkeys(("gif", "video"), "render"),
    "info": "doctor",
    "list": "envs",
    "html": "report",
    "models": "zoo",
    "resume": "train --resume RUN",
    "validate": "check",
}

# Flags of other tools that have no counterpart here -> what to do instead.
BY_POSITION = (
    "the agent and the environment have no flag: write them after the command, as in `shoal train ppo Acrobot-v1`"
)
ON_GPU = "JAX uses a GPU if it finds one; `shoal doctor` lists the devices"
TRACKED = "`--track mlflow`, `--track tensorboard` or `--track wandb` also sends a run to a tracker"
IN_FOLDER = "a run always writes its weights and metrics into its folder, which --root and --name choose"
AS_VIDEO = "`shoal render RUN` makes GIFs of a finished run, `shoal play RUN` shows it in the terminal"
OTHER_FLAGS = {
    **dict.fromkeys(("agent", "algo", "algorithm", "env", "env-id", "env-name", "task"), BY_POSITION),
    **dict.fromkeys(("gpu", "cuda", "cpu", "device", "torch-deterministic"), ON_GPU),
    **dict.fromkeys(("save", "save-model", "save-path", "checkpoint-dir"), IN_FOLDER),
    **dict.fromkeys(("track", "wandb", "mlflow", "tensorboard", "tensorboard-log"), TRACKED),
    **dict.fromkeys(
        ("wandb-project", "wandb-project-name", "project"), "--experiment NAME is the project of a tracker"
    ),
    **dict.fromkeys(("early-stop", "early-stopping", "patience"), STOPPING),
    **dict.fromkeys(("render", "render-mode", "capture-video", "video"), AS_VIDEO),
    "callback": "sinks and selectors, which observe and change a run, are given in Python (docs/sinks.md)",
    "deterministic": "actions are greedy unless you add --sample",
    "quiet": "--no-progress prints only warnings until the end",
}

# Agents of other libraries -> what to train instead.
MASKED = "ppo uses the action mask of an environment by itself"
OTHER_AGENTS = {
    "ars": "es is an evolution strategy too",
    "cmaes": 'es has the strategies of evosax: es with strategy="Sep_CMA_ES"',
    "ddqn": "write dqn with double=True",
    "dueling": "write dqn with dueling=True",
    "impala": "ppo and a2c are the nearest that shoal has",
    "qrdqn": 'write dqn with head="quantile"',
    "maskableppo": MASKED,
    "per": "write dqn with prioritized=True",
    **dict.fromkeys(("ppolstm", "recurrentppo"), 'write ppo with memory="lstm"'),
    "ppornn": 'write ppo with memory="gru"',
    **dict.fromkeys(("reinforce", "vpg"), "a2c is the nearest that shoal has"),
    "trpo": "ppo is the nearest that shoal has",
}


class Suite(NamedTuple):
    """Environments of another library, in which shoal trains under another name."""

    pattern: str  # of their names there
    name: str  # that shoal has for them; `re.Match.expand` fills in the groups of the pattern
    example: str
    package: str  # that they need
    install: str
    about: str = ""


# Suites by their title.
OTHER_SUITES = {
    "Atari": Suite(
        r"^(?:ALE/|Atari/)(\w+?)(?:-v\d)?$|^(\w+?)(?:-ram)?(?:NoFrameskip|Deterministic)-v\d$|"
        r"^(Pong|Breakout|SpaceInvaders|Seaquest|Qbert|Asterix|Freeway)(?:-v\d)?$|^(?:ALE|Atari)$",
        r"gymnasium/ALE/\1\2\3-v5",
        "gymnasium/ALE/Pong-v5",
        "ale_py",
        "ale-py",
        " MinAtar's five games are small versions of Atari games: `shoal envs minatar`.",
    ),
    "MuJoCo": Suite(
        r"^(HalfCheetah|Hopper|Walker2d|Ant|Humanoid(?:Standup)?|Swimmer|Reacher|Pusher|Inverted(?:Double)?Pendulum)"
        r"(?:-v\d)?$|^MuJoCo$",
        r"gymnasium/\1-v5",
        "gymnasium/HalfCheetah-v5",
        "mujoco",
        "'gymnasium[mujoco]' imageio",
    ),
    "Box2D": Suite(
        r"^(LunarLander(?:Continuous)?|BipedalWalker(?:Hardcore)?|CarRacing)(?:-v\d)?$|^Box2D$",
        r"gymnasium/\1-v3",
        "gymnasium/LunarLander-v3",
        "Box2D",
        "'gymnasium[box2d]'",
    ),
    "Craftax": Suite(
        r"^(Craftax-[\w-]+)$|^Craftax$", r"craftax/\1", "craftax/Craftax-Symbolic-v1", "craftax", "'shoal[craftax]'"
    ),
    "NAVIX": Suite(r"^(Navix-[\w-]+)$|^Navix$", r"navix/\1", "navix/Navix-Empty-5x5-v0", "navix", "'shoal[navix]'"),
}


def meaning_of(name: str, meant: str) -> str:
    """The meaning of shoal's name in a sentence, where a value of the other `name` is no value of it; else empty."""
    return MEANINGS.get((_plain(name), _plain(meant)), "")


def instead_of(kind: str, name: str) -> str:
    """Sentences that say what to write instead of another library's agent or environment; empty for any other name."""
    if kind == "agent":
        remedy = OTHER_AGENTS.get(_plain(name).replace("_", ""), "")
        return f"Shoal has no agent of this name: {remedy}." if remedy else ""
    for title, suite in OTHER_SUITES.items() if kind == "env" else ():
        if found := re.search(suite.pattern, name, re.IGNORECASE):
            write = found.expand(suite.name) if found.lastindex else suite.example
            install = "" if find_spec(suite.package) else f" It needs another package: pip install {suite.install}."
            return f"It belongs to {title}: write {write}.{install}{suite.about}"
    return ""


def alias_of(name: str, known: Iterable[str]) -> str | None:
    """The name among `known` that means the same as another library's `name` (in any case, with - or _), or None."""
    plain = {_plain(other): other for other in known}
    return next((plain[ours] for ours, others in ALIASES.items() if _plain(name) in others and ours in plain), None)


def _plain(name: str) -> str:
    """A name of a field or a flag as a field is written: `batch_size` for `--batch-size`."""
    return name.lower().lstrip("-").replace("-", "_")
