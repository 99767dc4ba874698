"""The arithmetic of descent, by hand."""

import jax.numpy as jnp
import numpy as np

from shoal.ops.gradients import clip_norm


def test_gradients_are_clipped_by_their_norm_together():
    slope = jnp.asarray([3.0, 4.0])
    np.testing.assert_allclose(clip_norm(slope, 0.5), [0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(clip_norm(slope / 100, 0.5), [0.03, 0.04], rtol=1e-6)
    np.testing.assert_allclose(clip_norm(0 * slope, 0.5), [0, 0])
