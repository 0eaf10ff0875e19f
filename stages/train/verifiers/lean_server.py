"""A kimina-lean-server takes out proofs that fail: `POST /api/check` with one snippet, the REPL's answer for it.

It holds the answer, the check and its verdict in one process, so it can prove nothing: what it lets through, does not know or refuses,
the program on this machine decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from stages.train.verifiers import lean_text
from stages.train.verifiers.lean_read import messages, read
from stages.train.verifiers.lean_setup import SERVER_KEY
from stages.train.verifiers.lean_text import Job
from stages.train.verifiers.verdict import CLASSES, Checked
from stages.train.verifiers.web import post

REQUESTS = 16
"""At a time; the server lets those wait for which it has no REPL."""
WAIT_SECONDS = 600.0
"""How long a proof may wait for its turn."""
ANSWER_BYTES = 8 * 2**20


def failures(url: str, jobs: Sequence[Job]) -> dict[Job, Checked]:
    """Verdicts of proofs that fail by the server's word. Never raises: what it does not say is not there."""
    with ThreadPoolExecutor(REQUESTS) as threads:
        verdicts = dict(zip(jobs, threads.map(lambda job: _asked(url, job), jobs), strict=True))
    return {job: verdict for job, verdict in verdicts.items() if verdict and verdict.outcome in CLASSES and verdict.outcome != "timeout"}


def _asked(url: str, job: Job) -> Checked | None:
    if bad := lean_text.refused(job):
        return bad
    body = lean_text.body(job)
    code = f"{job.header}\n{body.text}".encode("utf-8", "replace").decode()
    order = {"snippets": [{"id": "0", "code": code}], "timeout": int(job.cpu + 0.999), "debug": False, "reuse": True}
    key = os.environ.get(SERVER_KEY)
    try:
        url, headers = f"{url}/api/check", {"Authorization": f"Bearer {key}"} if key else {}
        status, answer = post(url, json.dumps(order).encode(), job.cpu + WAIT_SECONDS, ANSWER_BYTES, headers)
        result = json.loads(answer)["results"][0] if status == 200 else {}
        if result.get("error") or "messages" not in result["response"]:
            return None
        header_lines = job.header.count("\n") + 1 - _taken_off(code)
        return read(job, body, messages(result["response"]["messages"], header_lines))
    except (OSError, KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _taken_off(code: str) -> int:
    """Lines at the top, imports and empty ones, that the server checks by themselves: its messages count from the line after them."""
    lines = enumerate(code.split("\n"))
    return next((count for count, line in lines if line.strip() and not line.strip().startswith("import ")), 0)
