"""Identifying numbers in one form. A file of its own: the sandbox loads no more."""

import re
import unicodedata


def normalise_identifier(identifier: str) -> str:
    """Return the number in capitals and compatibility form, without punctuation."""
    text = unicodedata.normalize("NFKC", identifier).upper()
    return re.sub(r"[\s\-./]", "", text)
