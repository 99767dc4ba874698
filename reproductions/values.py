"""An animation of the values of a grid's cells while an agent learns them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from shoal.viz.gif import write_gif
from shoal.viz.style import figure_style, new_figure

CELL = 0.5  # inches


def animate_values(
    values: Float[np.ndarray, "N rows columns"], titles: Sequence[str], path: str | Path, *, fps: int | float = 12
) -> Path:
    """Draw N maps of values, all with the same colors, and write them as a GIF. Returns the path.

    `titles` has one text for each map. Raises ValueError if there are not as many titles as maps.
    """
    if len(values) != len(titles):
        raise ValueError(f"{len(values)} maps have {len(titles)} titles: give one for each.")
    rows, columns = values.shape[1:]
    frames = []
    with figure_style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure, axes = new_figure(1.6 + CELL * columns, 1.0 + CELL * rows)
        canvas = FigureCanvasAgg(figure)
        figure.set_dpi(80)
        image = axes.imshow(values[0], cmap="viridis", vmin=min(0, values.min()), vmax=max(values.max(), 1e-9))
        axes.set_xticks(range(columns))
        axes.set_yticks(range(rows))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(image, ax=axes, pad=0.03).outline.set_visible(False)
        for cells, title in zip(values, titles, strict=True):
            image.set_data(cells)
            axes.set_title(title, loc="left")
            canvas.draw()
            figure.set_layout_engine("none")  # the place of the axes stays that of the first picture
            frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return write_gif(frames, path, fps=fps, hold=2)
