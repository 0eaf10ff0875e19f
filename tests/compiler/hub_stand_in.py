"""A local stand-in for the Hugging Face hub: answers questions about repositories, and octavo run against it in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOKEN = "hf_" + "standInTokenOfNoAccount123"


class Hub:
    """`answers` maps a path such as `/api/models/owner/name` to {"status": 200, "body": {...}, "headers": {...}, "wait": 0}."""

    def __init__(self, answers: dict[str, dict[str, Any]], address: str) -> None:
        self.answers, self.address = answers, address
        self.asked: list[tuple[str, str | None]] = []
        """(path, Authorization) of every request."""


@contextlib.contextmanager
def hub(answers: dict[str, dict[str, Any]]) -> Iterator[Hub]:
    """The stand-in on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].removesuffix("/revision/main")
            stand_in.asked.append((path, self.headers.get("Authorization")))
            answer = stand_in.answers.get(path, {"status": 404, "headers": {"X-Error-Code": "RepoNotFound"}})
            time.sleep(answer.get("wait", 0))
            body = json.dumps(answer.get("body", {})).encode()
            with contextlib.suppress(OSError):
                self.send_response(answer.get("status", 200))
                for name, value in answer.get("headers", {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in = Hub(answers, f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()


def octavo(*arguments: str, endpoint: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in the working directory, with the hub at `endpoint`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    own = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_HOME": "hf", "PYTHONPATH": str(ROOT), "NO_PROXY": "*", "no_proxy": "*"}
    command = [sys.executable, "-m", "compiler", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**kept, **own, **environment})


def info(commit: str) -> dict[str, Any]:
    """The answer about a repository whose newest commit this is."""
    return {"body": {"id": "owner/name", "sha": commit, "private": False, "siblings": [], "tags": [], "downloads": 0, "likes": 0}}
