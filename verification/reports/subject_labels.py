"""What people call the members of a subject, in both languages."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

SUBJECT_LABELS: dict[str, Promise] = {
    "fullName": _("Full name"),
    "firstName": _("First name"),
    "middleName": _("Middle name"),
    "lastName": _("Last name"),
    "idNumber": _("ID number"),
    "kraPin": _("KRA PIN"),
    "registrationNumber": _("Registration number"),
    "dateOfBirth": _("Date of birth"),
    "country": _("Country"),
    "email": _("E-mail address"),
    "phone": _("Phone number"),
    "employerName": _("Employer"),
    "refereeName": _("Referee"),
    "refereeEmail": _("E-mail address of the referee"),
    "jobTitle": _("Job title"),
    "employmentStart": _("Start of the employment"),
    "employmentEnd": _("End of the employment"),
    "postalAddress": _("Postal address"),
    "postalCode": _("Postal code"),
}
