"""Evolve the messages of an ally and of an adversary, and measure how a victim learns with each of them.

    python benchmarks/cheap_talk.py [--generations N] [--candidates N] [--seeds 256] [--root DIR]

1. Evolve both message networks: the experiments `cheap-talk-ally` and `cheap-talk-adversary`.
2. Train victims with each network on seeds that the evolution did not use. Two controls: messages of 0, and those of a
   network with random weights.
3. The result of a victim is its mean return at the end of training (100 episodes) and over the whole training.

Stopped runs in --root are resumed, and finished ones are not repeated.
"""

import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--generations", type=int)
parser.add_argument("--candidates", type=int)
parser.add_argument("--seeds", type=int, default=256, help="victims with each network")
parser.add_argument("--root", type=Path, default=Path("runs/cheap-talk"))
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "cheap-talk.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from resumable import difference, evolution, finished  # noqa: E402

from shoal.ops.statistics import bootstrap_interval  # noqa: E402
from shoal.training.records import member_scores  # noqa: E402

ENV, STEPS = "CheapTalk-CartPole-v0", 32_768
HELD_OUT = 1_000_000  # the seed of the runs with held-out seeds; the evolution's is 0
SIZES = {name: getattr(args, name) for name in ("generations", "candidates")}

about, messages = {}, {"silence": None}
for name in ("ally", "adversary"):
    result, about[name] = evolution(f"cheap-talk-{name}", args.root / name, **SIZES)
    messages[name] = result.found["env.message"]
messages["random"] = shoal.MessageNetwork.init(shoal.make_key(0), shoal.make(ENV).sizes)

folders = {}
for name, message in messages.items():
    fields = {} if message is None else {"message": message}
    sizes = {"steps": STEPS, "seeds": args.seeds, "seed": HELD_OUT, "records": 8, "evaluations": 1}
    folders[name] = args.root / f"victims-{name}"
    finished(
        folders[name],
        lambda folder, fields=fields, sizes=sizes: shoal.train(
            "ppo", ENV, env_fields=fields, folder=folder, figures=False, **sizes
        ),
        figures=False,
    )

victims = {}
for name, folder in folders.items():
    victims[name] = {}
    for metric in ("last", "whole"):
        returns = member_scores(shoal.load_result(folder).curves, metric)
        victims[name][metric] = {
            "mean": round(float(np.mean(returns)), 2),
            "interval": [round(x, 2) for x in bootstrap_interval(returns, np.mean)],
        }
report = {
    "command": "python benchmarks/cheap_talk.py",
    "jax": jax.__version__,
    "device": str(jax.devices()[0].device_kind),
    "env": ENV,
    "steps": STEPS,
    "seeds": args.seeds,
    "evolution": about,
    "victims": victims,
    "minus_silence": {
        name: {m: difference(folders[name], folders["silence"], (name, "silence"), m) for m in ("last", "whole")}
        for name in ("ally", "adversary", "random")
    },
}
args.out.parent.mkdir(parents=True, exist_ok=True)
args.out.write_text(json.dumps(report, indent=1) + "\n")
for name, found in victims.items():
    last, whole = found["last"], found["whole"]
    print(
        f"{name:10} return at the end {last['mean']:6.1f} {last['interval']}, "
        f"over the training {whole['mean']:6.1f} {whole['interval']}"
    )
