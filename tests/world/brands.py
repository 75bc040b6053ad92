"""Brands of clients.

brand = save_brand(workspace, colour="#0a7a3c", return_hosts=["apply.acacia.example"])
"""

import io
from functools import cache
from typing import Any

from PIL import Image, ImageDraw

from tests.world.members import create_member
from verification.files.inspection import inspect_logo
from workspaces.brands import NewBrand, change_brand
from workspaces.models import Brand, Role, Workspace

HOST = "apply.acacia.example"
ADDRESS = f"https://{HOST}/done?step=2"


def save_brand(workspace: Workspace, logo: bytes | None = None, **fields: Any) -> Brand:
    """Let a member of the workspace save a brand with these fields."""
    member = workspace.members.exclude(role=Role.VIEWER).first()
    new: dict[str, Any] = {
        "colour": "",
        "contact_line": "",
        "contact_line_sw": "",
        "return_hosts": [HOST],
        "return_url": "",
    }
    member = member or create_member(workspace, "ADMIN", f"brand-{workspace.pk}")
    brand, _ = change_brand(member, NewBrand(**{**new, **fields}), logo)
    return brand


def picture(size: tuple[int, int] = (640, 200), **options: Any) -> bytes:
    """Return a PNG with something to see."""
    drawn = Image.new("RGBA", size, (0, 0, 0, 0))
    ImageDraw.Draw(drawn).ellipse([0, 0, size[0] - 1, size[1] - 1], fill="#0a7a3c")
    written = io.BytesIO()
    drawn.save(written, "PNG", **options)
    return written.getvalue()


@cache
def logo(size: tuple[int, int] = (640, 200)) -> bytes:
    """Return a logo as the inspection redraws it."""
    return inspect_logo("logo.png", "image/png", picture(size))
