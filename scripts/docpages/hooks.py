"""What mkdocs does to pages: an anchor of a repeated heading gets the number as mkdocs writes it."""

from __future__ import annotations

import re
from typing import Any, Final

_HEADING: Final = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
_REPEATED: Final = re.compile(r"\(#([a-z0-9-]+)-(\d+)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The specification is read on code hosts too, where the second `query` of a page is `query-1`, not `query_1`."""
    slugs = [re.sub(r"\W+", "-", heading.lower()).strip("-") for heading in _HEADING.findall(markdown)]

    def link(found: re.Match[str]) -> str:
        return f"(#{found[1]}_{found[2]})" if slugs.count(found[1]) > 1 else found[0]

    return _REPEATED.sub(link, markdown)
