from django.urls import path

from verification.hosted import reference

app_name = "reference"

urlpatterns = [
    path("<str:token>", reference.open_link, name="link"),
    path("v/<uuid:reference_id>/", reference.show, name="page"),
    path("v/<uuid:reference_id>/submit", reference.submit, name="submit"),
    path("v/<uuid:reference_id>/decline", reference.decline, name="decline"),
]
