"""A local stand-in for the GraphQL API of W&B: it answers wandb's own public client, which the tests run in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "local-" + "5ec0" * 10
"""A key of no account. Nothing that octavo writes or prints may hold it."""


@dataclass
class Run:
    """A run as W&B holds it."""

    rows: list[dict[str, Any]]
    state: str = "finished"
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    last: int | None = None
    """Last step that the history is said to have; None: that of the rows."""
    parquet: list[bytes] = field(default_factory=list)
    """Older rows, as files; `rows` then holds what is newer."""
    last_of_parquet: int = -1

    @property
    def last_step(self) -> int:
        return self.last if self.last is not None else max([self.last_of_parquet, *(row["_step"] for row in self.rows)])


@dataclass
class Faults:
    """Answers instead of the right one, by the name of a query: (status, body), the last one for good."""

    answers: dict[str, list[tuple[int, Any] | None]] = field(default_factory=dict)

    def next(self, query: str) -> tuple[int, Any] | None:
        waiting = self.answers.get(query, [])
        return waiting.pop(0) if len(waiting) > 1 else waiting[0] if waiting else None


class Wandb:
    """`runs` maps `entity/project/id` to a run."""

    def __init__(self, runs: dict[str, Run], faults: Faults, address: str) -> None:
        self.runs, self.faults, self.address = runs, faults, address
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """(name, variables) of every query."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
        own = {"WANDB_BASE_URL": self.address, "WANDB_API_KEY": KEY, "WANDB_X_GRAPHQL_RETRY_MAX": "1"}
        return kept | own | {"NO_PROXY": "*", "no_proxy": "*", "WANDB_ERROR_REPORTING": "false"}

    def answer(self, name: str, variables: dict[str, Any]) -> tuple[int, Any]:
        if (fault := self.faults.next(name)) is not None:
            return fault
        if name in ("Viewer", "GetDefaultEntity"):
            return 200, {"data": {"viewer": {"id": "1", "entity": "team", "username": "u", "flags": "{}", "teams": {"edges": []}}}}
        run_id = variables.get("run") or variables.get("name") or variables.get("runName")
        run = self.runs.get(f"{variables.get('entity')}/{variables.get('project')}/{run_id}")
        return 200, {"data": {"project": {"run": None if run is None else self._fields(name, run, str(run_id), variables)}}}

    def _fields(self, name: str, run: Run, run_id: str, variables: dict[str, Any]) -> dict[str, Any]:
        keys = {"lastStep": run.last_step, "keys": {}}
        if name == "HistoryPage":
            first, stop = variables["minStep"], variables["maxStep"]
            return {"history": [json.dumps(row) for row in run.rows if first <= row["_step"] < stop]}
        if name == "RunParquetHistory":
            urls = [f"{self.address}/parquet/{run_id}/{index}" for index in range(len(run.parquet))]
            return {"parquetHistory": {"liveData": [{"_step": row["_step"]} for row in run.rows[:1]], "parquetUrls": urls}}
        if name == "RunHistoryKeys":
            return {"historyKeys": keys}
        empty = dict.fromkeys(("sweepName", "group", "jobType", "commit", "description", "notes"))
        config = {key: {"value": value} for key, value in run.config.items()}
        return empty | {
            "id": "x", "projectId": "7", "tags": [], "name": run_id, "displayName": "a name", "state": run.state, "readOnly": False,
            "createdAt": "2026-01-01T00:00:00", "heartbeatAt": "2026-01-01T00:00:00", "systemMetrics": "{}",
            "config": json.dumps(config), "summaryMetrics": json.dumps(run.summary), "historyLineCount": len(run.rows),
            "historyKeys": keys, "user": {"name": "U", "username": "u"},
        }  # fmt: skip


@contextlib.contextmanager
def wandb(runs: dict[str, Run], faults: Faults | None = None) -> Iterator[Wandb]:
    """The stand-in on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self._body()
            if self.path != "/graphql":  # telemetry of the client
                return self._send(200, b"{}")
            asked = json.loads(body)
            name = re.search(r"query\s+(\w+)", asked["query"])[1]  # type: ignore[index]
            stand_in.asked.append((name, asked.get("variables") or {}))
            status, content = stand_in.answer(name, asked.get("variables") or {})
            return self._send(status, json.dumps(content).encode())

        def do_GET(self) -> None:
            _, kind, run_id, *index = self.path.split("/")
            files = [
                file for name, run in stand_in.runs.items() for file in run.parquet if kind == "parquet" and name.endswith("/" + run_id)
            ]
            self._send(200 if files else 404, files[int(index[0])] if files else b"{}")

        do_HEAD = do_GET

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _send(self, status: int, body: bytes) -> None:
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in = Wandb(runs, faults or Faults(), f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
