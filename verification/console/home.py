"""The first page after the login: whose workspaces these are."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from verification.pages import private
from workspaces.models import Member


@private
@login_required
def home(request: HttpRequest) -> HttpResponse:
    memberships = Member.objects.filter(user=request.user.pk)
    shown = {"members": memberships.select_related("workspace").order_by("id")}
    return render(request, "console/home.html", shown)
