"""Pages on which people block the workspace that wrote to them.

The link at the end of a message leads to `show`, which can also lift the block. Pages
of consents, payments and references offer `block_page`, which can only block: the
workspace knows the links of those pages, and must not lift a block against itself.
"""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from verification import links
from verification.hosted.hosted_pages import (
    client_context,
    hosted,
    render_page,
    see_other,
)
from verification.notifications.models import (
    BLOCKABLE_KINDS,
    Block,
    Channel,
    Notification,
)
from verification.notifications.recipients import (
    active_blocks,
    addresses_of,
    block,
    block_sender,
    blocks_of,
    lift_blocks,
)
from verification.reports.models import Report
from verification.values.masking import mask_email, mask_end
from workspaces.models import Environment

# Value of the button -> reason of the block.
REASONS = {"block": Block.Reason.UNWANTED, "unknown": Block.Reason.UNKNOWN}


# A mail program posts here without a cookie; the link itself shows who may act.
@csrf_exempt
@hosted
def show(request: HttpRequest, token: str) -> HttpResponse:
    """Only POST changes anything: programs that look at links open this page, too."""
    notification = _notification(token)
    if notification is None:
        return render_page(request, "unknown", status=404)
    if request.method == "POST":
        return _change_block(request, notification)
    known = addresses_of(notification)
    assert notification.workspace  # noqa: S101
    context = {
        **client_context(
            notification.workspace,
            Environment.SANDBOX if notification.sandbox else Environment.PRODUCTION,
        ),
        "can_block": bool(known),
        "can_lift": True,
        "addresses": [
            mask_email(text) if channel == Channel.EMAIL else mask_end(text, 3)
            for channel, text in known
        ],
        # The most specific reason comes first.
        "blocked": blocks_of(notification).order_by("reason").first(),
    }
    return render_page(request, "block", context)


def block_page(
    request: HttpRequest,
    report: Report,
    addresses: list[tuple[str, str]],
    back: str,
) -> HttpResponse:
    """Let the subject, payer or referee of a report block its workspace.

    `back` is the path of the page with the request.
    """
    reason = REASONS.get(request.POST.get("action", ""))
    if reason:
        block(report.workspace_id, addresses, reason)
        return see_other(request.path)
    blocks = active_blocks(report.workspace_id, addresses)
    context = {
        **client_context(report.workspace, report.environment),
        "can_block": bool(addresses),
        "back": back,
        "blocked": blocks.order_by("reason").first(),
    }
    return render_page(request, "block", context)


def _notification(token: str) -> Notification | None:
    if (ids := links.block_candidates(token)) is None:
        return None
    rows = Notification.objects.select_related("workspace")
    rows = rows.filter(kind__in=BLOCKABLE_KINDS, workspace__isnull=False)
    for known in rows.filter(pk__range=ids).values_list("pk", flat=True):
        if links.is_block_link(token, known):
            return rows.get(pk=known)
    return None


def _change_block(request: HttpRequest, notification: Notification) -> HttpResponse:
    if request.POST.get("List-Unsubscribe") == "One-Click":
        block_sender(notification, Block.Reason.UNWANTED)
        return HttpResponse(status=204)
    action = request.POST.get("action", "")
    if action == "lift":
        lift_blocks(notification)
    elif action in REASONS:
        block_sender(notification, REASONS[action])
    return see_other(request.path)
