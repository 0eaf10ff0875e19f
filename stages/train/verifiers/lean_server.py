"""A kimina-lean-server checks the proofs: `POST /api/check` with snippets, the REPL's answer for each of them.

One refusal there (429, 5xx) fails a whole request, so what was refused is asked again in halves, down to single proofs; what is still
refused then is unknown. The server sees no CPU time, so a proof that runs out of time is asked again alone before that counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

from stages.train.verifiers import lean_text, proofs
from stages.train.verifiers.lean_read import messages, read
from stages.train.verifiers.lean_setup import SERVER_KEY
from stages.train.verifiers.lean_text import Body, Job
from stages.train.verifiers.proofs import Checked
from stages.train.verifiers.verifier import Verdicts
from stages.train.verifiers.web import post

BATCH = 16
ATTEMPTS = 3
"""Requests for a single proof."""
PAUSE_SECONDS = 1.0
ANSWER_BYTES = 64 * 2**20
_TIMED_OUT = "timed out"


class _Refused(Exception):
    """The server did not answer a request."""


class Server(Verdicts[Job, Checked]):
    """The verifier behind an address."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__()

    def check(self, jobs: list[Job]) -> dict[Job, Checked]:
        results = {job: bad for job in jobs if (bad := lean_text.refused(job))}
        waiting = [job for job in jobs if job not in results]
        for start in range(0, len(waiting), BATCH):
            part = waiting[start : start + BATCH]
            results |= zip(part, self._some(part), strict=True)
        return results

    def _some(self, jobs: Sequence[Job]) -> list[Checked]:
        reason = ""
        for attempt in range(ATTEMPTS if len(jobs) == 1 else 1):
            time.sleep(PAUSE_SECONDS * attempt)
            try:
                results = self._asked(jobs)
            except _Refused as refused:
                reason = str(refused)
                continue
            late = [place for place, result in enumerate(results) if result.outcome == "timeout"]
            for place in late if len(jobs) > 1 else ():
                results[place] = self._some([jobs[place]])[0]
            return results
        if len(jobs) == 1:
            return [proofs.unknown(f"the Lean server {reason}")]
        half = len(jobs) // 2
        return [*self._some(jobs[:half]), *self._some(jobs[half:])]

    def _asked(self, jobs: Sequence[Job]) -> list[Checked]:
        bodies = [lean_text.body(job) for job in jobs]
        codes = [f"{job.header}\n{body.text}" for job, body in zip(jobs, bodies, strict=True)]
        seconds = max(job.cpu for job in jobs)
        snippets = [{"id": str(place), "code": code} for place, code in enumerate(codes)]
        order = {"snippets": snippets, "timeout": int(seconds + 0.999), "debug": False, "reuse": True}
        answer = self._posted(order, seconds * len(jobs) + 60)
        try:
            results = {str(result["id"]): result for result in answer["results"]}
            return [
                _read(job, body, code, results[str(place)]) for place, (job, body, code) in enumerate(zip(jobs, bodies, codes, strict=True))
            ]
        except (KeyError, TypeError, ValueError):
            raise _Refused("did not answer as a kimina-lean-server does") from None

    def _posted(self, content: dict[str, Any], seconds: float) -> Any:
        key = os.environ.get(SERVER_KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            status, body = post(f"{self.url}/api/check", json.dumps(content).encode(), seconds, ANSWER_BYTES, headers)
            if status != 200:
                raise _Refused(f"answered with status {status}")
            return json.loads(body)
        except (OSError, ValueError, RecursionError) as error:
            raise _Refused(f"cannot be reached: {type(error).__name__}") from None


def _read(job: Job, body: Body, code: str, result: dict[str, Any]) -> Checked:
    error, response = result.get("error"), result.get("response")
    if error:
        if _TIMED_OUT in error and "header" not in error:
            return Checked("timeout", f"used more than {job.cpu:g} s", keep=False)
        return proofs.unknown(f"the Lean server says: {error}")
    if not isinstance(response, dict) or "message" in response:
        return proofs.unknown(f"the REPL of the Lean server says: {str(response)[:100]}")
    header_lines = code[: len(code) - len(body.text)].count("\n") - _taken_off(code)
    return read(job, body, messages(response.get("messages") or [], header_lines), bool(response.get("sorries")))


def _taken_off(code: str) -> int:
    """Lines at the top, imports and empty ones, that the server checks by themselves: its messages count from the line after them."""
    for count, line in enumerate(code.split("\n")):
        if line.strip() and not line.strip().startswith("import "):
            return count
    return 0
