"""One POST to a service, with a bound on the time of the whole call."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

import requests

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def post(url: str, content: bytes, seconds: float, most: int, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """(status, at most `most` bytes of the body). Redirects, proxies and the user's .netrc are not followed.

    Raises TimeoutError when the whole call takes longer, however the service spreads its bytes, and OSError when it cannot be made.
    """
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
