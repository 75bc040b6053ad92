from django.urls import path

from verification.development import access, mail

app_name = "development"
urlpatterns = [
    path("mail", mail.show, name="mail"),
    path("login/<str:person>/<str:token>", access.log_in, name="log-in"),
]
