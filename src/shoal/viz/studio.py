"""The pictures of a run, as a sink: its learning curve and its videos, prepared while the device trains."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from shoal.core.agent import Agent
from shoal.core.env import Env, Key
from shoal.tracking.events import Compiled, Event, Finished, Message, Sink
from shoal.training.folder import RunFolder
from shoal.training.plan import Plan
from shoal.training.policy import policies_of
from shoal.training.result import Result


class Studio(Sink):
    """Draws a finished run. While the device trains it imports what draws, and compiles what records the videos."""

    def __init__(self, plan: Plan, folder: RunFolder) -> None:
        """Draw into the folder's `figures/` and `videos/`."""
        self.plan, self.folder = plan, folder
        self._camera: Future | None = None

    def receive(self, event: Event) -> Message | None:
        """Prepare when training begins, and draw when it is over."""
        if isinstance(event, Compiled):
            pool = ThreadPoolExecutor(1)
            self._camera = pool.submit(self._prepare)
            pool.shutdown(wait=False)  # training begins meanwhile
        if isinstance(event, Finished) and (failures := [*self._draw()]):
            return Message("\n".join(failures))
        return None

    def _draw(self) -> Iterator[str]:
        """Draw what can be drawn, and say in a line each what cannot."""
        from shoal.viz.curves import plot_run
        from shoal.viz.videos import draw_members

        try:
            plot_run(self.folder.path)
        except ValueError as error:  # a run so short that nothing has ended in it is whole all the same
            yield f"no learning curve: {error}"
        try:
            camera = self._camera.result() if self._camera else self._prepare()
            if camera is None:
                yield f"no videos: {self.plan.spec.env_name} has no picture (define render(state) in its class)"
                return
            ranking = Result(self.folder.path).ranking()
            draw_members(self.plan, policies_of(self.plan, self.folder), ranking, self.folder.videos, camera)
        except Exception as error:  # whatever the user's own `render` raises; the run is whole, and its table follows
            again = f"`shoal render {self.folder.path} --debug` shows where"
            yield f"no videos: drawing {self.plan.spec.env_name} failed with {error!r}; {again}"

    def _prepare(self) -> Any:
        from shoal.viz.curves import preload
        from shoal.viz.videos import camera_for, has_picture, video_key

        preload()
        if not has_picture(self.plan.env):
            return None
        camera = camera_for(self.plan)
        weights = jax.eval_shape(_fresh_policies, camera.actor, camera.env, video_key(self.plan))
        camera.compile(weights, video_key(self.plan))
        return camera


def _fresh_policies(agent: Agent, env: Env, key: Key) -> Any:
    return jax.vmap(lambda a, e: a.policy_state(a.init(key, e)))(agent, env)  # for its shapes
