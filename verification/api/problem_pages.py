"""The pages that a problem's `type` leads to."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from verification.api.problem_kinds import KINDS
from verification.pages import page


@require_safe
@page
def index(request: HttpRequest) -> HttpResponse:
    return render(request, "problems/index.html", {"kinds": KINDS.values()})


@require_safe
@page
def detail(request: HttpRequest, code: str) -> HttpResponse:
    if code not in KINDS:
        raise Http404
    return render(request, "problems/detail.html", {"kind": KINDS[code]})
