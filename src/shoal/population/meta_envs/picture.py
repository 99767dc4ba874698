"""Pictures of two policies that meet, drawn on the host."""

import numpy as np
from jaxtyping import Float, UInt8

from shoal.canvas import BLACK, Canvas, box

AGENT_COLOR, OPPONENT_COLOR, GRID_COLOR = (52, 101, 196), (222, 132, 54), (225, 225, 225)
WIDTH, HEIGHT, FLOOR, TOP = 480, 320, 250, 70  # pixels; bars stand on FLOOR, and a probability of 1 reaches TOP


def policies_picture(
    policies: Float[np.ndarray, "2 D"],
    situations: tuple[str, ...],
    title: str,
    mean_reward: Float[np.ndarray, "2"] | None,
    steps: int,
) -> UInt8[np.ndarray, "320 480 3"]:
    """Two bars for each situation, of the agent (blue) and the opponent (orange), with mean rewards below.

    `mean_reward` is the mean reward per step so far of both; None before the first step.
    """
    canvas = Canvas(WIDTH, HEIGHT)
    canvas.text((WIDTH / 2, 16), title, size=15, anchor="mm")
    _legend(canvas)
    for share in (0.0, 0.5, 1.0):
        canvas.line([(40, _height(share)), (WIDTH - 15, _height(share))], GRID_COLOR, 1)
        canvas.text((34, _height(share)), f"{share:g}", size=13, anchor="rm")
    across = (WIDTH - 55) / len(situations)
    for i, name in enumerate(situations):
        middle = 40 + across * (i + 0.5)
        half = min(0.3 * across, 40)
        canvas.polygon(box(middle - half, FLOOR, middle - 1, _height(float(policies[0, i]))), AGENT_COLOR)
        canvas.polygon(box(middle + 1, FLOOR, middle + half, _height(float(policies[1, i]))), OPPONENT_COLOR)
        canvas.text((middle, FLOOR + 14), name, size=14, anchor="mm")
    if mean_reward is None:
        words = "before the first step"
    else:
        words = f"step {steps}: mean reward {mean_reward[0]:.2f} (agent), {mean_reward[1]:.2f} (opponent)"
    canvas.text((WIDTH / 2, HEIGHT - 22), words, BLACK, size=15, anchor="mm")
    return canvas.pixels()


def _legend(canvas: Canvas) -> None:
    for x, words, color in ((150, "agent", AGENT_COLOR), (250, "opponent", OPPONENT_COLOR)):
        canvas.polygon(box(x, 36, x + 14, 50), color)
        canvas.text((x + 20, 43), words, size=14, anchor="lm")


def _height(share: float) -> float:
    return FLOOR - (FLOOR - TOP) * share
