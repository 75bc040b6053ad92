from django.urls import path

from verification.hosted import top_up

app_name = "top-up"

urlpatterns = [
    path("<uuid:account>/<str:token>", top_up.open_link, name="link"),
    path("v/<uuid:row>/", top_up.show, name="page"),
    path("v/<uuid:row>/paid", top_up.paid, name="paid"),
    path("v/<uuid:row>/back/<uuid:checkout>", top_up.return_view, name="back"),
    path("v/<uuid:row>/state", top_up.state, name="state"),
]
