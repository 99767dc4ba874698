"""A headless browser for tests: Chromium, driven with the DevTools protocol over a pair of pipes.

`--remote-debugging-pipe` reads commands from file descriptor 3 and writes answers and events to 4, each as JSON that
ends with a NUL byte. No port is opened, and no library is needed.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60  # until an answer must have come
ARGUMENTS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
)

# With all folded parts open: what is wider than the page, pictures that do not decode, links that lead nowhere.
LOOK = """(async () => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const pictures = [...document.images];
  const failed = await Promise.all(pictures.map((each) => each.decode().then(() => [], () => [each.src.slice(0, 80)])));
  const outside = [...document.querySelectorAll("body *")].filter(
    (each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scroll, pre"));
  const charts = [...document.querySelectorAll("svg.plot")].map((each) => each.getBoundingClientRect());
  return {
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    outside: outside.map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`),
    pictures: pictures.length,
    failed: failed.flat(),
    lost: [...document.querySelectorAll('a[href^="#"]')].map((a) => a.hash).filter((at) => !document.querySelector(at)),
    styled: getComputedStyle(document.querySelector("main")).maxWidth,
    charts: charts.length,
    flat: charts.filter((each) => each.width < 150 || each.height < 100).length,
  };
})()"""

# The browser reads its commands from descriptor 3 and writes to 4. A `preexec_fn` would fork, of which JAX warns.
CONNECT = """
import os, sys
commands, answers, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
os.dup2(commands, 1000)
os.dup2(answers, 1001)
os.dup2(1000, 3)
os.dup2(1001, 4)
os.execv(words[0], words)
"""


def program() -> str | None:
    """The path of an installed Chromium; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium. `events` holds all events since the last `open`."""

    def __init__(self, profile: Path) -> None:
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        path = program()
        assert path, "no Chromium is installed"
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses to start as root with one

        words = [path, *ARGUMENTS, *sandbox, f"--user-data-dir={profile}", "about:blank"]
        start = [sys.executable, "-c", CONNECT, str(commands), str(answers), *words]
        with open(profile / "browser.log", "wb") as log:
            self._process = subprocess.Popen(start, pass_fds=(commands, answers), stdout=log, stderr=log)
        os.close(commands)
        os.close(answers)
        self._buffer, self._last, self._session, self.events = b"", 0, "", []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, file: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a file at a width in pixels, and wait until it is loaded."""
        self.events = []
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=file.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def picture(self, file: Path, whole: bool = True) -> Path:
        """Save a picture of the page, of all of it or of what the window shows."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}
        options = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"]))
        return file

    def complaints(self) -> list[str]:
        """What the page wrote to the console, exceptions, violations of its policy, and requests to a network."""
        found = []
        for event in self.events:
            method, parameters = event["method"], event["params"]
            if method == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
            elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                found.append(json.dumps(parameters)[:300])
            elif method == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                found += [f"request: {url[:200]}"] * (not url.startswith(("file:", "data:")))
        return found

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(timeout=SECONDS)
        for end in (self._to, self._from):
            os.close(end)

    def _receive(self) -> dict[str, Any]:
        """The next message; an event is also appended to `events`."""
        until = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser did not answer within {SECONDS} s"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
