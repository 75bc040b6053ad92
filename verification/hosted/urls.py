"""Addresses of the hosted pages. A link is `/c/<token>`; its pages are `/c/v/<id>/`."""

from django.urls import URLPattern, URLResolver, include, path, re_path

from verification.hosted import (
    authenticity,
    blocks,
    brand,
    consent,
    my_data,
    payment,
    reference,
    sandbox_checkout,
    subject_data,
    subject_rights,
    top_up,
)

data_urls = [
    path("", subject_data.show, name="data"),
    path("confirm", subject_data.proofs.confirm, name="data-confirm"),
    path("send-code", subject_data.proofs.send_code, name="data-send-code"),
    path("wrong/<uuid:result>", subject_rights.dispute, name="data-dispute"),
    path(
        "corrections/<uuid:correction>",
        subject_rights.show_correction,
        name="data-correction",
    ),
    path("notice", subject_rights.newest_notice, name="data-newest-notice"),
    path("notices/<uuid:notice>", subject_rights.show_notice, name="data-notice"),
    path(
        "notices/<uuid:notice>/notice.pdf",
        subject_rights.download_notice,
        name="data-notice-pdf",
    ),
    path(
        "notices/<uuid:notice>/review",
        subject_rights.ask_for_review,
        name="data-notice-review",
    ),
    path("my-data.pdf", subject_data.pdf, name="data-pdf"),
    path("my-data.json", subject_data.json, name="data-json"),
    path("code", subject_data.proofs.verify_code, name="data-code"),
    path("objection", subject_rights.objection, name="objection"),
    path("objected", subject_rights.objected, name="objected"),
    path("others", subject_rights.others, name="data-others"),
    path("delete", subject_rights.delete, name="delete"),
    path("held", subject_rights.held, name="held"),
    path("deletion", subject_rights.deletion, name="deletion"),
    path("certificate.pdf", subject_rights.certificate, name="certificate"),
    path(
        "certificate.json", subject_rights.signed_certificate, name="signed-certificate"
    ),
]
consent_urls: list[URLPattern | URLResolver] = [
    path("<str:token>", consent.open_link, name="consent-link"),
    path("v/<uuid:row>/", consent.show, name="consent"),
    path("v/<uuid:row>/confirm", consent.proofs.confirm, name="confirm"),
    path("v/<uuid:row>/send-code", consent.proofs.send_code, name="send-code"),
    path("v/<uuid:row>/code", consent.proofs.verify_code, name="code"),
    path("v/<uuid:row>/grant", consent.grant, name="grant"),
    path("v/<uuid:row>/decline", consent.decline, name="decline"),
    path("v/<uuid:row>/withdraw", consent.withdraw, name="withdraw"),
    path("v/<uuid:row>/under-age", consent.under_age, name="under-age"),
    path("v/<uuid:row>/not-me", consent.not_me, name="not-me"),
    path("v/<uuid:row>/block", consent.block, name="block"),
    path("v/<uuid:row>/new-link", consent.renew_link, name="new-link"),
    path("v/<uuid:row>/ask-client", consent.request_client_link, name="ask-client"),
    path("v/<uuid:row>/receipt.pdf", consent.receipt, name="receipt"),
    path("<str:token>/notice", subject_rights.open_notice, name="notice-link"),
    path("v/<uuid:row>/data/", include(data_urls)),
]
reference_urls = [
    path("<str:token>", reference.open_link, name="link"),
    path("v/<uuid:row>/", reference.show, name="page"),
    path("v/<uuid:row>/submit", reference.submit, name="submit"),
    path("v/<uuid:row>/decline", reference.decline, name="decline"),
    path("v/<uuid:row>/block", reference.block, name="block"),
    path("v/<uuid:row>/receipt.pdf", reference.receipt, name="receipt"),
]
payment_urls = [
    path("<str:token>", payment.open_link, name="link"),
    path("v/<uuid:row>/", payment.show, name="page"),
    path("v/<uuid:row>/pay", payment.pay, name="pay"),
    path("v/<uuid:row>/prompt", payment.send_prompt, name="prompt"),
    path("v/<uuid:row>/other-way", payment.abandon_prompt, name="other-way"),
    path("v/<uuid:row>/block", payment.block, name="block"),
    path("v/<uuid:row>/give-back", payment.refund_parts, name="give-back"),
    path("v/<uuid:row>/new-link", payment.renew_link, name="new-link"),
    path("v/<uuid:row>/ask-client", payment.request_link, name="ask-client"),
    path("v/<uuid:row>/receipt.pdf", payment.receipt, name="receipt"),
    path("v/<uuid:row>/back/<uuid:checkout>", payment.return_view, name="back"),
    path("v/<uuid:row>/state", payment.state, name="state"),
]
top_up_urls = [
    path("<uuid:account>/<str:token>", top_up.open_link, name="link"),
    path("v/<uuid:row>/", top_up.show, name="page"),
    path("v/<uuid:row>/paid", top_up.paid, name="paid"),
    path("v/<uuid:row>/back/<uuid:checkout>", top_up.return_view, name="back"),
    path("v/<uuid:row>/state", top_up.state, name="state"),
]
brand_urls = [
    re_path(
        r"^(?P<colour>[0-9a-f]{6})-(?P<digest>[0-9a-f]{16})\.css$",
        brand.stylesheet,
        name="stylesheet",
    ),
    re_path(r"^(?P<digest>[0-9a-f]{64})\.png$", brand.logo, name="logo"),
]
urlpatterns = [
    path("brand/", include((brand_urls, "brand"))),
    path("c/", include((consent_urls, "hosted"))),
    path("r/", include((reference_urls, "reference"))),
    path("p/", include((payment_urls, "payment"))),
    path("t/", include((top_up_urls, "top-up"))),
    path("my-data", my_data.show, name="my-data"),
    path("my-data/sent", my_data.sent, name="my-data-sent"),
    path("b/<str:token>", blocks.show, name="block"),
    path(".well-known/signing-keys.pem", authenticity.show_keys, name="signing-keys"),
    path(
        ".well-known/signing-keys/<slug:key_id>.pem",
        authenticity.show_key,
        name="signing-key",
    ),
    path("v/<uuid:report_id>/<str:token>", authenticity.show_report, name="genuine"),
    path(
        "sandbox/checkout/<uuid:reference>",
        sandbox_checkout.show,
        name="sandbox-checkout",
    ),
]
