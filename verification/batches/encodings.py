"""Text of spreadsheets that write one byte for each letter: Windows (1252) or old Macs.

Nothing in such a file says which of the two it is. A letter that is not sure becomes
UNREADABLE, so that no wrong name is ordered.
"""

WINDOWS, MAC = "cp1252", "mac_roman"
# The replacement character of Unicode, which no file means to say
UNREADABLE = "\ufffd"
APOSTROPHES, DASHES = "\u2018\u2019", "\u2013\u2014"
OPENING, CLOSING = "\u201c\u2018«", "\u201d\u2019»"
# Other signs that stand in texts of people
SIGNS = "…•¿¡°™®©ªº€£§·"
# A letter of no name
FLORIN = "ƒ"


def decode_single_bytes(content: bytes) -> str:
    """Return the text, with UNREADABLE in place of each letter that is not sure."""
    windows, mac = (content.decode(name, errors="replace") for name in (WINDOWS, MAC))
    places = [place for place, byte in enumerate(content) if byte >= 0x80]
    likeness = {
        text: sum(_likeness(text, place) for place in places) for text in (windows, mac)
    }
    if likeness[windows] == likeness[mac]:
        unsure = [place for place in places if windows[place] != mac[place]]
    else:
        windows = max(likeness, key=likeness.__getitem__)
        unsure = [place for place in places if not _likeness(windows, place)]
    letters = list(windows)
    for place in unsure:
        letters[place] = UNREADABLE
    return "".join(letters)


def _likeness(text: str, place: int) -> int:
    """Return how well the character fits between its neighbours, from 0 to 3."""
    letter = text[place]
    before = text[place - 1] if place else ""
    after = text[place + 1 : place + 2]
    starts, ends = not before.isalpha(), not after.isalpha()
    if letter.isspace() or (letter in DASHES and starts and ends):
        return 2
    if letter.isupper() or letter.islower():
        if not _is_at_home(letter, before, after, text[max(place - 2, 0) : place]):
            return 0
        return 1 if starts and ends else 2
    if letter in APOSTROPHES and not (starts or ends):
        # Ng'ang'a, O'Brien, the bank's
        is_usual = before in "gG" or not text[max(place - 2, 0) : place - 1].isalpha()
        is_genitive = after in "sS" and not text[place + 2 : place + 3].isalpha()
        return 3 if is_usual or is_genitive else 1
    if (letter in OPENING and starts) or (letter in CLOSING and ends):
        return 3
    if letter in DASHES:
        return 1 if starts or ends or after.isupper() else 0
    return 1 if letter in SIGNS and (starts or ends) else 0


def _is_at_home(letter: str, before: str, after: str, two_before: str) -> bool:
    """Return whether a letter has the case of its word, with no digit next to it."""
    if letter == FLORIN or before.isdigit() or after.isdigit():
        return False
    if letter.isupper():
        return not before.islower() and not (before.isalpha() and after.islower())
    in_capitals = len(two_before) == 2 and two_before.isalpha() and two_before.isupper()
    return not (after.isupper() or in_capitals)
