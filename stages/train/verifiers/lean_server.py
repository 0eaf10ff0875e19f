"""A kimina-lean-server checks the proofs: `POST /api/check` with one snippet, the REPL's answer for it. It isolates nothing by itself.

What the server refuses (429, 5xx) is asked again, and is unknown after that. It sees no CPU time, so a proof that runs out of time is
asked again before that counts.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stages.train.verifiers import lean_text
from stages.train.verifiers.lean_read import messages, read
from stages.train.verifiers.lean_setup import SERVER_KEY
from stages.train.verifiers.lean_text import Body, Job
from stages.train.verifiers.verdict import Checked, unknown
from stages.train.verifiers.verifier import Verdicts
from stages.train.verifiers.web import post

REQUESTS = 16
"""At a time; the server lets those wait for which it has no REPL."""
ATTEMPTS = 4
PAUSE_SECONDS = 1.0
WAIT_SECONDS = 600.0
"""How long a proof may wait for its turn."""
ANSWER_BYTES = 8 * 2**20


class Server(Verdicts[Job]):
    """The verifier behind an address."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__()

    def check(self, jobs: list[Job]) -> dict[Job, Checked]:
        with ThreadPoolExecutor(REQUESTS) as threads:
            return dict(zip(jobs, threads.map(self._checked, jobs), strict=True))

    def _checked(self, job: Job) -> Checked:
        if bad := lean_text.refused(job):
            return bad
        result, is_late = unknown("the Lean server gave no answer"), False
        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE_SECONDS * attempt)
            result = self._asked(job, lean_text.body(job))
            if result.outcome != "unknown" and (result.outcome != "timeout" or is_late):
                break
            is_late = result.outcome == "timeout"
        return result

    def _asked(self, job: Job, body: Body) -> Checked:
        code = f"{job.header}\n{body.text}".encode("utf-8", "replace").decode()
        order = {"snippets": [{"id": "0", "code": code}], "timeout": int(job.cpu + 0.999), "debug": False, "reuse": True}
        key = os.environ.get(SERVER_KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            url, content = f"{self.url}/api/check", json.dumps(order).encode()
            status, answer = post(url, content, job.cpu + WAIT_SECONDS, ANSWER_BYTES, headers)
        except OSError as error:
            return unknown(f"the Lean server cannot be reached: {type(error).__name__}")
        if status != 200:
            return unknown(f"the Lean server answered with status {status}")
        try:
            return _read(job, body, job.header.count("\n") + 1 - _taken_off(code), json.loads(answer)["results"][0])
        except (KeyError, IndexError, TypeError, ValueError, RecursionError):
            return unknown("the Lean server did not answer as a kimina-lean-server does")


def _read(job: Job, body: Body, header_lines: int, result: Any) -> Checked:
    error, response = result.get("error"), result.get("response")
    if error and "timed out" in error and "header" not in error:
        return Checked("timeout", f"used more than {job.cpu:g} s", keep=False)
    if error or "message" in response:
        return unknown(f"the Lean server says: {error or response['message']}")
    return read(job, body, messages(response.get("messages") or [], header_lines), bool(response.get("sorries")))


def _taken_off(code: str) -> int:
    """Lines at the top, imports and empty ones, that the server checks by themselves: its messages count from the line after them."""
    lines = enumerate(code.split("\n"))
    return next((count for count, line in lines if line.strip() and not line.strip().startswith("import ")), 0)
