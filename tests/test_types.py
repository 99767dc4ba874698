"""Static types: the types that a type checker infers for public names, and errors for names that do not exist."""

import re
import subprocess
import sys
from pathlib import Path

import shoal

PROGRAM = """\
import shoal
from shoal import FrameStack
from typing_extensions import reveal_type

env = shoal.make("CartPole-v1", gravity=5.0)
reveal_type(env)
reveal_type(env.reset(shoal.make_key(0)))
reveal_type(FrameStack(env, n=4))
reveal_type(shoal.DQN(learning_rate=1e-3))
result = shoal.train(shoal.PPO(num_envs=8), env, steps=1_000)
reveal_type(result)
reveal_type(result.policy("best"))
reveal_type(shoal.evaluate("runs/first"))
reveal_type(shoal.load("zoo:ppo/CartPole-v1"))
reveal_type(shoal.__version__)
shoal.PPO(lr=1e-3)
shoal.DNQ
"""
TYPES = [
    "Env",
    "tuple[Any, State]",
    "FrameStack",
    "DQN",
    "Result",
    "Policy",
    "Evaluation",
    "Policy",
    "str",
]
MISTAKES = ['No parameter named "lr"', '"DNQ" is not a known attribute of module "shoal"']


def test_a_type_checker_infers_public_types_and_rejects_mistakes(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    source = Path(shoal.__file__).parents[1]
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{source}"]}}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "program.py"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    assert re.findall(r'information: Type of ".*" is "(.*)"', output) == TYPES, output
    assert re.findall(r"error: (.*) \(report", output) == MISTAKES, output
