"""The console's addresses. A page that goes live is named here and in `places.py`."""

from django.urls import path

from verification.console import home

app_name = "console"

urlpatterns = [
    path("", home.home, name="home"),
]
