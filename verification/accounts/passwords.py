"""Password validators: a minimum length for each role, and a minimum strength.

`zxcvbn` estimates the strength. It ships lists of breached passwords, names and words,
and detects keyboard patterns, repeats, sequences and dates. `WORDS` and the names of
the person, their workspaces and the operator add no strength: the password without
them has to be strong enough.
"""

import re
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

# zxcvbn calls 10^8 guesses safe. It estimates 10^8.6 for a football club with a
# number, and 10^9.5 for twelve random digits.
MIN_GUESSES = 10**9
# zxcvbn checks this many characters, because its time grows with the length.
MAX_CHECKED_LENGTH = 32
# Words that are common around this service and missing in zxcvbn's lists.
WORDS = (
    "verification verify report reports consent console sandbox production admin "
    "administrator staff kenya nairobi mombasa kisumu nakuru eldoret safaricom mpesa "
    "airtel equity harambee jambo karibu asante habari mungu yesu upendo mimi wewe"
)
NAMES_MESSAGE = gettext_lazy(
    "This uses names that belong to you or to this service, and is guessed first"
)
WEAKNESS_MESSAGES: dict[str, Any] = {
    "passwords": gettext_lazy(
        "This is like a password that was stolen elsewhere, and is guessed first"
    ),
    "spatial": gettext_lazy("Keys next to each other are guessed first"),
    "repeat": gettext_lazy("Repetitions are guessed first"),
    "sequence": gettext_lazy("Rows such as abc or 123 are guessed first"),
    "date": gettext_lazy("Dates are guessed first"),
    "regex": gettext_lazy("Dates are guessed first"),
    "": gettext_lazy("This is guessed quickly: use more words, or less common ones"),
}


class MinimumLengthByRoleValidator:
    """Require longer passwords of staff, who see the data of all workspaces."""

    def __init__(self, members: int = 12, staff: int = 15) -> None:
        self.members, self.staff = members, staff

    def validate(self, password: str, user: Any = None) -> None:
        least = self.staff if getattr(user, "is_staff", False) else self.members
        if len(password) < least:
            message = _("Choose a password of at least %(least)d characters")
            raise ValidationError(message, "password_too_short", {"least": least})

    def get_help_text(self) -> str:
        return _("At least %(members)d characters; for staff %(staff)d.") % {
            "members": self.members,
            "staff": self.staff,
        }


class PasswordStrengthValidator:
    def validate(self, password: str, user: Any = None) -> None:
        # Imported here: processes that check no password save 13 MB of lists.
        from zxcvbn import zxcvbn

        whole = password[:MAX_CHECKED_LENGTH]
        rest = _personal_words(user).sub("", whole)
        if rest != whole and (not rest or zxcvbn(rest)["guesses"] < MIN_GUESSES):
            raise ValidationError(NAMES_MESSAGE, "password_of_names")
        estimate = zxcvbn(whole)
        if estimate["guesses"] < MIN_GUESSES:
            raise ValidationError(
                WEAKNESS_MESSAGES[_weakness(estimate["sequence"])], "password_guessed"
            )

    def get_help_text(self) -> str:
        return _("Use a few words that nobody would guess.")


def _personal_words(user: Any) -> re.Pattern[str]:
    """Return a pattern for the words that add no strength for this person."""
    texts = [settings.OPERATOR_NAME]
    if user is not None:
        texts += [user.get_full_name(), user.email]
        if user.pk:
            texts += user.memberships.values_list("workspace__name", flat=True)
    named = {word for text in texts for word in re.split(r"[\W_]+", text)}
    words = {*WORDS.split(), *(word for word in named if len(word) > 2)}
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)


def _weakness(sequence: Iterable[Any]) -> str:
    """Return the key in `WEAKNESS_MESSAGES` of the longest part that zxcvbn knows."""
    known = [part for part in sequence if part["pattern"] != "bruteforce"]
    if not known:
        return ""
    longest = max(known, key=lambda part: len(part["token"]))
    kind = longest.get("dictionary_name") or longest["pattern"]
    return kind if kind in WEAKNESS_MESSAGES else ""
