from django.urls import path

from verification.development import access

app_name = "development"
urlpatterns = [
    path("login/<str:person>/<str:token>", access.log_in, name="log-in"),
]
