"""A sink that draws the learning curves and the videos of a run when it is finished."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from shoal.core.agent import Agent
from shoal.core.env import Env, Key
from shoal.tracking.events import Compiled, Event, Finished, Message, Recorded, Sink
from shoal.training.folder import RunFolder
from shoal.training.host_envs import needs_host
from shoal.training.plan import Plan
from shoal.training.policy import policies_of
from shoal.training.result import Result


class FigureSink(Sink):
    """Draws the figures and videos of a finished run.

    During training a thread imports the drawing libraries and compiles the program that records the videos.
    """

    def __init__(self, plan: Plan, folder: RunFolder) -> None:
        """The pictures are written to `figures/` and `videos/` of the folder."""
        self.plan, self.folder = plan, folder
        self._recorder: Future | None = None

    def receive(self, event: Event) -> Iterator[Message] | None:
        """Start the preparation when training starts; draw when it is finished, and yield messages meanwhile."""
        if isinstance(event, Compiled):
            pool = ThreadPoolExecutor(1)
            self._recorder = pool.submit(self._prepare)
            pool.shutdown(wait=False)  # do not wait: training starts now
        if isinstance(event, Recorded) and self._has_video(event.updates):
            steps = event.updates * self.plan.agent.steps_per_update
            return (Message(text) for text in self._draw_videos(best_at=steps))
        return (Message(text) for text in self._draw()) if isinstance(event, Finished) else None

    def _has_video(self, updates: int) -> bool:
        """Whether there is a video after so many updates while the run trains."""
        every = self.plan.spec.videos_every
        return bool(every) and any(
            self.plan.boundary(record) == updates for record in range(every - 1, self.plan.records, every)
        )

    def _draw(self) -> Iterator[str]:
        """Draw the figures and the videos. Yields a sentence at the start, and one for each that could not be drawn."""
        from shoal.viz.curves import plot_figures

        yield "the run is complete; drawing its figures and videos (Ctrl-C leaves them out)"
        try:
            plot_figures(self.folder.path)
        except ValueError as error:  # for example, no episode has ended in a very short run
            yield f"no learning curve: {error}"
        yield from self._draw_videos()

    def _draw_videos(self, best_at: int | None = None) -> Iterator[str]:
        """Draw the videos; with `best_at`, a number of steps, only that of the best member. Yields what went wrong."""
        from shoal.viz.videos import draw_members

        try:
            recorder = self._recorder.result() if self._recorder else self._prepare()
            if recorder is None:
                hint = "" if needs_host(self.plan.env) else " (define render(state) in its class)"
                yield f"no videos: {self.plan.spec.env_name} has no pictures{hint}"
                return
            result = Result(self.folder.path)
            try:
                result.number_of("best")
            except ValueError as error:
                yield f"no videos: {error}"
                return
            policies = policies_of(self.plan, self.folder)
            draw_members(self.plan, policies, result.ranking(), self.folder.videos, recorder, best_at=best_at)
        except Exception as error:  # an error in a user's own `render` must not end the run before its table is printed
            hint = f"`shoal render {self.folder.path} --debug` prints the traceback"
            yield f"no videos: drawing {self.plan.spec.env_name} failed with {error!r}; {hint}"

    def _prepare(self) -> Any:
        """The compiled recorder of the videos; None if the environment has no pictures."""
        from shoal.viz.style import preload
        from shoal.viz.videos import has_picture, recorder_for, video_key

        preload()
        if not has_picture(self.plan.env):
            return None
        recorder = recorder_for(self.plan)
        weights = jax.eval_shape(_fresh_policies, recorder.actor, recorder.env, video_key(self.plan))
        recorder.compile(weights, video_key(self.plan))
        return recorder


def _fresh_policies(agent: Agent, env: Env, key: Key) -> Any:
    return jax.vmap(lambda a, e: a.policy_state(a.init(key, e)))(agent, env)
