"""SMS through Africa's Talking, by its official package.

https://developers.africastalking.com/docs/sms/sending/bulk
"""

from __future__ import annotations

import logging
from typing import Any

import requests
from africastalking.Service import AfricasTalkingException
from africastalking.SMS import SMSService
from django.conf import settings

from verification.notifications.models import NotificationError
from verification.notifications.outcome import Outcome

logger = logging.getLogger(__name__)

# Processed, sent, queued.
TAKEN = {100, 101, 102}
# Invalid number, unsupported type of number, one that wants no messages (twice).
REFUSED = {403, 404, 406, 409}


def sms_is_configured() -> bool:
    return bool(settings.AFRICASTALKING_USERNAME and settings.AFRICASTALKING_API_KEY)


class Gateway(SMSService):
    """The package's client; `url` names another server than the package does."""

    def __init__(self, username: str, api_key: str, *, url: str = "") -> None:
        self._url = url
        super().__init__(username, api_key)

    def _init_service(self) -> None:
        # The package's own place to choose a server; it takes no argument for it.
        super()._init_service()
        if self._url:
            self._baseUrl = f"{self._url.rstrip('/')}/version1"

    def _make_request(self, url: str, method: str, **arguments: Any) -> Any:
        """As the package does, its time-out included, without following redirects:
        they would take the key along."""
        arguments.pop("callback", None)
        answer = requests.request(  # noqa: S113
            method, url, allow_redirects=False, **arguments
        )
        if not answer.ok or answer.is_redirect:
            raise AfricasTalkingException(answer.text)
        return answer.json()


def send_sms(number: str, text: str) -> Outcome:
    """`number` is in E.164. Errors are outcomes; nothing is raised for them."""
    if not sms_is_configured():
        # It was, when the message was wanted.
        return Outcome(NotificationError.UNREACHABLE)
    gateway = Gateway(
        settings.AFRICASTALKING_USERNAME,
        settings.AFRICASTALKING_API_KEY,
        url=settings.SMS_URL,
    )
    try:
        answer = gateway.send(text, [number], sender_id=settings.SMS_FROM or None)
    except (requests.ConnectionError, requests.Timeout):
        return Outcome(NotificationError.UNREACHABLE)
    except (AfricasTalkingException, requests.RequestException):
        return Outcome(NotificationError.NOT_TAKEN)
    except ValueError:
        # The package looks at the number itself.
        return Outcome(NotificationError.REFUSED, permanent=True)
    return _outcome(answer)


def _outcome(answer: Any) -> Outcome:
    """Of the answer's only recipient; there is none when the sender id is refused."""
    try:
        (recipient,) = answer["SMSMessageData"]["Recipients"]
        code, reference = int(recipient["statusCode"]), str(recipient["messageId"])
    except (KeyError, TypeError, ValueError):
        logger.warning("the SMS gateway's answer names no recipient")
        return Outcome(NotificationError.NOT_TAKEN)
    if code in TAKEN:
        return Outcome(reference=reference[:100])
    logger.warning("the SMS gateway did not take a message: status %s", code)
    if code in REFUSED:
        return Outcome(NotificationError.REFUSED, permanent=True)
    return Outcome(NotificationError.NOT_TAKEN)
