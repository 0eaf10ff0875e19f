"""Where older cards and folders come from: the disk and git's history, or another revision's compiled texts."""

from __future__ import annotations

import hashlib

from compiler.commands.plan_git import commits_of, show
from compiler.lock.dvc_lock import Entry
from compiler.lock.files import Cache, Files

DEPTH = 8
"""So many older commits of a card are looked at."""
BUDGET = 60
"""So many cards are looked for in git: a thousand changed cards change for one reason."""


class OnDisk:
    """What was compiled last lies on disk until the next compile; after it, in git when it was committed."""

    def __init__(self, cache: Cache) -> None:
        self.disk, self.cache, self.left = Files(cache.root, {}), cache, BUDGET

    def text(self, path: str, entry: Entry) -> str | None:
        if self.disk.md5(path) == entry.md5:
            return self.disk.text(path)
        if self.left <= 0:
            return None
        self.left -= 1
        for commit in commits_of(path, DEPTH):
            found = show(commit, path)
            if found is not None and hashlib.md5(found.encode(), usedforsecurity=False).hexdigest() == entry.md5:
                return found
        return None

    def listing(self, path: str, entry: Entry) -> dict[str, str]:
        return self.cache.listing(entry.md5)


class AtRevision:
    """Another revision's files, its compiled cards among them."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def text(self, path: str, entry: Entry) -> str | None:
        return self.files.text(path)

    def listing(self, path: str, entry: Entry) -> dict[str, str]:
        return self.files.listing(path)
