from django.urls import path

from verification.hosted import reference

app_name = "reference"

urlpatterns = [
    path("<str:token>", reference.open_link, name="link"),
    path("v/<uuid:row>/", reference.show, name="page"),
    path("v/<uuid:row>/submit", reference.submit, name="submit"),
    path("v/<uuid:row>/decline", reference.decline, name="decline"),
    path("v/<uuid:row>/block", reference.block, name="block"),
    path("v/<uuid:row>/receipt.pdf", reference.receipt, name="receipt"),
]
