"""A headless Chromium that tests ask questions, over its own debugging pipe: no port, no library, no network."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
_FLAGS += ("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--disable-dev-shm-usage")
_SECONDS = 120
"""So long an answer may take on a busy machine; nothing waits for it that has come."""


class Browser:
    """One tab. `requested` holds every address that its pages asked for, `errors` what their scripts threw, `violations` what their
    policies kept a browser from."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._rest, self._number = write, read, b"", 0
        self._events: list[dict[str, Any]] = []
        self.requested: list[str] = []
        self.errors: list[str] = []
        self.violations: list[str] = []
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def open(self, page: Path | str, *, width: int = 1280, dark: bool = False) -> None:
        """Load a page from the file system, or an address, and wait until it is complete."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.media(scheme)
        self._events.clear()
        self._ask("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self._until("Page.loadEventFired")
        # the theme keeps the first choice for the whole folder, so asking the media query anew does not change it
        still = "* {transition: none !important}"
        self.run(f"document.adoptedStyleSheets = [new CSSStyleSheet()]; document.adoptedStyleSheets[0].insertRule('{still}')")
        self.run(f"document.body.setAttribute('data-md-color-scheme', '{'slate' if dark else 'default'}')")

    def media(self, features: list[dict[str, str]]) -> None:
        """What the reader's system prefers, of the page that is open."""
        self._ask("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        reply = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self._events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, event: str) -> None:
        while not any(seen.get("method") == event for seen in self._events):
            self._events.append(self._message())

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0], "the browser does not answer"
            part = os.read(self._read, 1 << 16)
            assert part, "the browser is gone"
            self._rest += part
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        if message.get("method") == "Network.requestWillBeSent":
            self.requested.append(message["params"]["request"]["url"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]["exceptionDetails"])[:500])
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["source"] == "security":
            self.violations.append(message["params"]["entry"]["text"])
        return message


@contextmanager
def browser() -> Iterator[Browser]:
    """A fresh browser with an own profile; both are gone afterwards."""
    assert CHROMIUM
    profile = tempfile.mkdtemp(prefix="octavo-browser-")
    to_it, we_write = os.pipe()
    we_read, from_it = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_it, from_it)]  # 3 and 4 are where the browser looks

    def places() -> None:
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    with open(os.devnull, "wb") as quiet:
        process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"], preexec_fn=places, close_fds=False, stdout=quiet, stderr=quiet
        )
    for end in (to_it, from_it, *high):
        os.close(end)
    try:
        yield Browser(we_write, we_read)
    finally:
        process.kill()
        process.wait()
        for end in (we_write, we_read):
            os.close(end)
        shutil.rmtree(profile, ignore_errors=True)
