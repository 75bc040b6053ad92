from django.urls import path

from verification.hosted import payment

app_name = "payment"

urlpatterns = [
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
