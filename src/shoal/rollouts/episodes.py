"""Statistics of finished episodes. Their size is fixed, whatever the number of episodes."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.struct import Struct, struct
from shoal.ops import sums
from shoal.ops.devices import DATA


@struct
class EpisodeStats(Struct):
    """Sums over the episodes that ended, and their number. The mean over no episode is NaN."""

    count: Int[Array, ""]
    return_sum: Float[Array, ""]
    return_square_sum: Float[Array, ""]
    return_min: Float[Array, ""]
    return_max: Float[Array, ""]
    length_sum: Int[Array, ""]
    resets_reused: Int[Array, ""]  # resets to a first state of the reset bank that was used before
    rounding: tuple[Float[Array, ""], Float[Array, ""]]  # of the two sums of returns (`ops.sums`)

    @classmethod
    def zero(cls) -> "EpisodeStats":
        """The statistics of no episode."""
        no_count, no_sum = jnp.int32(0), jnp.float32(0)
        least, most = jnp.float32(jnp.inf), jnp.float32(-jnp.inf)
        return cls(no_count, no_sum, no_sum, least, most, no_count, no_count, (no_sum, no_sum))

    @classmethod
    def of(
        cls, done: Bool[Array, "*axes"], episode_return: Float[Array, "*axes"], length: Int[Array, "*axes"]
    ) -> "EpisodeStats":
        """The statistics of the episodes that end in the steps where `done` is true."""
        ended = jnp.where(done, episode_return, 0)
        return cls(
            count=jnp.sum(done, dtype=jnp.int32),
            return_sum=jnp.sum(ended),
            return_square_sum=jnp.sum(ended**2),
            return_min=jnp.min(jnp.where(done, episode_return, jnp.inf)),
            return_max=jnp.max(jnp.where(done, episode_return, -jnp.inf)),
            length_sum=jnp.sum(jnp.where(done, length, 0), dtype=jnp.int32),
            resets_reused=jnp.int32(0),
            rounding=(jnp.float32(0), jnp.float32(0)),
        )

    def merge(self, other: "EpisodeStats") -> "EpisodeStats":
        """The statistics of the episodes of both; `other` is of one update."""
        (return_sum, return_square_sum), rounding = sums.add_trees(
            (self.return_sum, self.return_square_sum),
            self.rounding,
            (other.return_sum, other.return_square_sum),
        )
        return EpisodeStats(
            count=self.count + other.count,
            return_sum=return_sum,
            return_square_sum=return_square_sum,
            return_min=jnp.minimum(self.return_min, other.return_min),
            return_max=jnp.maximum(self.return_max, other.return_max),
            length_sum=self.length_sum + other.length_sum,
            resets_reused=self.resets_reused + other.resets_reused,
            rounding=rounding,
        )

    def of_all(self, devices: int) -> "EpisodeStats":
        """The statistics of the episodes of all devices (see `ops.devices`)."""
        if devices == 1:
            return self
        total = jax.tree.map(lambda x: jax.lax.psum(x, DATA), self)
        least, most = jax.lax.pmin(self.return_min, DATA), jax.lax.pmax(self.return_max, DATA)
        return total.replace(return_min=least, return_max=most)

    @property
    def return_mean(self) -> Float[Array, ""]:
        """The mean return of the episodes; NaN if none ended."""
        return self.return_sum / self.count
