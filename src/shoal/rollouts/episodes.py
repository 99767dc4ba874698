"""Statistics of finished episodes, of fixed size however many there were."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.struct import Struct, struct


@struct
class EpisodeStats(Struct):
    """Sums over episodes that ended. Means come out of them count-weighted; with no episode they are NaN, not wrong."""

    count: Int[Array, ""]
    return_sum: Float[Array, ""]
    return_square_sum: Float[Array, ""]
    return_min: Float[Array, ""]
    return_max: Float[Array, ""]
    length_sum: Int[Array, ""]
    resets_reused: Int[Array, ""]  # resets that took a state of the bank for the second time

    @classmethod
    def zero(cls) -> "EpisodeStats":
        """No episode yet."""
        none, nought = jnp.int32(0), jnp.float32(0)
        return cls(none, nought, nought, jnp.float32(jnp.inf), jnp.float32(-jnp.inf), none, none)

    @classmethod
    def of(
        cls, done: Bool[Array, "*axes"], episode_return: Float[Array, "*axes"], length: Int[Array, "*axes"]
    ) -> "EpisodeStats":
        """The episodes that end where `done` is set."""
        ended = jnp.where(done, episode_return, 0)
        return cls(
            count=jnp.sum(done, dtype=jnp.int32),
            return_sum=jnp.sum(ended),
            return_square_sum=jnp.sum(ended**2),
            return_min=jnp.min(jnp.where(done, episode_return, jnp.inf)),
            return_max=jnp.max(jnp.where(done, episode_return, -jnp.inf)),
            length_sum=jnp.sum(jnp.where(done, length, 0), dtype=jnp.int32),
            resets_reused=jnp.int32(0),
        )

    def merge(self, other: "EpisodeStats") -> "EpisodeStats":
        """Both together."""
        return EpisodeStats(
            count=self.count + other.count,
            return_sum=self.return_sum + other.return_sum,
            return_square_sum=self.return_square_sum + other.return_square_sum,
            return_min=jnp.minimum(self.return_min, other.return_min),
            return_max=jnp.maximum(self.return_max, other.return_max),
            length_sum=self.length_sum + other.length_sum,
            resets_reused=self.resets_reused + other.resets_reused,
        )

    @property
    def return_mean(self) -> Float[Array, ""]:
        """Mean return of an episode; NaN if none ended."""
        return self.return_sum / self.count
