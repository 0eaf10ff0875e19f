"""One POST to a service, with a bound on the time of the whole call."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import requests

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def post(url: str, content: bytes, seconds: float, most: int, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """(status, at most `most` bytes of the body). Redirects, proxies and the user's .netrc are not followed.

    Raises TimeoutError when the whole call takes longer, however the service spreads its bytes, and OSError when it cannot be made.
    """
    results: list[tuple[int, bytes] | Exception] = []

    def call() -> None:
        try:
            with requests.Session() as session:
                session.trust_env = False
                with session.post(
                    url, content, headers={**HEADERS, **(headers or {})}, timeout=seconds, stream=True, allow_redirects=False
                ) as answer:
                    body = b""
                    for chunk in answer.iter_content(65536):
                        body += chunk
                        if len(body) >= most:
                            break
                    results.append((answer.status_code, body[:most]))
        except Exception as error:
            results.append(error)

    worker = threading.Thread(target=call, daemon=True)  # a call that hangs must not keep the process alive
    worker.start()
    worker.join(seconds)
    if not results:
        raise TimeoutError
    (result,) = results
    if isinstance(result, requests.Timeout):
        raise TimeoutError from result
    if isinstance(result, Exception):
        raise OSError(str(result)) from result
    return result
