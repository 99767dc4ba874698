"""Draw the diagrams of the pages of the documentation: SVG files in docs/images.

    python docs/diagrams.py

The pictures have a background of their own, so that they can be read on light and dark pages. `tests/test_docs.py`
compares the packages with those of the table on the page.
"""

from pathlib import Path

IMAGES = Path(__file__).parent / "images"
INK, FAINT, PAPER, LINE = "#1f2933", "#52606d", "#ffffff", "#9aa5b1"
PURE, EDGE = "#d6e8f7", "#fde3cf"  # packages of pure functions; packages that read, write or print

LEVELS = (  # the highest first: (packages, whether they may read and write files, what they hold)
    (("cli",), True, "the command line"),
    (("studies", "reports"), True, "many runs: train, sweeps, suites; HTML pages"),
    (("population", "viz"), True, "selectors; figures, GIFs and videos"),
    (("training",), True, "one run: plan, loop, run folder"),
    (("specs",), True, "what a run is: values, what varies, options"),
    (("envs", "agents", "interop"), False, "environments; learning algorithms; other libraries"),
    (("rollouts", "grid"), False, "rollouts, evaluation; a kit for grid worlds"),
    (
        ("ops", "nn", "canvas", "tracking", "portable"),
        False,
        "losses; networks; drawing; events; code without JAX",
    ),
    (("core",), False, "pytrees, spaces, keys, Env, Agent, registry"),
)
EDGES = {"tracking", "interop"}  # which also read and writes, beside packages that do not

STEPS = (  # of one update: (what happens, what goes in and comes out)
    ("Sample random numbers", "step noise [T, E], reset bank [R, E]"),
    ("Roll out: T steps of E environments", "env_states [E], weights → trajectory [T, E]"),
    ("Values and advantages, in one batch", "rewards, values [T, E] → advantages [T, E]"),
    (
        "Gradient steps on shuffled minibatches",
        "T·E samples → minibatches [B] → loss → weights; epochs × minibatches steps",
    ),
)


def text(x: float, y: float, words: str, size: int = 15, color: str = INK, weight: str = "normal", at: str = "middle"):
    """One line of text; `at` is start, middle or end."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" font-weight="{weight}" '
        f'text-anchor="{at}">{words}</text>'
    )


def box(x: float, y: float, width: float, height: float, fill: str, extra: str = "") -> str:
    """A rectangle with round corners."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}" stroke="{LINE}"{extra}/>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight arrow."""
    return f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" stroke="{FAINT}" stroke-width="2" marker-end="url(#head)"/>'


def svg(width: int, height: int, title: str, parts: list[str]) -> str:
    """A whole picture, with a title for screen readers."""
    head = (
        f'<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{FAINT}"/></marker>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            f"<defs>{head}</defs>",
            f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def packages() -> str:
    """The packages by level; an arrow says in which direction imports are allowed."""
    width, left, row, inner = 640, 62, 62, 552
    parts = []
    for index, (names, reads, what) in enumerate(LEVELS):
        y = 16 + index * row
        level = len(LEVELS) - 1 - index
        parts.append(text(left + 10, y + 23, str(level), 13, FAINT))
        box_width = (inner - 30 - 8 * (len(names) - 1)) / len(names)
        for number, name in enumerate(names):
            x = left + 30 + number * (box_width + 8)
            parts.append(box(x, y, box_width, 36, EDGE if reads or name in EDGES else PURE))
            words = f'<tspan font-weight="bold">{name}</tspan>' + f": {what}" * (len(names) == 1)
            parts.append(text(x + box_width / 2, y + 23, words))
        if len(names) > 1:
            parts.append(text(left + 30 + (inner - 30) / 2, y + 52, what, 12, FAINT))
    bottom = 16 + len(LEVELS) * row
    parts.append(arrow(34, 24, 34, bottom - 30))
    parts.append(f'<g transform="rotate(-90 22 {bottom / 2})">{text(22, bottom / 2, "may import", 14, FAINT)}</g>')
    for x, fill, words in ((92, PURE, "pure functions"), (252, EDGE, "may read and write files, and print")):
        parts += [box(x, bottom + 4, 18, 18, fill), text(x + 25, bottom + 18, words, 13, at="start")]
    return svg(width, bottom + 36, "Packages by level: a package imports only packages of lower levels", parts)


def update() -> str:
    """The data flow of one update of PPO, with shapes."""
    width, left, inner, row = 640, 40, 560, 84
    parts = [
        box(left, 16, inner, 44, EDGE),
        text(width / 2, 35, "agent state of one member", 15, weight="bold"),
        text(width / 2, 53, "weights, optimizer state, env_states [E], key, age", 13, FAINT),
    ]
    y = 60
    for number, (what, data) in enumerate(STEPS, start=1):
        parts.append(arrow(width / 2, y, width / 2, y + row - 52))
        y += row - 52
        parts += [box(left, y, inner, 52, PURE), text(left + 22, y + 32, str(number), 17, FAINT)]
        parts += [text(width / 2, y + 22, what, 15, weight="bold"), text(width / 2, y + 41, data, 13, FAINT)]
        y += 52
    parts.append(arrow(width / 2, y, width / 2, y + 32))
    y += 32
    parts += [
        box(left, y, inner * 0.62 - 4, 44, EDGE),
        text(left + 22, y + 28, str(len(STEPS) + 1), 17, FAINT),
        text(left + inner * 0.31 - 2, y + 27, "new agent state, for the next update", 14, weight="bold"),
        box(left + inner * 0.62 + 4, y, inner * 0.38 - 4, 44, EDGE),
        text(left + inner * 0.81 + 2, y + 27, "metrics, of fixed size", 14, weight="bold"),
    ]
    y += 44
    note = "M members: the same program with a leading axis [M] on every array"
    frame = f'<rect x="14" y="6" width="{width - 28}" height="{y + 38}" rx="10" fill="none" stroke="{LINE}" '
    parts += [f'{frame}stroke-dasharray="6 5"/>', text(width / 2, y + 27, note, 14, FAINT)]
    return svg(width, y + 52, "Data flow of one update of PPO, with shapes", parts)


def evolution() -> str:
    """One generation of an evolution: candidates around the mean, training runs, fitness, the new mean."""
    width, top, row = 720, 74, 58
    heads = ((96, "candidates"), (330, "training runs, K seeds each"), (556, "fitness"), (655, "rank"))
    parts = [text(x, top - 16, words, 14, weight="bold") for x, words in heads]
    returns = ((212, "3"), (301, "1"), (188, "4"), (264, "2"))
    for number, (fitness, rank) in enumerate(returns):
        y = top + number * row
        parts += [box(24, y, 144, 40, PURE), text(96, y + 25, f"candidate {number + 1}", 14)]
        for seed in range(2):
            x = 206 + seed * 128
            parts += [arrow(168, y + 20, 202, y + 20)] if seed == 0 else []
            parts += [box(x, y, 120, 40, EDGE), text(x + 60, y + 25, f"seed {seed}", 13)]
        parts += [arrow(456, y + 20, 496, y + 20), box(500, y, 112, 40, PURE)]
        parts += [text(556, y + 25, str(fitness), 14), text(655, y + 25, rank, 14)]
    y = top + len(returns) * row + 8
    parts += [box(24, y, 672, 44, PURE)]
    parts += [text(width / 2, y + 27, "the strategy moves the mean towards the candidates of high rank", 15)]
    parts += [text(width / 2, 30, "P candidates around the mean of the search, the same seeds for each", 15, FAINT)]
    parts += [text(width / 2, y + 70, "next generation: new candidates around the new mean, new seeds", 14, FAINT)]
    return svg(width, y + 88, "One generation: candidates, training runs, fitness, and the step of the strategy", parts)


def cheap_talk() -> str:
    """Messages in training and afterwards: who computes them, who reads them, whose reward decides."""
    parts = [
        text(250, 30, "While the victim trains: CheapTalk", 16, weight="bold"),
        box(40, 50, 420, 286, "none", ' stroke-dasharray="6 5"'),
        box(70, 76, 170, 56, PURE),
        text(155, 100, "environment", 15, weight="bold"),
        text(155, 120, "state, reward", 13, FAINT),
        box(270, 150, 170, 56, EDGE),
        text(355, 174, "message network", 15, weight="bold"),
        text(355, 194, "weights env.message", 13, FAINT),
        box(70, 260, 370, 56, PURE),
        text(255, 284, "victim: PPO, which learns", 15, weight="bold"),
        text(255, 304, "reads [observation, message]", 13, FAINT),
        arrow(120, 132, 120, 258),
        text(130, 200, "observation", 13, FAINT, at="start"),
        arrow(200, 132, 290, 150),
        arrow(355, 206, 355, 258),
        text(365, 236, "message", 13, FAINT, at="start"),
        '<path d="M70 288 L52 288 L52 104 L68 104" fill="none" stroke="#52606d" stroke-width="2" '
        'marker-end="url(#head)"/>',
        box(70, 362, 370, 60, EDGE),
        text(255, 386, "evolution of env.message", 15, weight="bold"),
        text(255, 406, "ally: maximizes the victim's return; adversary: minimizes it", 13, FAINT),
        arrow(255, 336, 255, 360),
        text(265, 354, "return of the whole training", 13, FAINT, at="start"),
        text(710, 30, "After the training: Puppet", 16, weight="bold"),
        box(500, 50, 420, 286, "none", ' stroke-dasharray="6 5"'),
        box(530, 76, 370, 56, PURE),
        text(715, 100, "environment with another goal", 15, weight="bold"),
        text(715, 120, "state, goal, reward of the exploiter", 13, FAINT),
        box(530, 260, 370, 56, PURE),
        text(715, 284, "victim, which no longer learns", 15, weight="bold"),
        text(715, 304, "reads [observation, message]", 13, FAINT),
        arrow(610, 132, 610, 258),
        text(620, 200, "observation", 13, FAINT, at="start"),
        '<path d="M530 288 L512 288 L512 104 L528 104" fill="none" stroke="#52606d" stroke-width="2" '
        'marker-end="url(#head)"/>',
        text(546, 248, "action", 13, FAINT, at="middle"),
        text(84, 248, "action", 13, FAINT, at="middle"),
        box(530, 362, 370, 60, EDGE),
        text(715, 386, "exploiter: an agent of its own", 15, weight="bold"),
        text(715, 406, "reads observation and goal; its action is the message", 13, FAINT),
        arrow(790, 362, 790, 318),
        text(800, 352, "message", 13, FAINT, at="start"),
        '<path d="M900 104 L936 104 L936 392 L902 392" fill="none" stroke="#52606d" stroke-width="2" '
        'marker-end="url(#head)"/>',
    ]
    return svg(960, 440, "Messages while an agent trains, and messages to a trained agent", parts)


def verify() -> str:
    """A run of twelve records, its checkpoints, and the parts that are executed again."""
    width, left, step, top = 760, 96, 52, 78
    kept, again = (4, 8, 11, 12), ((0, 3, "from the spec, while there is time"), (4, 8, ""), (11, 12, ""))
    parts = [text(left + 6 * step, 30, "the run: 12 records, checkpoints after some of them", 15, weight="bold")]
    parts += [box(left + n * step + 3, top, step - 6, 34, PURE) for n in range(12)]
    parts += [text(left + (n + 0.5) * step, top + 22, str(n + 1), 13) for n in range(12)]
    parts += [text(left - 10, top + 22, "spec.json", 13, FAINT, at="end")]
    for n in kept:
        x = left + n * step
        parts += [f'<path d="M{x} {top - 4} l7 -11 l-14 0 z" fill="{FAINT}"/>']
        parts += [arrow(x, top + 40, x, top + 66)] * (n in {first for first, *_ in again})
    parts.append(arrow(left, top + 40, left, top + 66))
    for first, last, words in again:
        x, length = left + first * step, (last - first) * step
        parts += [box(x, top + 70, length, 34, EDGE)]
        parts += [text(x + length / 2, top + 124, words, 12, FAINT)] if words else []
    note = "executed again: every bit must be that of the run"
    parts.append(text(left + 8 * step, top + 124, note, 12, FAINT))
    return svg(width, top + 144, "A run, its checkpoints, and the parts that are executed again", parts)


def branch() -> str:
    """A run, and twins that leave it at a checkpoint."""
    width, x0, fork, x1, y = 760, 40, 300, 700, 120
    parts = [
        f'<path d="M{x0} {y} L{x1} {y}" stroke="{INK}" stroke-width="3"/>',
        text(x0, y - 14, "the run", 14, weight="bold", at="start"),
        text(x1, y + 20, "twin without a change: the bits of the run", 13, FAINT, at="end"),
        f'<circle cx="{fork}" cy="{y}" r="6" fill="{INK}"/>',
        text(fork, y + 28, "checkpoint after record 12", 13, FAINT, at="end"),
    ]
    for height, color, words in ((-70, "#0072b2", "learning_rate = 3e-4"), (80, "#d55e00", "learning_rate = 3e-5")):
        curve = f"M{fork} {y} C{fork + 90} {y}, {fork + 120} {y + height}, {x1} {y + height}"
        parts.append(f'<path d="{curve}" stroke="{color}" stroke-width="3" fill="none"/>')
        parts.append(text(x1, y + height + (20 if height > 0 else -12), words, 13, color, at="end"))
    parts.append(text(x0, 30, "twins: same seeds, same random numbers, one other value", 13, FAINT, at="start"))
    return svg(width, 232, "A run, and twins that leave it at a checkpoint", parts)


def race() -> str:
    """Three contestants, the batches of seeds that each one trains, and the looks after which pairs are decided."""
    width, left, step, top = 760, 132, 66, 84
    rows = (("ppo", "#0072b2", 5), ("a2c", "#009e73", 5), ("dqn", "#d55e00", 2))
    parts = [text(left, 28, "the mean score of each contestant, over the seeds so far", 15, weight="bold", at="start")]
    shown = (  # height of the mean after each look
        (150, 128, 122, 118, 116),
        (160, 152, 150, 152, 153),
        (214, 222),
    )
    for (name, color, _), heights in zip(rows, shown, strict=True):
        points = [(left + (k + 1) * step, top - 40 + height) for k, height in enumerate(heights)]
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        parts.append(f'<path d="M{path}" stroke="{color}" stroke-width="3" fill="none"/>')
        for k, (x, y) in enumerate(points):
            half = 34 / (k + 1) ** 0.5
            parts.append(f'<path d="M{x:g} {y - half:g} L{x:g} {y + half:g}" stroke="{color}" stroke-width="2"/>')
            parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="{color}"/>')
        parts.append(text(points[0][0] - 14, points[0][1] + (4 if name != "ppo" else -4), name, 14, color, at="end"))
    for k in range(8):
        x = left + (k + 1) * step
        parts.append(
            f'<path d="M{x} {top - 28} L{x} {top + 222}" stroke="{LINE}" stroke-width="1" stroke-dasharray="3 4"/>'
        )
        parts.append(text(x, top - 34, str(8 * (k + 1)), 13, FAINT))
    parts.append(text(left - 14, top - 34, "seeds", 13, FAINT, at="end"))
    parts.append(
        text(
            left + 2 * step + 8, top + 205, "look 2: dqn is worse than both; its slots are free", 13, FAINT, at="start"
        )
    )
    parts.append(text(left + 5 * step + 8, top + 60, "look 5: ppo is better than a2c;", 13, FAINT, at="start"))
    parts.append(text(left + 5 * step + 8, top + 78, "the race ends", 13, FAINT, at="start"))
    for row, (name, color, batches) in enumerate(rows):
        y = top + 244 + 34 * row
        parts.append(text(left - 14, y + 17, name, 14, color, at="end"))
        for k in range(8):
            is_trained = k < batches
            dashes = "" if is_trained else ' stroke-dasharray="3 4"'
            parts.append(box(left + k * step + 3, y, step - 6, 26, PURE if is_trained else PAPER, dashes))
            parts += [text(left + (k + 0.5) * step, y + 17, "8 seeds", 12)] * is_trained
    return svg(width, top + 360, "A race of three contestants, with a look after every eight seeds", parts)


if __name__ == "__main__":
    drawings = {
        "packages": packages,
        "update": update,
        "evolution": evolution,
        "cheap-talk": cheap_talk,
        "verify": verify,
        "branch": branch,
        "race": race,
    }
    for name, draw in drawings.items():
        (IMAGES / f"{name}.svg").write_text(draw())
        print(f"docs/images/{name}.svg")
