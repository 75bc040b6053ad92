"""Uploaded files in forms: their inspection, and the messages about faults."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from verification.files.inspection import (
    MAX_BYTES,
    MAX_LOGO_BYTES,
    Busy,
    Fault,
    InspectedFile,
    Unacceptable,
    inspect,
    inspect_logo,
)
from verification.values.formats import one_line

ACCEPTED = ".pdf,.jpg,.jpeg,.png"
ACCEPTED_LOGOS = ".png,.jpg,.jpeg"
MAX_NAME_LENGTH = 150
FAULT_MESSAGES = {
    Fault.EMPTY: _("The file is empty. Choose another one."),
    Fault.TOO_LARGE: _("The file is larger than 10 MB. Choose a smaller one."),
    Fault.UNKNOWN: _(
        "This file is not a PDF, JPEG or PNG. Scan or save it as one of these."
    ),
    Fault.LIES: _(
        "The content does not match the file's name. Save it again in the right format."
    ),
    Fault.DAMAGED: _("The file cannot be read. Open it, and save it again."),
    Fault.BOMB: _("The file holds more than we can open. Scan it again, at 300 dpi."),
    Fault.ACTIVE: _("The PDF runs or loads something else. Print it to a new PDF."),
    Fault.ENCRYPTED: _("The PDF has a password. Save it without one."),
    Fault.INFECTED: _("A virus scanner refuses the file. Scan the paper again."),
    Fault.TOO_LONG: _("The PDF has more than 200 pages. Leave some out."),
}
LOGO_MESSAGES = {
    **FAULT_MESSAGES,
    Fault.TOO_LARGE: _("The logo is larger than 1 MB. Choose a smaller one."),
    Fault.UNKNOWN: _("This file is not a PNG or JPEG. Save the logo as one of these."),
    Fault.BOMB: _("The logo has too many pixels. Make it smaller."),
}
BUSY_MESSAGE = _("We cannot look into the file now. Send it again in a minute.")
# The code of the error if the inspection did not take place.
BUSY = "busy"


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """An inspected file, and its name on the person's device."""

    name: str
    file: InspectedFile


def read_upload(upload: Any, *, is_live: bool) -> UploadedFile:
    """Inspect a file of a form. Raises ValidationError, with the code BUSY if it is."""
    content = upload.read(MAX_BYTES + 1)
    try:
        declared = upload.content_type or ""
        file = inspect(upload.name, declared, content, is_live=is_live)
    except Unacceptable as e:
        raise ValidationError(FAULT_MESSAGES[e.fault]) from None
    except Busy:
        raise ValidationError(BUSY_MESSAGE, code=BUSY) from None
    return UploadedFile(one_line(upload.name)[-MAX_NAME_LENGTH:], file)


def read_logo(upload: Any, *, is_live: bool) -> bytes:
    """Inspect a logo of a form, and return a small PNG. Raises as `read_upload`."""
    content = upload.read(MAX_LOGO_BYTES + 1)
    try:
        declared = upload.content_type or ""
        return inspect_logo(upload.name, declared, content, is_live=is_live)
    except Unacceptable as e:
        raise ValidationError(LOGO_MESSAGES[e.fault]) from None
    except Busy:
        raise ValidationError(BUSY_MESSAGE, code=BUSY) from None


def status_of(form: Any) -> int:
    """Return the status of the page: 503 if an inspection did not take place."""
    return 503 if any(form.has_error(name, BUSY) for name in form.fields) else 200
