"""The smallest settings that use every part of training, as Python arguments and as command-line flags."""

FIELDS = {"num_envs": 4, "num_steps": 16, "hidden": (8,)}
OPTIONS = {"steps": 256, "records": 4, "evaluations": 2, "eval_episodes": 3, "eval_max_steps": 20}
SILENT = {"progress": False, "figures": False}
SPEC = {  # of a run that is planned, six updates of 32 steps
    "agent": "ppo",
    "env": "CartPole-v1",
    "fields": {"num_envs": 2, "num_steps": 16, "hidden": (8,), "num_minibatches": 2, "num_epochs": 2},
    "steps": 6 * 32,
    "records": 3,
}


def as_flags(values):
    """`--num-envs 4 --hidden 8`, as words."""
    words = {name: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in values.items()}
    return [word for name, text in words.items() for word in (f"--{name.replace('_', '-')}", text)]


FLAGS = [*as_flags(FIELDS), *as_flags(OPTIONS), "--preset", "none", "--no-progress"]
