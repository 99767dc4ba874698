"""`shoal check`: check an environment or an agent, mostly one's own, against the rules that shoal relies on."""

import argparse
from typing import Any

from shoal.cli.options import add_env
from shoal.cli.parser import Line, Named, Parser, full_path, whole_number

STEPS = 1_000  # random steps of each of two games
STEPS_OF_TRAIN = 64  # those that `check_env` takes by default, before a run


def check_parser() -> Parser:
    """The options of the command; the fields of the environment and of the agent are flags too."""
    parser = Parser("check", check, "ENV | AGENT ENV [options]", named=_named)
    parser.add_argument("what", nargs="?", default="", metavar="NAME", type=full_path, help="a name, or file.py:Class")
    add_env(parser, "where an agent is checked (CartPole-v1)")
    parser.add_argument(
        "--steps",
        type=whole_number,
        default=STEPS,
        metavar="N",
        help=f"random steps in each of two games in an environment (default {STEPS:,})",
    )
    return parser


def check(line: Line) -> None:
    """Check that an environment or an agent of your own follows the rules: shapes, types, spaces, random keys, and the
    same results in every way of calling it. It prints the first mistake, with file and line. `shoal train` checks an
    environment of your own before the first run after each change of its file.

      shoal check my_env.py:MyEnv
      shoal check my_env.py:MyEnv --env.size 9 --steps 10000
      shoal check my_agent.py:MyAgent CartPole-v1
    """
    from shoal.core.checks import check_env
    from shoal.core.registry import AGENTS, ENVS
    from shoal.rollouts.checks import check_agent
    from shoal.specs.settings import AgentEnv, apply
    from shoal.training.own_code import check_user_env, remember

    options = line.options
    if not options.what:
        raise ValueError("check needs an environment or an agent, as in `shoal check my_env.py:MyEnv`.")
    if options.steps < 1:
        raise ValueError(f"--steps {options.steps} must be at least 1.")
    if line.agent.sweep or line.env.sweep:
        raise ValueError("check takes one value for each field, not several.")
    env = ENVS[line.named["env"]].build(**line.env.fixed)
    if "agent" not in line.named:
        episodes = check_env(env, steps=options.steps)
        if options.steps >= STEPS_OF_TRAIN:  # a shorter check does not stand for that of `train`
            remember(env)
        limit = "no time limit" if env.limit_range is None else f"at most {env.limit_range[1]:g} steps"
        played = f"after {2 * options.steps:,} random steps, {episodes:,} episodes"
        spaces = f"observation {env.observation_space}, action {env.action_space}"
        print(f"{_short(options.what)} passes {played}: {spaces}, {limit}")
        return
    check_user_env(env)
    agent = apply(AgentEnv(AGENTS[line.named["agent"]].build(), env), line.agent.fixed).agent
    check_agent(agent, env)
    print(f"{_short(options.what)} passes in {_short(line.named['env'])}")


def _named(options: argparse.Namespace) -> Named:
    """The agent and the environment of the line: an agent if `what` is one, otherwise an environment alone."""
    if not options.what:
        return {}
    if _is_agent(options.what):
        return {"agent": options.what, "env": options.env or "CartPole-v1"}
    if options.env:
        name = _short(options.what)
        hint = f"write `shoal check {options.env} {name}`" if _is_agent(options.env) else "leave one of them out"
        raise ValueError(f"{name} is an environment, and only an agent can stand before another one: {hint}.")
    return {"env": options.what}


def _is_agent(name: str) -> bool:
    from shoal.core.registry import AGENTS, ENVS, REQUIRED_METHODS

    if ":" not in name:
        return name in AGENTS
    found: Any = None
    try:
        found = ENVS[name].cls
    except ImportError:
        raise
    except ValueError:
        found = AGENTS[name].cls  # raises if it is no agent either
    return not hasattr(found, REQUIRED_METHODS["env"])


def _short(name: str) -> str:
    """The name without the folders of its file."""
    file, colon, cls = name.rpartition(":")
    return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{cls}" if colon else name
