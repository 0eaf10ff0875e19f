"""One POST to a service, with a bound on the time of the whole call.

In CI strangers write specs, and a spec names addresses. There only those are called that the machine's own environment names.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from urllib.parse import urlsplit

from stages.train.verifiers.verdict import VerifierUnavailable

ALLOWED = "OCTAVO_ALLOWED_ADDRESSES"
"""Environment variable: addresses such as `https://judge.example:8443`, with spaces between them, that may be called in CI."""
LEAN_SERVER = "OCTAVO_LEAN_SERVER"
"""Environment variable: the machine's Lean server. Who sets it allows the address."""
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class AddressForbidden(VerifierUnavailable):
    """This machine may not call the address of a spec, so nothing is sent to it."""


def require_allowed(url: str) -> None:
    """Raises AddressForbidden in CI (`CI` is set) for an address that neither ALLOWED nor LEAN_SERVER names."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        return
    if _origin(url) not in {_origin(allowed) for name in (ALLOWED, LEAN_SERVER) for allowed in os.environ.get(name, "").split()}:
        scheme, host, port = _origin(url)
        address = f"{scheme}://{host}:{port}"
        raise AddressForbidden(
            f"this machine may not call {address}",
            why="in CI a spec may be a stranger's, so only the machine's own environment can allow an address, and no file of the project",
            fix=f"if you trust it, set {ALLOWED}={address} in the settings of the CI machine; or try the reward on a machine of your own",
        )


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def post(url: str, content: bytes, seconds: float, most: int, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """(status, at most `most` bytes of the body). Redirects, proxies and the user's .netrc are not followed.

    Raises TimeoutError when the whole call takes longer, however the service spreads its bytes, and OSError when it cannot
    be made, or may not.
    """
    try:
        require_allowed(url)
    except AddressForbidden as forbidden:
        raise PermissionError(forbidden.what) from None
    import requests

    result: Future[tuple[int, bytes]] = Future()

    def call() -> None:
        try:
            with requests.Session() as session:
                session.trust_env = False
                every = {**HEADERS, **(headers or {})}
                with session.post(url, content, headers=every, timeout=seconds, stream=True, allow_redirects=False) as answer:
                    result.set_result((answer.status_code, answer.raw.read(most, decode_content=True)))
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=call, daemon=True).start()  # a call that hangs must not keep the process alive
    try:
        return result.result(seconds)
    except TimeoutError:
        raise
    except Exception as error:
        raise OSError(str(error)) from error
