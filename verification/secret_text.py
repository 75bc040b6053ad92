"""Finds what must not be in a log: keys, webhook secrets, addresses, numbers."""

import re

# Alternatives are tried in order at each place, so what `keep` matches is never cut.
_PATTERN = re.compile(
    r"""
    (?P<keep>
        \b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b      # a UUID
      | \b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?               # a moment
    )
    | (?P<key>vrf_(?:test|live)_[0-9A-Za-z]+)
    | (?P<secret>whsec_[0-9A-Za-z+/=_-]+)
    | (?P<link>(?<=/[bcpr]/)[0-9A-Za-z]{16,})
    | (?P<email>[\w.%+'-]+@[\w-]+(?:\.[\w-]+)*)
    | (?P<phone>\+\d(?:[\s()-]{0,2}\d){6,14})
    | (?P<number>\d{7,})
    """,
    re.VERBOSE,
)


def redacted(text: str) -> str:
    return _PATTERN.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "keep" else f"[{match.lastgroup}]"
