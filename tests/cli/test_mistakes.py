"""A table of command-line mistakes, and the one-line message that each of them must give."""

import io
import shlex
import sys
import time
from functools import partial

import pytest

import shoal
from commands import MY_ENV, refused, say
from shoal.studies.bsuite import plan_bsuite, run_bsuite
from shoal.studies.study import StudyFolder
from shoal.tracking.events import Sinks
from shoal.tracking.progress import PlainLines
from shoal.training.folder import ZOO
from tiny import SILENT

TRAIN = "train ppo CartPole-v1"
LONGEST = 300  # characters of a message: three lines of a terminal

# A line, and a part of the message. Lines of `train` that start with a dash continue `train ppo CartPole-v1`.
COMMANDS = {
    "ppo CartPole-v1": "ppo is an agent, not a command: write `shoal train ppo CartPole-v1`.",
    "PPO": "PPO is an agent, not a command: write `shoal train ppo CartPole-v1`.",
    "CartPole-v1": "an environment, not a command: write `shoal train ppo CartPole-v1`, or `shoal envs CartPole-v1`",
    "my_env.py": "my_env.py is a file, not a command: to train in an environment of it",
    "runs/old": "runs/old is a run, not a command: write what to do with it, as in `shoal eval runs/old`",
    "trian": "unknown command 'trian'. Did you mean train or trials?",
    "Train ppo CartPole-v1": "unknown command 'Train'. Did you mean train?",
    "Tune ppo CartPole-v1": "unknown command 'Tune'. Did you mean tune?",
    "learn ppo CartPole-v1": "unknown command 'learn'. Did you mean `shoal train`?",
    "info CartPole-v1": "unknown command 'info'. Did you mean `shoal envs CartPole-v1`?",
    "info": "Did you mean `shoal doctor`?",
    "train ppo BabyAI-BossLevel-v0 --env.locked-room-prob half": "half is not a number. The default is 0.5",
    "train ppo BabyAI-GoToLocal-v0:published": "If published is a preset, train with --preset published",
    "test runs/old": "Did you mean `shoal eval`?",
    "evaluate runs/old": "Did you mean `shoal eval`?",
    "list": "Did you mean `shoal envs`?",
    "video runs/old": "Did you mean `shoal render`?",
    "resume runs/old": "Did you mean `shoal train --resume RUN`?",
    "reproduce doors --dry-run": "`python -m reproductions doors --dry-run`, in the repository of shoal.",
    "xyzzy": "unknown command 'xyzzy'. `shoal --help` lists all.",
    "-v": "or --version?",
    "--steps 1000 train ppo CartPole-v1": "--steps stands before the command: write the command first",
}
AGENTS_AND_ENVS = {
    "train": "train needs an agent and an environment, as in `shoal train ppo CartPole-v1`",
    "train ppo": "train needs an environment too, as in `shoal train ppo CartPole-v1`",
    "train CartPole-v1": "CartPole-v1 is an environment; the agent comes first: `shoal train ppo CartPole-v1`",
    "train CartPole-v1 ppo": "the agent comes first: `shoal train ppo CartPole-v1`",
    "train --algo ppo --env CartPole-v1": "the agent and the environment have no flag",
    "train pppo CartPole-v1": "agent 'pppo' is not registered. Did you mean ppo?",
    "train PPO CartPole-v1": "Did you mean ppo?",
    "train qrdqn CartPole-v1": 'Shoal has no agent of this name: write dqn with head="quantile"',
    "train ppo CartPole": "env 'CartPole' is not registered. Did you mean CartPole-v1 or CartPole-v0",
    "train ppo cartpole_v1": "Did you mean CartPole-v1? `shoal envs`",
    "train ppo Pong-v5": "env 'Pong-v5' is not registered. Did you mean PixelPong-v0",
    "train ppo ALE/Breakout-v5": "It belongs to Atari: write gymnasium/ALE/Breakout-v5.",
    "train ppo Pong": "env 'Pong' is not registered. Did you mean PixelPong-v0? It belongs to Atari",
    "envs atari": "ale-py. MinAtar's five games are small versions of Atari",
    "train ppo LunarLander-v2": "It belongs to Box2D: write gymnasium/LunarLander-v3.",
    "train ppo HalfCheetah-v4": "It belongs to MuJoCo: write gymnasium/HalfCheetah-v5.",
    "train ppo minigrid-empty": "Did you mean MiniGrid-Empty-8x8-v0 or MiniGrid-Empty-6x6-v0 or",
    "train 'ppo CartPole-v1'": "'ppo CartPole-v1' is one word in quotes: write `shoal train ppo CartPole-v1` without",
    "train ppo,dqn CartPole-v1": "train takes one agent at a time, not ppo,dqn: run it once for each.",
    "train ppo CartPole-v1,Acrobot-v1": "train takes one environment at a time",
    "train ppo CartPole-v1 Pendulum-v1": "unexpected argument 'Pendulum-v1': the command is `shoal train AGENT ENV",
    "train ppo CartPole-v1 --suite classic": "give an environment (CartPole-v1) or --suite classic, not both",
    "train ppo --suite clasic": "suite 'clasic' is not registered. Did you mean classic?",
    "train ppo --suite atari": "Suites are: classic, toy-text, minatar, minigrid-10, minigrid",
    "train ppo --suite no/such.toml": "no/such.toml does not exist: --suite needs a file, or the name of a suite",
    "train dqn --suite classic": "--skip-unfit trains in the other 3.",
    "train ppo CartPole-v1 --skip-unfit": "--skip-unfit is for --suite NAME",
    "suites clasic": "Did you mean classic?",
    "suites classic --steps 5": "--steps is of the runs that are measured: give --measure too",
    "train ppo --suite classic --env.gravity 5": "--env.gravity is not an option of shoal train",
    "train dqn Pendulum-v1": "dqn cannot play Pendulum-v1: it has one Q-value per action",
    "train bc CartPole-v1": "Give --demonstrations FILE, with a file that `shoal record RUN --out FILE` wrote",
    "train bc CartPole-v1 --demonstrations gone.npz": "gone.npz does not exist: `shoal record RUN --out gone.npz`",
}
FILES = {
    "train ppo my_env.py": "my_env.py is a file: name the class in it, my_env.py:MyEnv.",
    "train ppo my_env": "my_env is written as in Python: name the class in it, my_env.py:MyEnv.",
    "train ppo my_env.MyEnv": "name the class in it, my_env.py:MyEnv.",
    "train ppo my_env:MyEnv": "my_env is the file my_env.py: name the class in it, my_env.py:MyEnv.",
    "train ppo my_env.py:myenv": "my_env.py has no class 'myenv'. Did you mean MyEnv?",
    "train ppo my_env.py:Other": "my_env.py has no class 'Other'. It has MyEnv.",
    "train ppo gone.py:MyEnv": "gone.py does not exist",
    "train ppo broken.py:MyEnv": "broken.py:1: SyntaxError",
    "train ppo notes.txt": "notes.txt is a file, and no environment has this name",
    "train ppo empty": "empty is a folder, and no environment has this name",
    "train my_env.py:MyEnv CartPole-v1": "my_env.py:MyEnv is no agent but an environment",
    "train ppo shoal.agents.ppo:PPO": "PPO is no environment but an agent",
    "train ppo os.path:join": "os.path:join is no environment: name a class that has @struct above it",
    "train /dev/zero:X CartPole-v1": "module '/dev/zero' cannot be found",
    "train .:X CartPole-v1": "'.' is no module: write package.module:Class",
    "envs :": "'' is no module",
}
FLAGS = {
    "--total-timesteps 1000": "unknown flag --total-timesteps. Did you mean --steps?",
    "--total_timesteps=1000": "Did you mean --steps?",
    "--lr 1e-3": "Did you mean --learning-rate? `shoal train ppo CartPole-v1 --help` lists every flag.",
    "-lr 1e-3": "unknown flag -lr. Did you mean --learning-rate?",
    "--lerning-rate 1": "unknown flag --lerning-rate. Did you mean --learning-rate",
    "--gamma 0.9": "Did you mean --discount?",
    "--n-envs 4": "Did you mean --num-envs?",
    "--batch-size 64": "Did you mean --num-minibatches? A minibatch has num_envs x num_steps / num_minibatches",
    "--eval-freq 1000": "Did you mean --evaluations? It is the number of evaluations in the whole run.",
    "--callback my.py": "sinks and selectors, which observe and change a run, are given in Python",
    "--ent-coef 0": "Did you mean --entropy-coef?",
    "--net-arch 64,64": "Did you mean --hidden?",
    "--num-seeds 4": "Did you mean --seeds?",
    "--output-dir x": "Did you mean --root?",
    "--verbose": "Did you mean --no-progress?",
    "--gravity 5": "Did you mean --env.gravity?",
    "--env.gravty 1": "unknown flag --env.gravty. Did you mean --env.gravity",
    "--env.max-episode-steps 5": "Did you mean --env.max-steps",
    "--episodes 100": "the length of training is a number of environment steps, --steps N",
    "--gpu": "JAX uses a GPU if it finds one; `shoal doctor` lists the devices",
    "--wandb": "or `--track wandb` also sends a run to a tracker",
    "--tensorboard-log x": "`--track tensorboard`",
    "--patience 3": "write a selector that ends the run",
    "--capture-video": "`shoal render RUN` makes GIFs of a finished run",
    "--no-shared": "Did you mean --shared false?",
    "--shared": "--shared needs a value: --shared true or --shared false.",
    "--buffer-size 100": "ppo has no such hyperparameter. These agents have: c51, crossq, ddpg, dqn",
    "--learning-rate": "--learning-rate needs a value, or several separated by commas. The default is 0.00025.",
    "--learning-rate = 1e-3": "Write --learning-rate=1e-3, without spaces around the equals sign.",
    "--learning-rate= 1e-3": "Write --learning-rate=1e-3, without spaces around the equals sign.",
    "learning_rate=1e-3": "unexpected argument 'learning_rate=1e-3'. Did you mean --learning_rate=1e-3?",
    "--learning-rate 1e-3, 1e-4": "Several values have commas and no spaces: --learning-rate 1e-3,1e-4.",
    "--hidden 64 64": "unexpected argument '64' after --hidden 64. Several values have commas",
    "--steps 1 --steps 2": "--steps is given twice: write it once",
    "--dry-run=yes": "--dry-run takes no value",
    "--steps": "--steps: a value is missing. `--steps N`: environment steps of each member",
    "--": "unknown flag --.",
}
VALUES = {
    "--steps many": "--steps: many is not a whole number. `--steps N`: environment steps of each member",
    "--steps 1,000,000": "1,000,000 has commas, which separate values; write 1_000_000.",
    "--steps 0": "steps=0 must be at least 1",
    "--steps -5": "steps=-5 must be at least 1",
    "--steps 1e99": "--steps: 1e99 does not fit in 64 bits",
    "--steps 1e12 --records 2e9": "records=2000000000 must be at most 1,000,000",
    "--seeds 0": "seeds=0 must be at least 1",
    "--seeds 1.5": "--seeds: 1.5 is not a whole number. `--seeds N`: members for each setting",
    "--seeds 0,1,2": "--seeds: 0,1,2 is not a whole number, but several separated by commas. `--seeds N`: members",
    "--seeds 1e12": "members of",
    "--seed 99999999999999999999": "--seed: 99999999999999999999 does not fit in 64 bits",
    "--learning-rate -1e-3": "PPO.learning_rate=-0.001 is out of range: it must lie in [0, 1].",
    "--learning-rate 1e400": "--learning-rate 1e400 is too large",
    "--discount 1.5": "PPO.discount=1.5 is out of range: it must lie in [0, 1]",
    "--discount high": "--discount high is not a number. The default is 0.99.",
    "--num-envs 0": "num_envs=0 must be at least 1",
    "--num-envs 1.5": "--num-envs 1.5 is not a whole number",
    "--num-envs inf": "--num-envs inf is not a whole number",
    "--num-envs 1e30": "--num-envs 1e30 is too large",
    "--num-envs 4,,8": "--num-envs needs a value, or several separated by commas. The default is 4.",
    "--num-envs 2147483647 --num-steps 2147483647": "does not divide. Try 1",
    "--num-minibatches 5": "num_minibatches=5 does not divide. Try 2 or 4.",
    "--hidden 8.5": "--hidden 8.5 is not a list of whole numbers, as in 64,64",
    "--random 10_000_000": "10,000,000 settings are more than the 20,000 that one run can have",
    "--hidden 64,0": "hidden=(64, 0) has a layer without units",
    "--activation rlu": "activation='rlu' is unknown. Choose one of tanh, relu",
    "--surrogate x": "surrogate='x' is unknown. Choose one of clipped",
    "--shared maybe": "--shared maybe is not true or false",
    "--env.gravity high": "--env.gravity high is not a number. The default is 9.8.",
    "--env.gravity nan": "--env.gravity nan is not a number",
    "--env.integrator rk4": "integrator='rk4' is unknown. Choose 'euler' or 'semi-implicit'.",
    "--env.max-steps 9,0": "max_steps=0 is not a valid time limit: it must be a whole number",
    "--env.max-steps 99999999999": "--env.max-steps 99999999999 is too large",
    "--eval-max-steps 1e12": "eval_max_steps=1000000000000 must be at most",
    "--eval-episodes 0": "eval_episodes=0 must be at least 1",
    "--threads 1e9": "--threads 1000000000 must be from 1 to 1024",
    "--threads -4": "--threads -4 must be from 1",
    "--devices -1": "devices=-1 must not be negative",
    "--devices 99": "devices=99 were asked for, but this process has",
    "--memory-limit-gb -1": "the memory limit must not be negative",
    "--memory-limit-gb inf": "the memory limit of inf GB is not a size of up to",
    "--memory-limit-gb 1e-6": "more than the",
    "--memory-limit-gb 1e400": "--memory-limit-gb: 1e400 is too large",
    "--memory-limit-gb x": "--memory-limit-gb: x is not a number",
    "--prng dice": "prng='dice' is unknown. Choose one of: mix32",
    "--preset speedy": "ppo has no preset 'speedy' for CartPole-v1. It has: CartPole-v1, fast.",
    "--random 0": "random=0 must be at least 1",
    "--random 2 --search gamma=0.9..0.99": "PPO has no field 'gamma'. Did you mean discount?",
    "--init zoo:dqn/CartPole-v1": "do not fit this agent and environment: give the same kind of agent",
    "--init runs/gone": "runs/gone is not a run folder: it does not exist.",
    "--name old": "runs/old already holds a run. Continue it with `shoal train --resume runs/old`, or choose another",
    "--wrap frame_stack": "wrapper 'frame_stack' is not registered. Did you mean FrameStack?",
    "--wrap FrameStack(4)": "Did you mean FrameStack?",
    "--wrap VecFrameStack": "Did you mean FrameStack?",
    "--wrap VecNormalize": "'VecNormalize' is not registered: normalization is a field of ppo and of other agents",
}
RUNS = {
    "eval": "eval needs a run folder, as in `shoal eval runs/ppo-CartPole-v1`",
    "eval old": "old is not a run folder: it does not exist. Did you mean runs/old?",
    "eval runs/olt": "it does not exist. Did you mean runs/old?",
    "eval runs": "runs is not a run folder: it has no spec.json. It holds runs: runs/old.",
    "eval notes.txt": "notes.txt is not a run folder: it is a file.",
    "eval empty": "empty is not a run folder: it has no spec.json.",
    "eval CartPole-v1": "it is an environment. `shoal train ppo CartPole-v1` makes a run in it.",
    "eval ppo CartPole-v1": "unexpected argument 'CartPole-v1': the command is `shoal eval RUN [options]`",
    "eval zoo:ppo/CartPole": "the zoo has no 'ppo/CartPole'. Did you mean ppo/CartPole-v1",
    "eval zoo/ppo/CartPole-v1": "Did you mean zoo:ppo/CartPole-v1?",
    "eval zoo:ppo/CartPole-v1 --member 7": "member 7 does not exist",
    "eval zoo:ppo/CartPole-v1 --member -1": "--member -1 must be at least 0: members are numbered from 0.",
    "render zoo:ppo/CartPole-v1 --member -1": "--member -1 must be at least 0",
    "export zoo:ppo/CartPole-v1 --member -2": "--member -2 must be at least 0",
    "eval zoo:ppo/CartPole-v1 --member first": "--member first is unknown: give a number, `best` or `all`.",
    "eval zoo:ppo/CartPole-v1 --which worst": "--which 'worst' is unknown: choose last or best.",
    "eval zoo:ppo/CartPole-v1 --n-episodes 5": "Did you mean --episodes?",
    "eval zoo:ppo/CartPole-v1 --gravity 5": "Did you mean --env.gravity?",
    "eval zoo:ppo/CartPole-v1 --learning-rate 1": "a hyperparameter of training, which cannot change afterwards",
    "eval zoo:ppo/CartPole-v1 --deterministic": "actions are greedy unless you add --sample",
    "eval zoo:ppo/CartPole-v1 --env.integrator euler,semi-implicit": "a static field, which cannot be swept",
    "train --resume": "--resume: a value is missing. `--resume RUN`: continue the run in this folder",
    "train --resume runs/gone": "runs/gone is not a run folder: it does not exist.",
    "train --resume runs": "It holds runs: runs/old.",
    "train --resume runs/old --name new": "--name is for a new run; --resume continues runs/old as it is.",
    "train --spec gone.json": "gone.json does not exist: give a run folder",
    "train --spec notes.txt": "notes.txt is damaged or was not written by shoal: it is no JSON",
    "train dqn --spec runs/old": "--spec runs/old describes the whole run: leave dqn out.",
    "render": "render needs a run folder or an environment, as in `shoal render runs/ppo-CartPole-v1`",
    "render runs/gone": "runs/gone is not a run folder: it does not exist.",
    "render CartPol-v1": "env 'CartPol-v1' is not registered. Did you mean CartPole-v1",
    "render CartPole-v1 --member 2": "--member is for a run, but CartPole-v1 is an environment",
    "render CartPole-v1 --which best": "--which is for a run",
    "render CartPole-v1 --sample": "--sample is for a run",
    "render CartPole-v1 --max-steps -5": "--max-steps -5 must be at least 1",
    "render CartPole-v1 --env.gravity 1,2": "one environment is shown at a time: give one value.",
    "render CartPole-v1 --out a.png": "--out: a.png must end in .gif or .mp4. `--out FILE`: .gif or .mp4 (default",
    "render zoo:ppo/CartPole-v1 --out video": "--out: video must end in .gif or .mp4",
    "render CartPole-v1 --wrap FramStack": "Did you mean FrameStack?",
    "render zoo:ppo/CartPole-v1 --wrap FrameStack": "--wrap is for an environment, but zoo:ppo/CartPole-v1 is a run",
    "render zoo:ppo/CartPole-v1 --member 1,2": "--member 1,2 is unknown: give a number or `best`.",
    "render zoo:ppo/CartPole-v1 --members 0,x": "--members 0,x is unknown: give numbers separated by commas",
    "render zoo:ppo/CartPole-v1 --members 0,1": "member 1 does not exist: the population has members 0 to 0.",
    "render zoo:ppo/CartPole-v1 --members all --member 0": "--members of several in one file: give only one.",
    "render zoo:ppo/CartPole-v1 --columns 2": "give --members too, as in `--members all`.",
    "render zoo:ppo/CartPole-v1 --size 0": "--size 0 must be from 1 to 4,096.",
    "render CartPole-v1 --members all": "--members is for a run, but CartPole-v1 is an environment",
    "play": "play needs an environment or a run folder, as in `shoal play MiniGrid-DoorKey-8x8-v0`",
    "play Pendulum-v1": "Pendulum-v1 cannot be played with keys: its actions are Box",
    "play zoo:ppo/CartPole-v1 --speed 0": "--speed 0 must be from 1 to 1,000,000 steps per second",
    "plot": "plot needs a run folder, as in `shoal plot runs/ppo-CartPole-v1`",
    "plot runs": "It holds runs: runs/old.",
    "plot runs/old --out a.jpeg": "--out: a.jpeg must end in .png, .svg or .pdf. `--out FILE`: .png, .svg or .pdf",
    "plot runs/old --x time": "--x 'time' is unknown: choose steps or wall.",
    "compare": "compare needs run folders, as in `shoal compare runs/a runs/b`",
    "compare runs/old": "compare needs a second run folder",
    "compare runs/gone runs/old": "runs/gone is not a run folder: it does not exist.",
    "compare runs/old runs/old --metric mean": "--metric 'mean' is unknown: choose last, best or whole.",
    "record CartPole-v1": "it is an environment. `shoal train ppo CartPole-v1` makes a run in it.",
    "record babyai-bot": "record babyai-bot needs a level, as in `shoal record babyai-bot BabyAI-GoToLocal-v0`.",
    "record babyai-bot CartPole-v1": "the bot plays only BabyAI's levels without wrappers, not CartPole: name one",
    "record babyai-bot BabyAI-GoToLocal-v0 --sample": "--sample are for a run, and babyai-bot is none: leave them out.",
    "record babyai-bot BabyAI-GoToLocal-v0 --env.room-size 5,6": "one environment is shown at a time: give one value.",
    "record zoo:ppo/CartPole-v1 CartPole-v1": "'CartPole-v1' is left over: record needs one run, which has its own",
    "record zoo:ppo/CartPole-v1 --out demos": "--out: demos must end in .npz. `--out FILE`: the file to write",
    "record zoo:ppo/CartPole-v1 --steps few": "--steps: few is not a whole number. `--steps N`: steps to record",
    "export zoo:ppo/CartPole-v1 --member all": "--member all is unknown: give a number or `best`.",
    "export zoo:ppo/CartPole-v1 --out runs/old": "runs/old already holds a run",
}
OTHERS = {
    "envs CartPol-v1": "env 'CartPol-v1' is not registered. Did you mean CartPole-v1",
    "envs CartPole-v1 Acrobot-v1": "unexpected argument 'Acrobot-v1': the command is `shoal envs [ENV] [options]`",
    "envs --family atari": "there is no family 'atari'. There are: babyai, bsuite, classic",
    "envs --family minatar --actions continuous": "no environment is like that",
    "envs --observations pixels": "--observations 'pixels' is unknown: choose image, vector or parts.",
    "agents PPO": "agent 'PPO' is not registered. Did you mean ppo?",
    "agents my_env.py:MyEnv": "my_env.py:MyEnv is no agent but an environment",
    "bench gone": "env 'gone' is not registered",
    "bench runs/old": "runs/old is a folder, and no environment has this name",
    "bench CartPole-v1 --sizes few": "--sizes: few is not a list of whole numbers from 1",
    "bench CartPole-v1 --sizes 1e30": "is not a list of whole numbers from 1 to",
    "bench CartPole-v1 --seconds inf": "--seconds inf must lie between 0 and 3,600",
    "bench CartPole-v1 --policy ppo": "--policy 'ppo' is unknown: choose random or mlp.",
    "bench --wrap FrameStack": "--wrap needs an environment, as in `shoal bench CartPole-v1 --wrap FrameStack`",
    "bsuite": "bsuite needs an agent, as in `shoal bsuite ppo --quick`",
    "bsuite pppo": "agent 'pppo' is not registered. Did you mean ppo?",
    "bsuite CartPole-v1": "CartPole-v1 is an environment, not an agent.",
    "bsuite ppo catch": "unexpected argument 'catch'",
    "bsuite ppo --experiments catsh": "experiment 'catsh' is not registered. Did you mean catch",
    "bsuite ppo --experiments catch --num-minibatches 3": "does not divide",
    "bsuite q-learning --experiments catch": "q-learning cannot play bsuite/catch/0: a table needs observations",
    "bsuite ppo --episodes-scale 0": "must be above 0 and at most 1",
    "bsuite ppo --learning-rate 1e-3,1e-4": "learning_rate has several values",
    "bsuite ppo --num-envs 8": "unknown flag --num-envs",
    "bsuite ppo --resume runs/x": "--resume continues a run as it was started",
    "bsuite --resume=runs/x --quick": "--resume continues a run as it was started",
    "bsuite --resume": "--resume: a value is missing",
    "bsuite --resume runs/old": "runs/old is not a folder of `shoal bsuite`: it is a run. `shoal report runs/old`",
    "check": "check needs an environment or an agent, as in `shoal check my_env.py:MyEnv`",
    "check my_env.py": "my_env.py is a file: name the class in it, my_env.py:MyEnv.",
    "check gone.py:MyEnv": "gone.py does not exist",
    "check runs/old": "runs/old is a folder, and no environment has this name",
    "check my_env.py:MyEnv --steps 0": "--steps 0 must be at least 1",
    "check my_env.py:MyEnv --steps few": "--steps: few is not a whole number. `--steps N`: random steps",
    "check my_env.py:MyEnv --env.bonus 1,2": "check takes one value for each field, not several",
    "check my_env.py:MyEnv --bonus 1": "unknown flag --bonus. Did you mean --env.bonus?",
    "check my_env.py:MyEnv ppo": "write `shoal check ppo my_env.py:MyEnv`",
    "check my_env.py:MyEnv CartPole-v1": "only an agent can stand before another one: leave one of them out",
    "check ppo gone": "env 'gone' is not registered",
    "check ppo CartPole-v1 more": "unexpected argument 'more'",
    "doctor --fix": "unknown flag --fix. `shoal doctor --help` lists every flag.",
    "completion": "completion needs the name of a shell",
    "completion fish": "bash|zsh 'fish' is unknown: choose bash or zsh.",
    "zoo ppo": "unexpected argument 'ppo': the command is `shoal zoo`.",
}
CONTINUED = {f"{TRAIN} {words}": said for words, said in {**FLAGS, **VALUES}.items()}
TABLE = {**COMMANDS, **AGENTS_AND_ENVS, **FILES, **CONTINUED, **RUNS, **OTHERS}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with an environment file, a broken file, notes, an empty folder and an unfinished run."""
    monkeypatch.delitem(sys.modules, "my_env", raising=False)  # of another test, as its folder on the path
    monkeypatch.setattr(sys, "path", [part for part in sys.path if "pytest-" not in part])
    for name, text in (("my_env.py", MY_ENV), ("broken.py", "class MyEnv(:\n"), ("notes.txt", "to do\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    old = tmp_path / "runs" / "old"
    old.mkdir(parents=True)
    for name in ("spec.json", "provenance.json"):
        (old / name).write_bytes((ZOO / "ppo" / "CartPole-v1" / name).read_bytes())
    return tmp_path


@pytest.fixture
def _nothing_compiles(monkeypatch):
    """The programs of runs and of videos cannot be compiled: an AssertionError is no message of one line."""

    def compile_program(*_):
        raise AssertionError("compiled before the mistake was refused")

    for program in ("shoal.training.population.Population", "shoal.viz.videos.EpisodeRecorder"):
        monkeypatch.setattr(f"{program}.compile", compile_program)


@pytest.mark.usefixtures("_nothing_compiles")
@pytest.mark.parametrize("line", TABLE)
def test_a_mistake_ends_in_one_clear_line(line, folder, capsys):
    before = sorted(folder.rglob("*"))
    said = refused(capsys, *shlex.split(line))
    assert TABLE[line] in said
    assert len(said) <= LONGEST and str(folder) not in said
    assert [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts] == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--steps 1_000_000", "1,000,448 steps"),
        ("--steps 1e6", "1,000,448 steps"),
        ("--steps 1M", "1,000,448 steps"),
        ("--steps 1000k", "1,000,448 steps"),
        ("--learning_rate=1e-3", "learning_rate=0.001 "),
        ("--learning-rate [1e-3,1e-4]", "2 = 2 setting(s)"),
        ("--hidden '(8, 4)'", "hidden=(8, 4)"),
        ("--num-envs 4.0", "num_envs=4 "),
        ("--shared True", "shared=True"),
    ],
)
def test_unambiguous_variants_of_a_command_work(words, said, capsys):
    status, out, err = say(capsys, *shlex.split(f"{TRAIN} {words} --preset none --dry-run"))
    assert status == 0 and said in out, err


@pytest.mark.parametrize("line", ["help train", "-h train", "train -h", "train --help", "train ppo --help --steps x"])
def test_help_is_found_in_every_order(line, capsys):
    status, out, _ = say(capsys, *line.split())
    assert status == 0 and out.startswith("usage: shoal train AGENT ENV")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hidden", ",".join(["8"] * 301)], "hidden has 301 layers: at most 64 can be compiled in good time"),
        (["--num-envs", "9" * 5_000], f"--num-envs {'9' * 40}... is too large"),
        (["--steps", "9" * 5_000], f"--steps: {'9' * 40}... does not fit in 64 bits"),
        (["--seed", "-" + "9" * 5_000], f"--seed: -{'9' * 39}... does not fit in 64 bits"),
        (["--learning-rate", "9" * 5_000], f"--learning-rate {'9' * 40}... is too large"),
        (["--env.gravity", "9" * 400], "env.gravity"),
        ([f"--{name}={','.join(map(str, range(1, 201)))}" for name in ("learning-rate", "clip")], "40,000 settings"),
    ],
    ids=["layers", "static", "steps", "seed", "traced", "constant", "grid"],
)
def test_absurd_sizes_are_refused_at_once_in_words(words, said, capsys):
    began = time.process_time()
    message = refused(capsys, *TRAIN.split(), *words, "--preset", "none", "--dry-run")
    assert said in message and len(message) < 500 and time.process_time() - began < 10


def test_a_long_list_of_sizes_is_not_printed_whole(capsys):
    assert f"--sizes: {'9' * 40}... is not a list" in refused(capsys, "bench", "CartPole-v1", "--sizes", "9" * 5_000)


# Names, escape sequences, and files that end Python.

WRONG_NAMES = {
    "..": "leads to another folder",
    ".": "leads to another folder",
    "../../x": "leads to another folder",
    "a/b": "leads to another folder",
    "/tmp/x": "leads to another folder",
    "a\\b": "leads to another folder",
    " ": "it is empty",
    "a\nb": "characters that cannot be shown",
    "\x1b[31mred": "characters that cannot be shown",
    "a\u202eb": "characters that cannot be shown",
    "n" * 300: "longer than 200 bytes",
    "é" * 150: "longer than 200 bytes",
    "nul": "Windows reserves it",
    "COM1.txt": "Windows reserves it",
}


NAMED = (
    f"{TRAIN} --dry-run",
    "tune ppo CartPole-v1 --trials 2",
    "evolve ppo CartPole-v1 --vary learning-rate=1e-4..1e-2",
    "train ppo --suite classic",
)


@pytest.mark.usefixtures("_nothing_compiles")
@pytest.mark.parametrize(
    ("line", "name"),
    [
        *((TRAIN, name) for name in WRONG_NAMES),
        *((line, name) for line in NAMED for name in ("../../x", "\x1b[31mred")),
    ],
)
def test_a_name_is_that_of_one_folder(line, name, folder, capsys):
    before = sorted(folder.parent.rglob("*"))
    said = refused(capsys, *shlex.split(line), "--name", name)
    assert WRONG_NAMES[name] in said and "\x1b" not in said
    assert sorted(folder.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["..", "/tmp/x", "nul"])
def test_a_name_in_python_is_that_of_one_folder(name, folder):
    train = partial(shoal.train, "ppo", "CartPole-v1", steps=256, **SILENT)
    doors = {
        "train": lambda: train(name=name),
        "train_all": lambda: shoal.train_all("ppo", ["CartPole-v1"], steps=256, name=name),
        "tune": lambda: shoal.tune("ppo", "CartPole-v1", trials=1, name=name),
        "a worker of a study": lambda: StudyFolder("runs/study").worker(name),
        "evolve": lambda: shoal.evolve("ppo", "CartPole-v1", vary={"learning_rate": (1e-4, 1e-2)}, name=name),
        "bsuite": lambda: run_bsuite(plan_bsuite("dqn", ["catch"], quick=True), name=name),
    }
    for door, call in doors.items():
        with pytest.raises(ValueError, match=WRONG_NAMES[name]):
            call()
        assert sorted(path.name for path in (folder / "runs").iterdir()) == ["old"], door


ESCAPE = "\\x1b[2J\\x1b]0;title\\x07"
LOUD = f"raise ValueError('{ESCAPE}' + 'boom')"


def test_escape_sequences_of_code_and_names_do_not_reach_the_terminal(folder, capsys):
    (folder / "loud.py").write_text(LOUD)
    spec = (folder / "runs" / "old" / "spec.json").read_text()
    (folder / "runs" / "old" / "spec.json").write_text(spec.replace('"learning_rate"', '"\\u001b[2Jlearning_rate"'))
    for line in (
        "check loud.py:MyEnv",
        "train ppo loud.py:MyEnv",
        "eval \x1b[2Jnothing",
        "train ppo \x1b[2JCartPole-v1",
        "envs \x1b[2Jx",
        "eval runs/old",
        "report runs/old",
        "trials runs/old",
        "export-config runs/old",
        "compare runs/old runs/old",
    ):
        _, out, err = say(capsys, *line.split(" "))
        assert out + err and "\x1b" not in out + err and "\x07" not in out + err, line


def test_messages_of_servers_do_not_reach_the_terminal_raw():
    stream = io.StringIO()
    Sinks([PlainLines(stream)]).say("the server answered \x1b[2J\x07 and \x9b31m")
    assert stream.getvalue() == "the server answered \\x1b[2J\\x07 and \\x9b31m\n"


ENDING = {
    "at the top": ("import sys\nsys.exit(0)\n", "ending.py:2: SystemExit: 0"),
    "at the top, a BaseException": ("class Boom(BaseException): ...\nraise Boom('x')\n", "ending.py:2: Boom: x"),
    "in a hook": (
        MY_ENV.replace("return jnp.zeros((2,)", "raise SystemExit(0)\n        return jnp.zeros((2,)"),
        "SystemExit: 0",
    ),
    "a BaseException in a hook": (
        MY_ENV.replace("return jnp.zeros((2,)", "raise BaseException('x')\n        return jnp.zeros((2,)"),
        "BaseException: x",
    ),
    "in a callback": (
        MY_ENV.replace(
            "return state, jnp.asarray",
            "import jax\n        jax.debug.callback(lambda t: 1 / 0, state.time)\n        return state, jnp.asarray",
        ),
        "ZeroDivisionError: division by zero",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ENDING)
def test_a_file_that_ends_python_is_an_error_in_one_line(kind, folder, capsys):
    code, message = ENDING[kind]
    (folder / "ending.py").write_text(code)
    said = refused(capsys, "check", "ending.py:MyEnv")
    assert message in said and "ending.py:" in said


def test_a_file_may_import_the_file_beside_it(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    (folder / "beside_it.py").write_text("BONUS = 1.0\n")
    (folder / "later_on.py").write_text("ZERO = 0\n")
    code = MY_ENV.replace("bonus: Number = 1.0", "bonus: Number = BONUS").replace(
        "return State(jnp.int32(0))", "from later_on import ZERO\n        return State(jnp.int32(ZERO))"
    )
    (folder / "sib.py").write_text(f"from beside_it import BONUS\n{code}")
    status, _, err = say(capsys, "check", "sib.py:MyEnv")
    assert status == 0, err
