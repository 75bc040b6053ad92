from django.test import Client

import verification


def test_menu_of_the_back_office_shows_the_version(superuser: Client):
    page = superuser.get("/admin/").content.decode()

    assert f"Back office {verification.__version__}" in page
