"""Gate `http`: a scoring service judges. One POST for a few completions; whatever goes wrong with it is unknown, never a score.

Request: {"completions": [{"text": "...", "truncated": false, "row": {"<column>": ...}}, ...]}. Answer, with status 200:
{"scores": [0.5, null, ...]}, one a completion, null where the service does not know. Redirects and proxies are not followed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from stages.contracts.artifact import Frozen
from stages.contracts.files import parse_json
from stages.contracts.plugin import Answer, Judgement
from stages.train.verifiers.web import post, require_allowed

ATTEMPTS = 2
"""A request that is refused with 429 or 5xx, or does not reach the service, is made once more; one that timed out is not."""
PAUSE_SECONDS = 0.5
ANSWER_BYTES = 2**20
COLUMNS = ("columns",)


class Settings(Frozen):
    """Where the service is, what is sent to it, how long it may take."""

    url: str = Field(description="Address of the service; http or https, without user name, password or fragment.")
    timeout: float = Field(10.0, gt=0, le=600, description="Wall time of one request, answer included.", json_schema_extra={"unit": "s"})
    batch: int = Field(16, ge=1, le=1024, description="Most completions in one request.")
    columns: tuple[str, ...] = Field((), description="Columns of the data row that are sent along; nothing else of it is.")
    passes_from: float = Field(1.0, ge=0, le=1, description="Lowest score that passes.")

    @field_validator("url")
    @classmethod
    def _plain_web_address(cls, url: str) -> str:
        parts = urlsplit(url)
        is_plain = url.isascii() and url.isprintable() and " " not in url and parts.hostname and parts.port != 0
        if not is_plain or parts.scheme not in ("http", "https") or parts.username or parts.password or parts.fragment:
            raise ValueError("the url is no plain http or https address: it has no fragment, and secrets do not belong in a spec")
        return url


class _Refused(Exception):
    """Why a request gave no scores."""


def require(settings: Settings) -> None:
    """Raises AddressForbidden where this machine may not call the service."""
    require_allowed(settings.url)


def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]:
    """Scores from the service; unknown for time-outs, other statuses than 200, and answers that are not as agreed."""
    judgements: list[Judgement] = []
    for start in range(0, len(answers), settings.batch):
        batch = answers[start : start + settings.batch]
        try:
            judgements += [_judgement(settings, score) for score in _scores(settings, batch)]
        except _Refused as refused:
            judgements += [_unknown(str(refused))] * len(batch)
    return judgements


def _judgement(settings: Settings, score: Any) -> Judgement:
    if score is None:
        return _unknown("the service does not know")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return _unknown(f"the service gave {str(score)[:80]!r}, which is no score from 0 to 1")
    return Judgement("pass" if score >= settings.passes_from else "fail", float(score))


def _unknown(reason: str) -> Judgement:
    return Judgement("unknown", None, "".join(letter if letter.isprintable() else " " for letter in reason)[:300])


def _scores(settings: Settings, answers: Sequence[Answer]) -> list[Any]:
    """One score an answer, as the service gave them. Raises _Refused."""
    try:
        rows = [{name: answer.row[name] for name in settings.columns} for answer in answers]
        completions = [{"text": answer.text, "truncated": answer.truncated, "row": row} for answer, row in zip(answers, rows, strict=True)]
        content = json.dumps({"completions": completions}, allow_nan=False).encode()
    except KeyError as missing:
        raise _Refused(f"a data row of the request has no column {missing}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise _Refused(f"the data row is not JSON: {error}") from None
    body = _post(settings, content)
    try:
        scores = parse_json(body, nonfinite=True)["scores"]
    except (ValueError, TypeError, KeyError):
        raise _Refused('the service did not answer {"scores": [...]}') from None
    if not isinstance(scores, list) or len(scores) != len(answers):
        raise _Refused(f"the service did not give {len(answers)} scores for {len(answers)} completions")
    return scores


def _post(settings: Settings, content: bytes) -> bytes:
    """The answer's body. Raises _Refused."""
    reason = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_SECONDS * attempt)
        try:
            status, body = post(settings.url, content, settings.timeout, ANSWER_BYTES + 1)
        except TimeoutError:
            raise _Refused(f"timeout: the service took more than {settings.timeout:g} s") from None
        except OSError as error:
            reason = f"the service cannot be reached: {type(error).__name__}: {error}"
            continue
        if status == 200 and len(body) <= ANSWER_BYTES:
            return body
        reason = f"the service answered with status {status}, or with more than {ANSWER_BYTES} bytes"
        if status != 429 and status < 500:
            break
    raise _Refused(reason)
