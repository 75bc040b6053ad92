"""Query parameters, and the envelope around one page of a list."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, ValidationError
from rest_framework.request import Request

from verification.api.problems import MemberError, validation_failed
from verification.reports.models import ReportStatus, SubjectType
from verification.reports.queries import Filters
from verification.reports.request import shape_faults
from verification.values import formats
from verification.values.wire import Shape


class PageEnvelope(Shape):
    page: int
    """Zero-based."""
    size: int
    total_elements: int
    total_pages: int
    first: bool
    last: bool
    content: list[Any]


PageOf = TypeVar("PageOf", bound=PageEnvelope)


def build_page(
    shape: type[PageOf], content: list[Any], total: int, *, page: int, size: int
) -> PageOf:
    """The envelope around one page of a list."""
    pages = -(-total // size)
    return shape(
        page=page,
        size=size,
        total_elements=total,
        total_pages=pages,
        first=page == 0,
        last=page >= pages - 1,
        content=content,
    )


Query = TypeVar("Query", bound=Shape)


def _digits(value: Any) -> Any:
    """Refuse integers that only Python reads, such as `1_0`."""
    if isinstance(value, str) and not re.fullmatch("-?[0-9]+", value):
        raise formats.format_error("invalid-type", "An integer is needed")
    return value


class PageQuery(Shape):
    """Pages start at 0."""

    page: Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_digits)] = 0
    size: Annotated[int, Field(ge=1, le=200), BeforeValidator(_digits)] = 20


class ReportQuery(PageQuery):
    """Days are in UTC and both ends count."""

    search: formats.text(200) | None = None  # type: ignore[valid-type]
    """Any part of the subject's name, or exactly its ID number, registration number,
    e-mail, the report's reference or the report's id."""
    status: ReportStatus | None = None
    subject_type: SubjectType | None = None
    from_: Annotated[formats.Date | None, Field(alias="from")] = None
    """First day, in UTC."""
    to: formats.Date | None = None
    """Last day, in UTC."""

    def filters(self) -> Filters:
        return Filters(
            search=self.search,
            status=self.status,
            subject_type=self.subject_type,
            first_day=date.fromisoformat(self.from_) if self.from_ else None,
            last_day=date.fromisoformat(self.to) if self.to else None,
        )


def parameter_names(query: type[Shape]) -> tuple[str, ...]:
    """The names of the query parameters, sorted."""
    return tuple(sorted(f.alias or name for name, f in query.model_fields.items()))


def read_query(request: Request, query: type[Query]) -> Query:
    """Read the query parameters, all of them known, as this shape."""
    values: dict[str, Any] = request.query_params.dict()
    try:
        return query.model_validate(values)
    except ValidationError as e:
        raise validation_failed(
            [
                MemberError(fault.code, fault.detail, parameter=str(fault.path[0]))
                for fault in shape_faults(e)
            ]
        ) from e
