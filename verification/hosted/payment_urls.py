from django.urls import path

from verification.hosted import payment

app_name = "payment"

urlpatterns = [
    path("<str:token>", payment.open_link, name="link"),
    path("v/<uuid:row>/", payment.show, name="page"),
    path("v/<uuid:row>/pay", payment.pay, name="pay"),
    path("v/<uuid:row>/prompt", payment.prompt, name="prompt"),
    path("v/<uuid:row>/other-way", payment.other_way, name="other-way"),
    path("v/<uuid:row>/block", payment.block, name="block"),
    path("v/<uuid:row>/give-back", payment.give_back, name="give-back"),
    path("v/<uuid:row>/new-link", payment.new_link, name="new-link"),
    path("v/<uuid:row>/ask-client", payment.ask_client, name="ask-client"),
    path("v/<uuid:row>/receipt.pdf", payment.receipt, name="receipt"),
    path("v/<uuid:row>/back/<uuid:checkout>", payment.back, name="back"),
    path("v/<uuid:row>/state", payment.state, name="state"),
]
