"""`page/numbers.js`: the passports again, for the script that opens one where its number stands.

A script file and not JSON, because a page that was opened from the file system may load scripts and nothing else. It calls
`octavo.numbers` with the HTML of each passport and record, made by the templates of the page of numbers, so that both say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from stages.publish.passports import Passport, Record
from stages.publish.render import environment


def script(passports: Iterable[Passport], records: Iterable[Record]) -> str:
    """JavaScript: one call with an object of anchor -> HTML. No text in it can end a script element."""
    written = environment().get_template("passports.html.j2").module
    found = {entry.anchor: str(written.passport(entry)) for entry in passports}  # type: ignore[attr-defined]
    found |= {entry.anchor: str(written.record(entry)) for entry in records}  # type: ignore[attr-defined]
    return f"octavo.numbers({literal(found)});\n"


def literal(value: object) -> str:
    """A value as JavaScript: JSON in ASCII, in which `<` and `&` are written as escapes."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")
