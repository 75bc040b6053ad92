"""Identity and registration numbers, as they are compared everywhere."""

import re
import unicodedata


def normalised(identifier: str) -> str:
    """The number without case, spacing and punctuation, in compatibility form."""
    text = unicodedata.normalize("NFKC", identifier).upper()
    return re.sub(r"[\s\-./]", "", text)
