"""The reason codes of a workspace: the first list, and its changes."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet

from verification.decisions.models import ReasonCode
from verification.reports.request import Fault, InvalidRequest
from workspaces.members import lock_workspace
from workspaces.models import Workspace

MAX_REASON_CODES = 100
# Code -> English and Kiswahili. The subject reads them, and the readers of the PDF.
FIRST_CODES = {
    "ADVERSE_CREDIT": (
        "Adverse information at a credit bureau",
        "Taarifa mbaya katika ofisi ya mikopo",
    ),
    "COMPANY_DETAILS_MISMATCH": (
        "Details of the company that differ from the register",
        "Taarifa za kampuni zinazotofautiana na sajili",
    ),
    "COMPANY_NOT_ACTIVE": (
        "Company not active in the register",
        "Kampuni isiyofanya kazi kulingana na sajili",
    ),
    "CREDIT_SCORE_TOO_LOW": (
        "Credit score below the required one",
        "Alama ya mikopo iliyo chini ya inayohitajika",
    ),
    "EMPLOYER_NOT_CONFIRMED": (
        "Employment that the employer did not confirm",
        "Ajira ambayo mwajiri hakuithibitisha",
    ),
    "EMPLOYMENT_DETAILS_MISMATCH": (
        "Details of the employment that differ from those of the employer",
        "Taarifa za ajira zinazotofautiana na za mwajiri",
    ),
    "IDENTITY_MISMATCH": (
        "Details that differ from the register of persons",
        "Taarifa zinazotofautiana na sajili ya watu",
    ),
    "IDENTITY_NOT_FOUND": (
        "ID number not in the register of persons",
        "Nambari ya kitambulisho isiyo kwenye sajili ya watu",
    ),
    "INSUFFICIENT_INFORMATION": (
        "Too little information, as checks could not be completed",
        "Taarifa zisizotosha, kwa kuwa ukaguzi haukukamilika",
    ),
    "OWN_CRITERIA": (
        "Other criteria of ours that are not met",
        "Vigezo vyetu vingine visivyotimizwa",
    ),
    "RECORDED_AS_DECEASED": (
        "Person recorded as deceased in the register of persons",
        "Mtu aliyeandikwa kwenye sajili ya watu kuwa amefariki",
    ),
    "TAX_PIN_MISMATCH": (
        "KRA PIN that is not active or belongs to another name",
        "PIN ya KRA isiyotumika au ya jina lingine",
    ),
    "WATCHLIST_MATCH": (
        "Name like one on a list that we have to observe",
        "Jina linalofanana na lililo kwenye orodha tunayopaswa kuifuata",
    ),
}

# These come from a credit bureau.
BUREAU_CODES = {"ADVERSE_CREDIT", "CREDIT_SCORE_TOO_LOW"}


class CodeTaken(Exception):
    """The workspace has a reason with this code."""


class TooManyCodes(Exception):
    """The workspace has MAX_REASON_CODES reasons."""


def codes_of(workspace: Workspace) -> QuerySet[ReasonCode]:
    """Return the workspace's reason codes; its first use writes FIRST_CODES."""
    found = ReasonCode.objects.filter(workspace=workspace)
    if not found:
        ReasonCode.objects.bulk_create(
            [
                ReasonCode(
                    workspace=workspace,
                    code=code,
                    text=text,
                    text_sw=text_sw,
                    from_bureau=code in BUREAU_CODES,
                )
                for code, (text, text_sw) in FIRST_CODES.items()
            ],
            # Another request may write them at this moment.
            ignore_conflicts=True,
        )
        return found.all()
    return found


@transaction.atomic
def add_code(
    workspace: Workspace, code: str, text: str, text_sw: str, *, from_bureau: bool
) -> ReasonCode:
    """Add a reason. Raises CodeTaken and TooManyCodes."""
    lock_workspace(workspace.pk)
    present = codes_of(workspace)
    if present.filter(code=code).exists():
        raise CodeTaken
    if present.count() >= MAX_REASON_CODES:
        raise TooManyCodes
    return ReasonCode.objects.create(
        workspace=workspace,
        code=code,
        text=text,
        text_sw=text_sw,
        from_bureau=from_bureau,
    )


def find_reasons(workspace: Workspace, codes: Sequence[str]) -> list[ReasonCode]:
    """Return the active reasons with these codes, in their order.

    Raises InvalidRequest with a fault for each other code.
    """
    active = {row.code: row for row in codes_of(workspace) if row.active}
    known = ", ".join(active)
    missing = "The workspace has no active reason code {!r}; it has: {}."
    faults = [
        Fault(("reasonCodes", n), "invalid-choice", missing.format(code, known))
        for n, code in enumerate(codes)
        if code not in active
    ]
    faults += [
        Fault(("reasonCodes", n), "duplicate", "The code is there twice.")
        for n, code in enumerate(codes)
        if code in codes[:n]
    ]
    if faults:
        raise InvalidRequest(faults)
    return [active[code] for code in codes]
