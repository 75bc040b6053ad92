"""SMS through Africa's Talking, on the guarded HTTP client.

https://developers.africastalking.com/docs/sms/sending/bulk
"""

import json
import logging
import re
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from urllib3.exceptions import HTTPError

from verification.notifications.models import NotificationError, Outcome
from verification.outbound import client
from verification.outbound.targets import Blocked

logger = logging.getLogger(__name__)

LIVE_URL = "https://api.africastalking.com"
SANDBOX_URL = "https://api.sandbox.africastalking.com"
# The account of this name is at the sandbox server.
SANDBOX_USERNAME = "sandbox"
# For the whole call.
SECONDS = 12.0
ANSWER_BYTES = 64 * 1024
NUMBER = re.compile(r"\+[0-9]{4,}")

# Processed, sent, queued.
ACCEPTED_CODES = {100, 101, 102}
# Invalid number, unsupported type of number, one that wants no messages (twice).
REFUSED_CODES = {403, 404, 406, 409}
IN_DOUBT = Outcome(NotificationError.INTERRUPTED, in_doubt=True)


def sms_is_configured() -> bool:
    return bool(settings.AFRICASTALKING_USERNAME and settings.AFRICASTALKING_API_KEY)


def gateway_url() -> str:
    """Return the URL of the account's server, without a slash at its end."""
    if settings.SMS_URL:
        return str(settings.SMS_URL).rstrip("/")
    is_sandbox = settings.AFRICASTALKING_USERNAME == SANDBOX_USERNAME
    return SANDBOX_URL if is_sandbox else LIVE_URL


def send_sms(number: str, text: str) -> Outcome:
    """Send an SMS to a number in E.164. Returns errors as outcomes."""
    if not sms_is_configured():
        # The settings have changed since the message was stored.
        return Outcome(NotificationError.UNREACHABLE)
    if not NUMBER.fullmatch(number):
        return Outcome(NotificationError.REFUSED, permanent=True)
    try:
        response = _post(number, text)
    except Blocked as e:
        logger.error("the SMS gateway may not be called: %s", e)
        return Outcome(NotificationError.UNREACHABLE)
    except (requests.RequestException, HTTPError, OSError) as e:
        if client.was_sent(e):
            return IN_DOUBT
        return Outcome(NotificationError.UNREACHABLE, is_away=True)
    if not 200 <= response.status_code < 300:
        logger.warning("the SMS gateway answered with HTTP %s", response.status_code)
        return Outcome(NotificationError.NOT_TAKEN)
    return _outcome(response.content)


def _post(number: str, text: str) -> requests.Response:
    """Post the message. Raises Blocked, and what `requests` and `urllib3` raise."""
    url = gateway_url()
    form = {
        "username": settings.AFRICASTALKING_USERNAME,
        "to": number,
        "message": text,
        "bulkSMSMode": "1",
    }
    if settings.SMS_FROM:
        form["from"] = settings.SMS_FROM
    headers = {
        "Accept": "application/json",
        "apiKey": settings.AFRICASTALKING_API_KEY,
    }
    # The operator names SMS_URL, so that it may be a server of the operator's network.
    opened = {urlsplit(url).hostname or ""} if settings.SMS_URL else set()
    with client.create_session(opened, seconds=SECONDS, limit=ANSWER_BYTES) as session:
        return session.post(f"{url}/version1/messaging", data=form, headers=headers)


def _outcome(body: bytes) -> Outcome:
    """Read the only recipient; there is none when the sender id is refused."""
    try:
        recipients: Any = json.loads(body)["SMSMessageData"]["Recipients"]
        if recipients == []:
            return Outcome(NotificationError.NOT_TAKEN)
        (recipient,) = recipients
        code, reference = int(recipient["statusCode"]), str(recipient["messageId"])
    except (KeyError, TypeError, ValueError, RecursionError):
        logger.warning("the SMS gateway's answer names no recipient")
        return IN_DOUBT
    if code in ACCEPTED_CODES:
        return Outcome(reference=reference[:100])
    logger.warning("the SMS gateway did not take a message: status %s", code)
    if code in REFUSED_CODES:
        return Outcome(NotificationError.REFUSED, permanent=True)
    return Outcome(NotificationError.NOT_TAKEN)
