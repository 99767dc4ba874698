"""The page of results: what agents reached beside published numbers, and speed beside other libraries, from files.

In benchmarks/results, returns come from evidence.json and minigrid-learning.json, the numbers of others from
published.toml, and speeds from the files that benchmarks/run.py wrote. Targets are those of envs/references.toml.
"""

import json
import re
import tomllib
from pathlib import Path
from statistics import median
from typing import Any

from page_parts import NOTICE, families, page, picture, table

from shoal.agents.presets import presets
from shoal.core.registry import AGENTS
from shoal.ops.statistics import FEWEST
from shoal.training.references import known_references, target_of

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
CURVES = RESULTS / "agent-curves.json"
FULL = 16  # seeds of a complete row of evidence
SPEED = {
    "classic": "environment steps, classic control",
    "worlds": "environment steps, MinAtar, bsuite, mazes",
    "minigrid": "environment steps, MiniGrid",
    "ppo": "PPO, training",
    "dqn": "DQN, training",
    "tabular": "tabular Q-learning, training",
    "es": "evolution strategies, training",
    "peers": "called from Python, or compared with torch",
}


def results() -> str:
    """The page of results."""
    evidence = json.loads((RESULTS / "evidence.json").read_text())
    levels = json.loads((RESULTS / "minigrid-learning.json").read_text())
    published = tomllib.loads((RESULTS / "published.toml").read_text())
    return page(
        [
            "# Results",
            NOTICE,
            "What shoal's agents reached, beside what others report, and how fast. All of it was measured on a machine "
            "with 2 CPU cores, with seeds that were fixed in advance; the commands are on the page of "
            "[measurements](measurements.md).",
            "## Returns",
            "Interquartile mean (IQM) over seeds of the mean return of 100 fresh episodes, greedy actions, last "
            "weights, with a 95 % bootstrap interval from 6 seeds on. *Target*: the largest expected return that the "
            "rules of the environment allow (for the bandit, the return of the Gittins index), or else the return at "
            "which Gymnasium calls it solved. *SB3*: mean return of the agent of Stable-Baselines3 with the same name, "
            "one run, and its training steps (rl-baselines3-zoo, `benchmark.md`, commit 0088472). These often differ "
            "from those of shoal: the columns say whether a return is good, not which library learns faster.",
            _returns(evidence, published),
            "In MinAtar's games shoal repeats an action with probability 0.1 (sticky actions), as the original does. "
            "Published returns with the same rule, number of steps and kind of evaluation were not found, so none is "
            "shown.",
            "## MiniGrid",
            "Fraction of 100 fresh episodes that reach the goal: PPO with its presets. 1.000 is the largest possible.",
            _levels(levels),
            picture(
                "Greedy return of each seed over its steps, for ten MiniGrid levels",
                "minigrid-learning.png",
                "PPO in ten MiniGrid levels: greedy return of each seed (thin) and their mean.",
            ),
            "## Speed",
            "How many times as fast as the best configuration of the peer, in runs side by side on 2 cores: the "
            "smallest, the median and the largest ratio over the rows of each table. Times of whole processes are "
            "included as (time of the peer) / (time of shoal). [Measurements](measurements.md) "
            "names every peer; *Pegoud's code* is that of the article that introduced "
            "[GridWorld](measurements.md#tabular-q-learning-on-gridworld).",
            _speed(),
            "## Not measured yet",
            _missing(evidence, levels),
        ]
    )


def _returns(evidence: list[dict[str, Any]], published: dict[str, Any]) -> str:
    rows = []
    for row in sorted(evidence, key=lambda row: (row["preset"], row["agent"])):
        score, env = row["greedy"], row["preset"].partition(":")[0]
        sb3 = published["sb3"].get(f"{row['agent']}/{env}")
        digits = 3 if abs(score["iqm"]) < 10 else 1
        rows.append(
            [
                f"`{row['preset']}`",
                f"`{row['agent']}`",
                f"{row['steps']:,}",
                str(score["members"]),
                f"{score['iqm']:.{digits}f}",
                _unbroken(f"{score['iqm_low']:.{digits}f} to {score['iqm_high']:.{digits}f}")
                if score["members"] >= FEWEST
                else "",
                f"{score['min']:.{digits}f}",
                _unbroken(_target(row["preset"], env)),
                _unbroken(f"{sb3['mean']} ({sb3['steps']:,})" if sb3 else ""),
            ]
        )
    head = ("environment", "agent", "steps", "seeds", "IQM", "95 % interval", "worst", "target", "SB3 (steps)")
    return table(head, rows)


def _unbroken(text: str) -> str:
    return text.replace(" ", "&nbsp;")  # so that a narrow column does not break it into lines


def _target(preset: str, env: str) -> str:
    known = known_references()
    target = target_of(known.get(preset, known.get(env, {})))
    if target is None or target[0] == "target":  # which is chosen for normalization, and no fact of the environment
        return ""
    return f"{'solved at' if target[0] == 'solved' else target[0]} {target[1]:g}"


def _levels(levels: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"`{row['preset']}`",
            f"{row['steps']:,}",
            str(row["greedy"]["members"]),
            *(f"{row[kind]['mean']:.3f}, {row[kind]['min']:.2f}" for kind in ("greedy_success", "sampled_success")),
        ]
        for row in levels
    ]
    return table(("level", "steps", "seeds", "greedy: mean, worst seed", "sampled: mean, worst seed"), rows)


def _speed() -> str:
    rows = []
    for suite, what in SPEED.items():
        found = [_ratio(result) for result in json.loads((RESULTS / f"{suite}.json").read_text())["results"]]
        ratios = [ratio for _, ratio in found]
        peers = sorted({re.split(r"[,(]", peer)[0].strip() for peer, _ in found})
        cells = [f"{number:,.1f}" for number in (min(ratios), median(ratios), max(ratios))]
        rows.append([what, "; ".join(peers), str(len(ratios)), *cells])
    return table(("what", "compared with", "rows", "smallest", "median", "largest"), rows)


def _ratio(result: dict[str, Any]) -> tuple[str, float]:
    """The fastest peer of a contest, and how many times as fast as it shoal is."""
    *peers, (_, ours) = result["median"].items()
    if result["unit"] == "s":
        name, theirs = min(peers, key=lambda peer: peer[1])
        return name, theirs / ours
    name, theirs = max(peers, key=lambda peer: peer[1])
    return name, ours / theirs


def _missing(evidence: list[dict[str, Any]], levels: list[dict[str, Any]]) -> str:
    measured = {(row["agent"], row["preset"].partition(":")[0]) for row in [*evidence, *levels]}
    no_preset = [f"`{name}`" for name in AGENTS if not presets(name)]
    curves = {row["agent"] for row in json.loads(CURVES.read_text())} if CURVES.exists() else set()
    no_number = [f"`{name}`" for name in AGENTS if name not in {a for a, _ in measured} | curves]
    envs = {env for _, env in measured}
    families_without = [f"`{name}`" for name, family in families().items() if not envs & {*family.names}]
    few = [f"`{row['agent']}` on `{row['preset']}` ({row['greedy']['members']})" for row in evidence]
    few = [text for text, row in zip(few, evidence, strict=True) if row["greedy"]["members"] < FULL]
    lines = [
        "Returns on GPUs, and TPUs: every number on this page comes from a CPU. Speed on a GPU is in "
        "[measurements](measurements.md#on-a-gpu).",
        "More than one machine.",
        f"Families of environments without a return on this page: {', '.join(families_without) or 'none'}. How many "
        "episodes PPO needs in BabyAI is in [measurements](measurements.md#what-agents-learn-from-instructions).",
        f"Agents without a preset, whose learning curves are their only measurement: {', '.join(no_preset)}.",
        f"Rows with fewer than {FULL} seeds: {', '.join(few)}.",
    ]
    if no_number:
        lines.insert(4, f"Agents without any measurement: {', '.join(no_number)}.")
    return "\n".join(f"- {line}" for line in lines)
