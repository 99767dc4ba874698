"""Train every preset of an agent with seeds that were fixed in advance, and record the returns that it reaches.

    python benchmarks/evidence.py [PRESET ...] [--agent ppo] [--seeds N] [--steps N] [--out FILE] [--root DIR]
    python benchmarks/evidence.py --agent all --root runs/evidence  # what is not recorded; can be stopped and goes on

The seeds are 1000 to 1015, which no hyperparameter was chosen with. Presets whose row has these seeds and steps are
left out, unless they are named.

The scores are returns of the last weights over 100 fresh episodes per member, with greedy and with sampled actions. If
returns are above zero only on success (MiniGrid), the fraction of such episodes and the learning curves are recorded
too. Rows of presets that are not run again are kept. With --root the run folders are kept, and a stopped run is
resumed. The sentence of evidence of each preset is printed, and written into its file (src/shoal/agents/presets/).
"""

import argparse
import json
import tempfile
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
SEEDS = {("ppo", "CartPole-v1"): 64}
DEFAULT_SEEDS = 16
FIRST_SEED = 1000

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("presets", nargs="*", help="for example CartPole-v1:fast or MiniGrid-*; default: all")
parser.add_argument("--agent", default="ppo", help="the name of one, or all")
parser.add_argument("--seeds", type=int, default=0, help="instead of 16 (PPO on CartPole: 64)")
parser.add_argument(
    "--steps", type=int, default=0, help="stop after N steps; schedules still span the preset's own steps"
)
parser.add_argument("--root", type=Path, help="keep run folders there, and resume stopped runs")
parser.add_argument("--out", type=Path, help="default: evidence.json in benchmarks/results, minigrid-learning.json")
parser.add_argument(
    "--table", action="store_true", help="train nothing; write the table and sentences again from the rows"
)
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

from fnmatch import fnmatch  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402

from shoal.agents import presets as presets_folder  # noqa: E402
from shoal.agents.presets import presets  # noqa: E402
from shoal.core.registry import AGENTS  # noqa: E402
from shoal.ops.statistics import FEWEST  # noqa: E402
from shoal.training.records import score_summary  # noqa: E402


def size(preset, *, usual=False):
    """(Seeds, steps) of a preset's row; the usual ones, or those that were given."""
    seeds, steps = SEEDS.get((preset.agent, preset.name), DEFAULT_SEEDS), preset.steps
    return (seeds, steps) if usual else (args.seeds or seeds, args.steps or steps)


def named(seeds):
    """The numbers of so many seeds."""
    return f"{FIRST_SEED} to {FIRST_SEED + seeds - 1}"


def measure(preset):
    """One row: the scores of a preset over its seeds."""
    seeds, steps = size(preset)
    with tempfile.TemporaryDirectory() as root:
        result = train(preset, seeds, steps, args.root or Path(root))
        sampled = shoal.evaluate(result.folder, episodes=100, greedy=False, seed=1).episode_return
        row = {
            "agent": preset.agent,
            "preset": preset.name,
            "steps": steps,
            "seeds": named(seeds),
            "greedy": result.summary["last"],
            "greedy_per_member": [m["last"] for m in result.summary["per_member"]],
            "sampled": score_summary(sampled.reshape(seeds, -1).mean(axis=1)),
            "jax": jax.__version__,
        }
        if succeeds(preset):
            greedy = shoal.evaluate(result.folder, episodes=100, seed=1).episode_return
            row |= {"greedy_success": successes(greedy), "sampled_success": successes(sampled), **curves(result)}
        return row


def train(preset, seeds, steps, root):
    """Train a preset, or resume its run if it was stopped. Returns the result."""
    folder = root / f"{preset.agent}-{preset.name}-{seeds}-{steps}".replace("/", "-").replace(":", "-")
    if folder.exists():
        return shoal.train(resume=folder, figures=False, progress=False)
    fields = AGENTS[preset.agent].cls.__dataclass_fields__
    return shoal.train(
        preset.build(**({"horizon": preset.steps} if args.steps and "horizon" in fields else {})),
        preset.env,
        env_fields=preset.env_fields,
        steps=steps,
        seeds=seeds,
        first_seed=FIRST_SEED,
        folder=folder,
        figures=False,
        progress=False,
        evaluations=20 if succeeds(preset) else 5,
    )


def succeeds(preset):
    """Whether a return above zero means success."""
    return preset.env.startswith("MiniGrid-")


def successes(returns):
    """The fraction of successful episodes [M]: mean over members, smallest, and of each; from returns [M, episodes]."""
    solved = (np.asarray(returns) > 0).mean(axis=1)
    return {"mean": solved.mean(), "min": solved.min(), "per_member": solved.round(4).tolist()}


def curves(result):
    """Greedy return at each evaluation, a row for each member."""
    returns = result.curves["eval_return"]
    evaluated = ~np.isnan(returns).all(axis=1)
    return {
        "curve_steps": result.curves["env_steps"][evaluated].tolist(),
        "curves": returns[evaluated].T.round(4).tolist(),
    }


def keep(row, path):
    """Add a row to the file of rows, or replace the preset's earlier row; write the table too."""
    rows = {(row["agent"], row["preset"]): row for row in json.loads(path.read_text())} if path.exists() else {}
    rows[row["agent"], row["preset"]] = row
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows.values()), indent=1, default=float) + "\n")
    write_table(path)


def write_table(path):
    """Write the Markdown table of a file of rows."""
    rows = json.loads(path.read_text())
    table = success_table if "curves" in rows[0] else return_table
    path.with_suffix(".md").write_text(table(rows))


def success_table(rows):
    """The table in `docs/measurements.md` for levels that are solved or not."""
    lines = [
        "PPO with its presets, one CPU core per member: fraction of 100 fresh episodes that succeed, last weights.",
        "",
        "![Greedy return of each seed over its steps](images/minigrid-learning.png)",
        "",
        "| level | steps | seeds | greedy: mean, worst seed | sampled: mean, worst seed | greedy return |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        fractions = [f"{row[k]['mean']:.3f}, {row[k]['min']:.2f}" for k in ("greedy_success", "sampled_success")]
        cells = [f"`{row['preset']}`", f"{row['steps']:,}", row["seeds"], *fractions, f"{row['greedy']['mean']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def return_table(rows):
    """The table in `docs/measurements.md` of returns."""
    lines = [
        "IQM: interquartile mean over seeds, with a 95 % bootstrap interval from 6 seeds on. Sampled: actions sampled "
        "as in training.",
        "",
        "| agent | preset | steps | seeds | IQM | interval | mean | worst | sampled, mean |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["preset"], row["agent"])):
        iqm, low, high, *others = rounded(row, "iqm", "iqm_low", "iqm_high", "mean", "min")
        numbers = [iqm, f"{low} to {high}" if row["greedy"]["members"] >= FEWEST else "none", *others]
        cells = [f"`{row['agent']}`", f"`{row['preset']}`", f"{row['steps']:,}", row["seeds"], *numbers]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rounded(row, *scores):
    """The named scores of greedy actions and the mean score of sampled actions, as rounded texts."""
    greedy = row["greedy"]
    digits = 1 if abs(greedy["mean"]) > 2 else 3
    found = (*(greedy[name] for name in scores), row["sampled"]["mean"])
    return ["none" if score is None else f"{score:.{digits}f}" for score in found]  # one seed has no interval


def sentence(row):
    """The sentence of evidence for a preset."""
    greedy = row["greedy"]
    prefix = f"seeds {row['seeds']}, {row['steps']:,} steps, last weights over 100 episodes: "
    if "greedy_success" in row:
        fractions = [
            f"{row[k]['mean']:.3f}, worst seed {row[k]['min']:.2f}" for k in ("greedy_success", "sampled_success")
        ]
        found = f"success {fractions[0]}, mean return {greedy['mean']:.3f}; sampled actions: success {fractions[1]}"
    else:
        mean, low, worst, sampled = rounded(row, "mean", "percentile_5", "min")
        found = f"mean {mean}, 5th percentile {low}, worst {worst}; sampled actions: mean {sampled}"
    words = ["benchmarks/evidence.py", row["preset"]]
    words += ["--agent", row["agent"]] * (row["agent"] != "ppo")
    usual = size(presets(row["agent"])[row["preset"]], usual=True)
    given = {"seeds": greedy["members"], "steps": row["steps"]}
    words += [f"--{name} {given[name]}" for name, value in zip(given, usual, strict=True) if given[name] != value]
    where = f", on an {row['machine']}" if "machine" in row else ""
    return f"{prefix}{found} ({' '.join(words)}{where})"


def write_sentence(row):
    """Put the sentence of a row in the place of its preset's evidence."""
    path = Path(presets_folder.__file__).parent / f"{row['agent']}.toml"
    text = path.read_text()
    begin = text.index("evidence = ", text.index(f'["{row["preset"]}"]'))
    path.write_text(text[:begin] + f'evidence = "{sentence(row)}"' + text[text.index("\n", begin) :])


if args.table:
    path = args.out or RESULTS / "evidence.json"
    write_table(path)
    for row in json.loads(path.read_text()):
        if row["seeds"].startswith(f"{FIRST_SEED} "):
            write_sentence(row)
    raise SystemExit


def out(preset):
    """The file of a preset's row."""
    return args.out or RESULTS / ("minigrid-learning.json" if succeeds(preset) else "evidence.json")


def is_recorded(preset):
    """Whether the row of a preset has these seeds and steps."""
    rows = json.loads(out(preset).read_text()) if out(preset).exists() else []
    seeds, steps = size(preset)
    found = (preset.agent, preset.name, named(seeds), steps)
    return found in [(row["agent"], row["preset"], row["seeds"], row["steps"]) for row in rows]


agents = sorted(AGENTS) if args.agent == "all" else [args.agent]
known = [preset for agent in agents for preset in presets(agent).values()]
wanted = [preset for preset in known if any(fnmatch(preset.name, pattern) for pattern in args.presets or "*")]
if not wanted:
    parser.error(
        f"no preset of {args.agent} matches {' '.join(args.presets)}; there are {', '.join(p.name for p in known)}"
    )
for preset in wanted:
    if not args.presets and is_recorded(preset):
        continue
    row = measure(preset)
    keep(row, out(preset))
    if out(preset).parent == RESULTS:
        write_sentence(row)
    print(sentence(row), flush=True)
