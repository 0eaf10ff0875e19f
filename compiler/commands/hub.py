"""What `octavo compile --update` asks of the Hugging Face hub: the newest commit of a repository. Nothing else here uses the network.

HF_ENDPOINT, HF_TOKEN, HF_HUB_ETAG_TIMEOUT and the other settings of huggingface_hub apply. A token is never printed, and neither is
what the hub answers.
"""

from __future__ import annotations

import os
import re

from compiler.build.revisions import UPDATE, Reference
from compiler.problems import Rejected
from stages.contracts.diagnostic import Diagnostic


def newest(of: Reference) -> str:
    """The newest commit of a repository's main branch. Raises Rejected: E475 the hub cannot be reached, E476 no such repository for
    this account, E477 its files are gated, E478 an answer that says nothing."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi, constants, errors

    seconds = constants.HF_HUB_ETAG_TIMEOUT
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="octavo")
    page = f"{api.endpoint}/{'datasets/' if of.kind == 'datasets' else ''}{of.name}"
    try:
        found = (api.dataset_info if of.kind == "datasets" else api.model_info)(of.name, timeout=seconds)
    except errors.OfflineModeIsEnabled:
        raise _unreached(of, "HF_HUB_OFFLINE is set, and this needs the network", f"HF_HUB_OFFLINE=0 {UPDATE}") from None
    except errors.GatedRepoError:
        raise _gated(of, page) from None
    except errors.RepositoryNotFoundError:
        raise _unknown(of, page) from None
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403, 404):
            raise (_gated if status == 403 else _unknown)(of, page) from None
        raise _unreached(of, f"the hub answered with status {status or 'none'}", f"try again: {UPDATE}") from None
    except Exception as error:  # a transport's own kinds differ between versions of the client
        if isinstance(error, KeyError | ValueError | TypeError):
            raise _unclear(of) from None
        late = "Timeout" in type(error).__name__
        what = f"it did not answer in {seconds} s" if late else "no connection"
        raise _unreached(of, what, f"check the network and HF_ENDPOINT, then {UPDATE}") from None
    commit = found.sha
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise _unclear(of)
    return commit


def _unknown(of: Reference, page: str) -> Rejected:
    return _rejected(
        "E476",
        f"the hub has no {of.kind.removesuffix('s')} `{of.name}` that this account may see",
        "a reference is pinned by the commit that the hub names; private repositories need a token",
        f"check the name at {page}; for a private one: export HF_TOKEN=...",
    )


def _gated(of: Reference, page: str) -> Rejected:
    return _rejected(
        "E477",
        f"`{of.name}` is gated, and this account has no access",
        "its owner decides who may read it, by account",
        f"ask for access at {page}, then export HF_TOKEN=... and {UPDATE}",
    )


def _unreached(of: Reference, what: str, fix: str) -> Rejected:
    why = (
        "a commit can be learnt from the hub only; specs and profiles that name nothing of the hub work without it, and nothing was changed"
    )
    return _rejected("E475", f"cannot ask the hub about `{of.name}`: {what}", why, fix)


def _unclear(of: Reference) -> Rejected:
    return _rejected(
        "E478",
        f"the hub's answer about `{of.name}` names no commit",
        "cards pin the commit; an address that is no Hugging Face hub gives none",
        f"check HF_ENDPOINT, then {UPDATE}",
    )


def _rejected(code: str, what: str, why: str, fix: str) -> Rejected:
    return Rejected([Diagnostic(code, what, why=why, fix=fix)])
