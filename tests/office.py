"""The admin as staff use it.

def test_something(rows, superuser):
    assert "Acacia" in opened(superuser, listing(Workspace))
"""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from tests.clients import Api, person
from tests.monitoring.rules import watched


@pytest.fixture
def rows(api: Api) -> Api:
    """At least one row of everything."""
    api.create(person(idNumber="98765432"), person(idNumber="90000008"))
    payer = {"name": "Amina", "email": "amina@payer.test"}
    api.create({**person(), "paymentMode": "THIRD_PARTY", "payer": payer})
    watched(api, changes=[{"new": "98765432"}])
    api.work()
    return api


@pytest.fixture
def superuser(admin_user) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def staff(db: None) -> Client:
    """May do everything in the admin, and is no superuser."""
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    client = Client()
    client.force_login(user)
    return client


def page(model, name: str, *arguments) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{name}", args=arguments)


def listing(model) -> str:
    return page(model, "changelist")


def change(row) -> str:
    return page(type(row), "change", row.pk)


def opened(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def act(client: Client, action: str, *chosen, **fields) -> list[str]:
    """What the list says after this action on the chosen rows."""
    data = {"action": action, "_selected_action": [row.pk for row in chosen], **fields}
    answer = client.post(listing(type(chosen[0])), data, follow=True)
    return [str(message) for message in answer.context["messages"]]


def listed_ids(client: Client, model, **query: str) -> set[str]:
    html = opened(client, listing(model), **query)
    return set(re.findall(r"[0-9a-f-]{36}(?=/change/)", html))
