"""Parts of a page that a program writes: `<!-- bench:NAME -->` ... `<!-- /bench:NAME -->`, alone on lines or in a line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpufleet.errors import Invalid

PART = re.compile(r"<!-- bench:(?P<name>[\w-]+) -->(?P<old>.*?)<!-- /bench:(?P=name) -->", re.DOTALL)
OPEN = re.compile(r"<!-- /?bench:[\w-]+ -->")


def rewritten(page: str, parts: Mapping[str, str], called: str) -> str:
    """The page with every part replaced; all else is left as it is.

    A part that begins on its own line stays on lines of its own. Raises Invalid for a marker that has no end, and for a
    name that nothing was made for.
    """

    def fresh(match: re.Match[str]) -> str:
        name, old = match["name"], match["old"]
        if name not in parts:
            raise Invalid(f"{called}: part '{name}' is not known; known are {', '.join(sorted(parts))}.")
        new = f"\n\n{parts[name].strip()}\n\n" if old.startswith("\n") else parts[name].strip()
        return f"<!-- bench:{name} -->{new}<!-- /bench:{name} -->"

    loose = OPEN.search(PART.sub("", page))
    if loose:
        raise Invalid(f"{called}: {loose[0]} has no partner.")
    return PART.sub(fresh, page)
