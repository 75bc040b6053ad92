"""The general part of the OpenAPI document; part of `verification.settings`."""

SPECTACULAR_SETTINGS = {
    "TITLE": "Verification report service",
    "VERSION": "1.0.0",
    "DESCRIPTION": (
        "Verify a person or a company: create reports, let their checks run, read "
        "the results.\n\nAn API key with the prefix `vrf_test_` works in the sandbox, "
        "where `GET /api/v1/sandbox/subjects` lists numbers that decide how a check "
        "ends. Every error is a problem (RFC 9457) whose `type` leads to a page that "
        "explains it. Unknown members and parameters are refused."
    ),
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "TAGS": [
        {"name": "reports", "description": "Create, launch, follow and read reports."},
        {"name": "checks", "description": "What can be checked, and what it costs."},
        {"name": "monitoring", "description": "Run checks again, be told of changes."},
        {"name": "sandbox", "description": "Subjects with a known outcome."},
        {"name": "webhooks", "description": "Events, pushed to your own receiver."},
    ],
    "WEBHOOKS": "verification.api.events.WEBHOOKS",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": [],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SORT_OPERATIONS": True,
}
