from django.urls import path

from verification.hosted import consent

app_name = "hosted"

urlpatterns = [
    path("<str:token>", consent.open_link, name="consent-link"),
    path("v/<uuid:consent_id>/", consent.show, name="consent"),
    path("v/<uuid:consent_id>/confirm", consent.confirm, name="confirm"),
    path("v/<uuid:consent_id>/grant", consent.grant, name="grant"),
    path("v/<uuid:consent_id>/decline", consent.decline, name="decline"),
    path("v/<uuid:consent_id>/withdraw", consent.withdraw, name="withdraw"),
    path("v/<uuid:consent_id>/not-me", consent.not_me, name="not-me"),
    path("v/<uuid:consent_id>/new-link", consent.new_link, name="new-link"),
    path("v/<uuid:consent_id>/receipt.pdf", consent.receipt, name="receipt"),
]
