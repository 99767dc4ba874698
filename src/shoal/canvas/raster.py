"""Draws smooth shapes for `render` on the host: coordinates of a scene in, a uint8 picture [H, W, 3] out.

Every shape is described by the signed distance of a pixel's center to the shape's edge, in pixels (negative inside).
The shape covers the fraction clip(1/2 - distance, 0, 1) of that pixel. This is exact for straight vertical and
horizontal edges, and within a few percent of a pixel for all others. So edges and slow movements look smooth, and
nothing has to be drawn at a higher resolution.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

Real = int | float | np.floating
Color = tuple[int, int, int]
Point = tuple[Real, Real]
Points = Sequence[Point] | Float[np.ndarray, "P 2"]
Distance = Callable[[Float[np.ndarray, "1 w"], Float[np.ndarray, "h 1"]], Float[np.ndarray, "h w"]]

WHITE: Color = (255, 255, 255)
BLACK: Color = (0, 0, 0)


class Canvas:
    """A picture of `width` x `height` pixels that shows the rectangle `window` of the scene.

    `window` is (left, bottom, right, top) in scene units. Positions, widths and radii are in scene units too; lengths
    are converted to pixels with the horizontal scale. With `bottom` < `top`, y points up. Without a window, the unit is
    the pixel and y points down. Later shapes cover earlier ones; what lies outside of the window is cut off.
    `background` is a color, or a picture of the same size, which is copied and then drawn on.

        canvas = Canvas(600, 400, window=(-2.4, -0.8, 2.4, 2.4))
        canvas.circle((0, 0), 0.1, fill=(129, 132, 203))
        picture = canvas.pixels()  # uint8 [400, 600, 3]
    """

    def __init__(
        self,
        width: int,
        height: int,
        *,
        window: tuple[Real, Real, Real, Real] | None = None,
        background: Color | UInt8[np.ndarray, "H W 3"] = WHITE,
    ) -> None:
        left, bottom, right, top = window or (0.0, float(height), float(width), 0.0)
        if min(width, height) < 1 or left == right or bottom == top:
            raise ValueError(
                f"a canvas of {width} x {height} pixels with window={window} shows nothing. "
                "Give sizes of 1 or more and a window (left, bottom, right, top) with an area."
            )
        self._origin = np.array([left, top], float)
        self._scale = np.array([width / (right - left), height / (bottom - top)])
        # Copy whole rows: NumPy would fill an image from one color pixel by pixel, which is ten times slower.
        filled = np.tile(np.array(background, np.uint8), (width, 1)) if isinstance(background, tuple) else background
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._pixels[:] = filled

    def polygon(self, points: Points, fill: Color) -> None:
        """Fill a polygon. Its last point is connected to the first. It may be concave, but no two sides may cross."""
        corners = self._in_pixels(points)
        self._paint(corners, 0.0, functools.partial(_polygon_distance, corners.tolist()), fill)

    def circle(self, center: Point, radius: Real, fill: Color) -> None:
        """Fill a circle."""
        ((x, y),) = middle = self._in_pixels([center])
        r = self._length(radius)
        self._paint(middle, r, lambda column, row: np.hypot(column - x, row - y) - r, fill)

    def line(self, points: Points, fill: Color, width: Real) -> None:
        """Draw a line through all points, with round ends and corners. It is at least one pixel wide."""
        path = self._in_pixels(points)
        half = max(self._length(width), 1.0) / 2
        self._paint(path, half, functools.partial(_path_distance, path.tolist(), half), fill)

    def arrow_arc(self, center: Point, radius: Real, start: Real, sweep: Real, fill: Color, width: Real) -> None:
        """Draw an arc from angle `start` over `sweep` radians (counterclockwise where y points up), with a head."""
        angles = start + sweep * np.linspace(0.0, 1.0, 33)
        arc = np.asarray(center, float) + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        self.line(arc, fill, width)
        heading = start + sweep + math.copysign(math.pi / 2, sweep)
        self.polygon(
            transformed([(0.0, -2 * width), (5 * width, 0.0), (0.0, 2 * width)], tuple(arc[-1]), heading), fill
        )

    def text(self, position: Point, words: str, fill: Color = BLACK, size: Real = 14.0, anchor: str = "la") -> None:
        """Write a line of text, `size` pixels high. `anchor` says which point of the text is at `position`.

        It is an anchor of Pillow: "la" is the top left corner of the text, "mm" its middle.
        """
        from PIL import Image, ImageDraw  # here, because importing an environment must not import Pillow

        image = Image.fromarray(self._pixels)
        ((x, y),) = self._in_pixels([position]).tolist()
        ImageDraw.Draw(image).text((x, y), words, fill=fill, font=_font(float(size)), anchor=anchor)
        self._pixels = np.array(image)

    def pixels(self) -> UInt8[np.ndarray, "H W 3"]:
        """A copy of the picture drawn so far."""
        return self._pixels.copy()

    def _in_pixels(self, points: Any) -> Float[np.ndarray, "P 2"]:
        return (np.asarray(points, float) - self._origin) * self._scale

    def _length(self, units: Real) -> float:
        return float(units) * abs(float(self._scale[0]))

    def _paint(self, around: Float[np.ndarray, "P 2"], margin: Real, distance: Distance, fill: Color) -> None:
        """Blend `fill` into the pixels near the points `around`; `distance` gives how far each pixel is covered."""
        size = self._pixels.shape[1::-1]
        left, top = np.clip(np.floor(around.min(axis=0) - margin - 1), 0, size).astype(int)
        right, bottom = np.clip(np.ceil(around.max(axis=0) + margin + 1), 0, size).astype(int)
        column = np.arange(left, right, dtype=np.float32)[None, :] + np.float32(0.5)
        row = np.arange(top, bottom, dtype=np.float32)[:, None] + np.float32(0.5)
        cover = np.clip(0.5 - distance(column, row), 0.0, 1.0)[..., None]
        region = self._pixels[top:bottom, left:right]
        region[:] = np.rint(region + (np.array(fill, np.float32) - region) * cover).astype(np.uint8)


def transformed(points: Points, at: Point, angle: Real = 0.0) -> Float[np.ndarray, "P 2"]:
    """Rotate `points` about the origin by `angle` (radians, counterclockwise where y points up), then add `at`."""
    cos, sin = math.cos(angle), math.sin(angle)
    return np.asarray(points, float) @ np.array([[cos, sin], [-sin, cos]]) + np.asarray(at, float)


def box(left: Real, bottom: Real, right: Real, top: Real) -> list[Point]:
    """The four corners of a rectangle, as points of a polygon."""
    return [(left, bottom), (left, top), (right, top), (right, bottom)]


def text_width(words: str, size: Real) -> int:
    """Width in pixels of a line of text that `Canvas.text` writes `size` pixels high."""
    left, _, right, _ = _font(float(size)).getbbox(words)
    return math.ceil(right - min(left, 0))


@functools.cache
def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _path_distance(path: list[list[float]], half: float, column: Any, row: Any) -> np.ndarray:
    """Distance to the edge of a line of half width `half` along a path; exact within a pixel of it, else infinite."""
    nearest = np.full((row.shape[0], column.shape[1]), np.inf, np.float32)
    for (x0, y0), (x1, y1) in itertools.pairwise(path):
        wide = slice(*np.searchsorted(column[0], (min(x0, x1) - half - 1, max(x0, x1) + half + 1)))
        tall = slice(*np.searchsorted(row[:, 0], (min(y0, y1) - half - 1, max(y0, y1) + half + 1)))
        part = nearest[tall, wide]
        np.minimum(part, _squared_distance((x0, y0, x1, y1), column[:, wide], row[tall]), out=part)
    return np.sqrt(nearest) - half


def _polygon_distance(corners: list[list[float]], column: Any, row: Any) -> np.ndarray:
    nearest, inside = np.inf, False
    before = corners[-1]
    for corner in corners:
        (x0, y0), (x1, y1) = before, corner
        nearest = np.minimum(nearest, _squared_distance((x0, y0, x1, y1), column, row))
        # A ray to the right crosses this side: inside after an odd number of crossings.
        slope = (x1 - x0) / (y1 - y0) if y1 != y0 else 0.0
        inside = inside ^ (((row < y0) != (row < y1)) & (column < x0 + (row - y0) * slope))
        before = corner
    distance = np.sqrt(nearest)
    return np.where(inside, -distance, distance)


def _squared_distance(segment: Sequence[float], column: Any, row: Any) -> np.ndarray:
    x, y, end_x, end_y = segment
    along_x, along_y = end_x - x, end_y - y
    length = along_x**2 + along_y**2
    part = np.clip(((column - x) * along_x + (row - y) * along_y) / (length or 1.0), 0.0, 1.0)
    return (column - x - part * along_x) ** 2 + (row - y - part * along_y) ** 2
