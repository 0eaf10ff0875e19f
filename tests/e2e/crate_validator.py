"""The public validator of RO-Crates without a network: the one document that it fetches is put into its cache beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import requests
from requests.adapters import BaseAdapter

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


class _Stored(BaseAdapter):
    """Answers with the context of RO-Crate that the library `rocrate` brings along; its terms are those of 1.1 and newer ones."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        import rocrate
        from urllib3 import HTTPResponse

        content = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text())
        terms = {name: str(where).replace("bioschemas.org/terms/", "bioschemas.org/") for name, where in content["@context"].items()}
        body = json.dumps({"@context": terms}).encode()
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = 200, str(request.url), request
        answer.headers["Content-Type"] = "application/ld+json"
        answer.raw = HTTPResponse(
            body=__import__("io").BytesIO(body), headers={"Content-Type": "application/ld+json"}, preload_content=False
        )
        return answer

    def close(self) -> None:
        """Nothing is open."""


def problems(crate: Path, profile: str, cache: Path) -> list[str]:
    """What the validator demands (severity REQUIRED) and does not find."""
    from requests_cache import CachedSession
    from rocrate_validator import models, services

    with CachedSession(cache_name=str(cache), backend="sqlite", allowable_methods=("GET",), expire_after=-1) as session:
        session.mount("https://", _Stored())
        session.get(CONTEXT, headers={"Accept": "application/ld+json, application/json, */*;q=0.1"}, allow_redirects=True)
    settings = services.ValidationSettings(
        rocrate_uri=str(crate), profile_identifier=profile, requirement_severity=models.Severity.REQUIRED, cache_path=cache, offline=True
    )
    return [f"{issue.check.identifier}: {issue.message} {issue.violatingEntity}" for issue in services.validate(settings).get_issues()]
