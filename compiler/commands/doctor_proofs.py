"""What `octavo doctor` asks of the proof checkers: Coq, and whichever Lean this machine is set to use."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from compiler.commands.doctor import Line, Needs

REACH_SECONDS = 3.0


def checks(needs: Needs) -> Iterator[Line]:
    """One line a checker; missing only where a live experiment needs it."""
    try:
        from stages.train.verifiers.faults import VerifierUnavailable
    except ImportError:
        return  # the line about the sandbox says so
    for kind, found in (("coq", _coq), ("lean", _lean)):
        try:
            yield Line(kind, "ok", found())
        except ImportError:
            return
        except VerifierUnavailable as error:
            wanted = kind in needs.sandbox
            asked = "" if wanted else "; no live experiment needs it"
            yield Line(kind, "missing" if wanted else "optional", f"{error.what}{asked}", error.fix)


def _coq() -> str:
    from stages.train.verifiers.coq_pool import coqtop

    return f"Coq {coqtop()[1]}"


def _lean() -> str:
    """Raises VerifierUnavailable, also for a server that nobody answers at."""
    from stages.train.verifiers.faults import VerifierUnavailable
    from stages.train.verifiers.lean_setup import PROGRAM, REPL, SERVER, installation

    found = installation()
    if found.kind != "server":
        where = f"the REPL of {REPL}" if found.kind == "repl" else f"a plain program ({PROGRAM}, or lean on PATH)"
        return f"Lean {found.version}, {where}"
    parts = urlsplit(found.url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)), REACH_SECONDS).close()
    except OSError:
        raise VerifierUnavailable(
            f"nobody answers at the address in {SERVER}",
            why="the gate `lean` asks a kimina-lean-server there",
            fix=f"start the server, or: unset {SERVER}",
        ) from None
    return f"a kimina-lean-server ({SERVER}) answers"
