"""The pictures of a run: its learning curve and its videos, prepared while the device trains."""

from typing import Any

import jax

from shoal.core.agent import Agent
from shoal.core.env import Env, Key
from shoal.tracking.reporter import Reporter
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.plan import Plan
from shoal.training.result import Result


class Studio(Reporter):
    """Passes reports on; while the device trains, imports what draws and compiles what records the videos."""

    def __init__(self, plan: Plan, folder: RunFolder, heard_by: Reporter) -> None:
        self.plan, self.folder, self.heard_by = plan, folder, heard_by
        self._camera: Any = None

    def compiling(self, plan: Plan) -> None:
        self.heard_by.compiling(plan)

    def compiled(self, seconds: float) -> None:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1)
        self._camera = pool.submit(self._prepare)
        pool.shutdown(wait=False)  # training begins meanwhile
        self.heard_by.compiled(seconds)

    def record(self, done: int, line: dict[str, Any], steps_per_second: float, seconds_left: float) -> None:
        self.heard_by.record(done, line, steps_per_second, seconds_left)

    def message(self, text: str) -> None:
        self.heard_by.message(text)

    def finished(self, summary: dict[str, Any]) -> None:
        self.heard_by.finished(summary)

    def draw(self, run: Run) -> None:
        """The learning curve and the videos of a finished run."""
        from shoal.viz.curves import plot_run
        from shoal.viz.videos import draw_members

        try:
            plot_run(self.folder.path)
        except ValueError as error:  # a run so short that nothing has ended in it is whole all the same
            self.message(f"no learning curve: {error}")
        try:
            camera = self._camera.result()
            if camera is None:
                self.message(f"no videos: {self.plan.spec.env} has no picture (define render(state) in its class)")
                return
            draw_members(self.plan, run.policies(), Result(self.folder.path).ranking(), self.folder.videos, camera)
        except Exception as error:  # whatever the user's own `render` raises; the run is whole, and its table follows
            again = f"`shoal render {self.folder.path} --debug` shows where"
            self.message(f"no videos: drawing {self.plan.spec.env} failed with {error!r}; {again}")

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
    return jax.vmap(lambda a, e: a.policy_state(a.init(key, e)))(agent, env)
