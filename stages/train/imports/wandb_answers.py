"""What wandb raises -> which of three faults it is, in words of our own: what a server says is not repeated, since it may hold anything."""

from __future__ import annotations

import re

from stages.contracts.wandb_snapshot import Fault
from stages.train.imports.log import Unreadable

_STATUS = re.compile(r"(?:returned error|HTTP|status(?: code)?)[ :]+(?P<status>[1-5][0-9]{2})\b")
_NO_RUN = re.compile(r"could not find (?:run|project)|not found", re.I)
_REFUSED = re.compile(
    r"permission denied|forbidden|unauthori[sz]ed|not authori[sz]ed|invalid api key|no api key|api key must|relogin", re.I
)
_AWAY = re.compile(r"giving up after|connection|dial tcp|did not respond|timed? ?out|deadline|no such host|service process", re.I)


def fault_of(error: BaseException) -> tuple[Fault, str]:
    """The fault and a sentence."""
    if isinstance(error, ImportError):
        return "away", "wandb is not installed: pip install wandb"
    if isinstance(error, Unreadable):
        return "unclear", str(error)
    text = str(error)
    found = _STATUS.search(text)
    status = int(found["status"]) if found else None
    if status == 404 or (status is None and _NO_RUN.search(text)):
        return "unknown", "W&B has no such run for this account: it was deleted, is misspelt, or belongs to another team"
    if status == 401 or "api key" in text.lower():
        return "unknown", "W&B takes no key of this account: WANDB_API_KEY is missing or wrong"
    if status == 403 or _REFUSED.search(text):
        return "unknown", "W&B refuses this account the run"
    if status == 429:
        return "away", "W&B asks to wait (rate limit), also after several tries"
    if (status is not None and status >= 500) or _AWAY.search(text):
        return "away", "W&B does not answer, also after several tries"
    if isinstance(error, OSError):
        return "away", f"the snapshot cannot be written: {error.strerror or type(error).__name__}"
    return "unclear", f"wandb cannot use the answer ({type(error).__name__})"
