from django.urls import path

from verification.hosted import consent

app_name = "hosted"

urlpatterns = [
    path("<str:token>", consent.open_link, name="consent-link"),
    path("v/<uuid:row>/", consent.show, name="consent"),
    path("v/<uuid:row>/confirm", consent.confirm, name="confirm"),
    path("v/<uuid:row>/send-code", consent.send_code, name="send-code"),
    path("v/<uuid:row>/code", consent.verify_code, name="code"),
    path("v/<uuid:row>/grant", consent.grant, name="grant"),
    path("v/<uuid:row>/decline", consent.decline, name="decline"),
    path("v/<uuid:row>/withdraw", consent.withdraw, name="withdraw"),
    path("v/<uuid:row>/under-age", consent.under_age, name="under-age"),
    path("v/<uuid:row>/not-me", consent.not_me, name="not-me"),
    path("v/<uuid:row>/block", consent.block, name="block"),
    path("v/<uuid:row>/new-link", consent.renew_link, name="new-link"),
    path("v/<uuid:row>/ask-client", consent.request_client_link, name="ask-client"),
    path("v/<uuid:row>/receipt.pdf", consent.receipt, name="receipt"),
]
