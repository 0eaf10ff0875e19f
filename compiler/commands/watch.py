"""`octavo watch`: the page of a running experiment on this machine, renewed while runs go on.

The page is written by `octavo page --now`, a process of low priority, when files have changed; a browser is served what was written last.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from compiler.build.inputs import Inputs
from compiler.commands.page import experiment_folder, page_file, site_folder
from stages.contracts.artifact import ArtifactError, read
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard

LOOK_SECONDS = 2.0
"""Between two looks at the files."""
LEAST_SECONDS, SHARE = 10.0, 0.1
"""Between two renewals at least: this, and so long that they take this share of one core."""
NOTE = b"<!-- octavo: note -->"
"""Of a page: where a note of the server goes."""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Serve until Ctrl-C. Raises Rejected E321 (no such experiment)."""
    folder = experiment_folder(options.experiment)
    os.nice(10)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has begun it in the background
        signal.signal(number, signal.default_int_handler)
    note = _Note()
    page = page_file(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, note=note, directory=site_folder(folder).absolute())) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{page.relative_to(site_folder(folder)).as_posix()}"
        print(f"{address}\nrenewed when files change; end it with Ctrl-C", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            _renew(folder, note, options.every)
        server.shutdown()
    print("\nended; the last page stays in", page)
    return 0


class _Note:
    """What the server adds to the page, when the newest renewal failed."""

    text = ""


def _renew(folder: ExperimentFolder, note: _Note, every: int | None) -> None:
    """Write the page whenever something has changed since it was written last. `every`: seconds between two renewals at least."""
    command = [sys.executable, "-m", "compiler", "page", "--now", folder.name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    shown, failed = None, None
    while True:
        now = _state(folder)
        if now == shown:
            time.sleep(LOOK_SECONDS)
            continue
        begun, cost = time.monotonic(), _children_seconds()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        cost = _children_seconds() - cost
        clock = f"{datetime.now():%H:%M:%S}"
        words = done.stdout.strip().partition(": ")[2] or f"the page could not be renewed, so the last one stays. {done.stderr.strip()}"
        note.text = f"{clock}: {words}" if done.returncode else ""
        if not done.returncode or now == failed:  # what failed twice waits for a change
            shown = now
        failed = now if done.returncode else None
        print(f"{clock}  {words}  ({cost:.1f} s of CPU)", flush=True)
        least = max(LEAST_SECONDS, cost / SHARE) if every is None else every
        time.sleep(max(0.0, least - (time.monotonic() - begun)))


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _state(folder: ExperimentFolder) -> Any:
    """What the page hangs on: files with their times, and which runs a process holds."""
    from stages.train.attempts import holder
    from stages.train.unfinished import watched

    try:
        runs = [folder.run(ref.name) for ref in read(PageCard, folder.page_card).runs]
        files = [folder.page_card, folder.screen_card, folder.conclude_card, folder.draw_card, folder.preflight]
        files += [file for run in runs for file in watched(run)]
    except (ArtifactError, OSError) as error:
        return str(error)
    return [_stamp(file) for file in files], [holder(run) for run in runs]


def _stamp(file: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = file.stat()
        return status.st_mtime_ns, status.st_size
    return None


class _Handler(SimpleHTTPRequestHandler):
    """Serves the site to this machine's browsers; a note goes into each page."""

    def __init__(self, *arguments: Any, note: _Note, **options: Any) -> None:
        self.note = note
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        host, path = self.headers.get("Host", "").partition(":")[0], Path(self.translate_path(self.path))
        if host not in ("127.0.0.1", "localhost"):  # a page of the web that has given its own name this address
            self.send_error(403)
        elif path.suffix == ".html":
            self._send_page(path)
        else:
            super().do_GET()

    def _send_page(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError:
            content = b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="3"><title>octavo</title>'
            content += b"<p>No page has been written yet.</p>" + NOTE
        note = f'<div class="banner hole" role="note"><p>{html.escape(self.note.text)}</p></div>' if self.note.text else ""
        content = content.replace(NOTE, note.encode("utf-8", "replace"))
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing of requests."""
