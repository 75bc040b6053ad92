"""The examples of the OpenAPI document; a test sends and checks each of them.

The examples of events are in `events.py`.
"""

from typing import Any

REPORT_ID = "019a5b2c-7d1e-7f3a-9f0e-3b8a1c2d4e5f"
RESULT_ID = "019a5b2c-7d1f-7a41-8a55-6f0b2c9d1e34"
CREATED_AT = "2026-11-21T08:15:30.123456Z"
DECIDED_AT = "2026-11-21T09:40:12.204511Z"
ENDED_AT = "2026-11-21T08:15:30.171204Z"

SUBJECT = {
    "subjectType": "INDIVIDUAL",
    "fullName": "Wanjiku Kamau",
    "idNumber": "12345678",
    "phone": "+254712345678",
    "dateOfBirth": "1990-01-31",
    "country": "KE",
}
FULL_SUBJECT = {
    **SUBJECT,
    "firstName": "Wanjiku",
    "middleName": None,
    "lastName": "Kamau",
    "registrationNumber": None,
    "email": None,
}
CREATE_REQUEST: dict[str, Any] = {
    "reports": [
        {
            "subject": SUBJECT,
            "checksRequested": ["IDENTITY"],
            "purpose": "Loan application",
            "consent": {
                "mode": "CUSTOMER_ATTESTED",
                "obtained": True,
                "obtainedAt": "2026-11-20T10:00:00Z",
                "method": "CUSTOMER_WEB_FORM",
                "policyVersion": "2026-01",
            },
            "paymentMode": "SELF",
            "reference": "loan-4711",
        }
    ]
}
CONSENT: dict[str, Any] = {
    "status": "ATTESTED",
    "consentUrl": None,
    "expiresAt": None,
    "reason": None,
}
PAYMENT: dict[str, Any] = {
    "status": "NOT_REQUIRED",
    "amount": {"amount": 50.0, "currency": "KES"},
    "paidAt": None,
    "paymentUrl": None,
    "expiresAt": None,
}
SUBJECT_LINK: dict[str, Any] = {
    "sentTo": ["EMAIL"],
    "expiresAt": "2026-12-23T08:15:30.123456Z",
}
PENDING_PAYMENT: dict[str, Any] = {
    **PAYMENT,
    "status": "PENDING",
    "paymentUrl": "https://verify.example.com/p/0Zb3kQpT7cVnR2xLw9YsJd",
    "expiresAt": "2026-12-05T08:15:30.123456Z",
}
CREATE_RESPONSE: dict[str, Any] = {
    "count": 1,
    "reports": [
        {
            "id": REPORT_ID,
            "status": "RUNNING",
            "paymentState": PAYMENT,
            "consentState": CONSENT,
        }
    ],
}
RESULT: dict[str, Any] = {
    "id": RESULT_ID,
    "checkName": "IDENTITY",
    "status": "COMPLETED",
    "summary": "The ID number is registered and the details match.",
    "riskLevel": "LOW",
    "score": 5,
    "flags": [],
    "details": {
        "idNumber": "12345678",
        "serialNumber": "206006479",
        "fullName": "Wanjiku Kamau",
        "dateOfBirth": "1990-01-31",
        "gender": "FEMALE",
        "citizenship": "Kenyan",
        "placeOfBirth": "Eldoret",
        "lifeStatus": None,
        "nameMatch": "MATCH",
        "dateOfBirthMatch": "MATCH",
    },
    "evidence": {
        "provider": "sandbox",
        "providerReference": "sbx-196e9c38ceee8694",
        "retrievedAt": ENDED_AT,
        "environment": "sandbox",
        "reusedFromResultId": None,
        "responseDigest": "d35f396308f785bc8ad317d6b856ef35"
        "04ed86f422c0c7a3051ecdd133c5bfcb",
        "nameComparison": {
            "matcherVersion": "3",
            "likeness": "MATCH",
            "reason": "SAME",
            "strength": 100,
        },
        "editions": None,
        "fieldsNotTold": [],
    },
    "failure": None,
    "reused": False,
    "outdatedDetails": [],
    "startedAt": CREATED_AT,
    "completedAt": ENDED_AT,
    "durationMs": 48,
}
REPORT: dict[str, Any] = {
    "id": REPORT_ID,
    "status": "READY",
    "reference": "loan-4711",
    "monitoringId": None,
    "subject": FULL_SUBJECT,
    "checksRequested": ["IDENTITY"],
    "package": None,
    "purpose": "Loan application",
    "paymentMode": "SELF",
    "returnUrl": "https://apply.example.com/done?application=4711",
    "checkResults": [RESULT],
    "riskScore": 5,
    "riskLevel": "LOW",
    "consentState": CONSENT,
    "paymentState": PAYMENT,
    "failure": None,
    "createdAt": CREATED_AT,
    "updatedAt": ENDED_AT,
    "completedAt": ENDED_AT,
    "restrictedAt": None,
    "erasedAt": None,
    "erasureId": None,
    "corrections": [],
    "decision": None,
    "proposedDecision": None,
}
DECISION_REQUEST: dict[str, Any] = {
    "status": "DECLINED",
    "reasonCodes": ["ADVERSE_CREDIT"],
    "note": "Two loans in arrears; may apply again in May.",
}
DECISION: dict[str, Any] = {
    "id": "019a5b2d-1b2c-7d3e-8f40-516273849506",
    "reportId": REPORT_ID,
    "status": "DECLINED",
    "state": "FINAL",
    "reasonCodes": ["ADVERSE_CREDIT"],
    "note": "Two loans in arrears; may apply again in May.",
    "madeBy": "API_KEY",
    "madeByName": "vrf_test_4Rz…7Qkd",
    "madeAt": DECIDED_AT,
    "secondName": None,
    "secondAt": None,
    "decidedAt": DECIDED_AT,
    "finalAt": None,
    "withdrawnAt": None,
    "notOnBureau": None,
    "notice": {
        "id": "019a5b2d-1b2c-7d3e-8f40-627384950617",
        "number": "N-7384-9506-1728",
        "state": "SENDING",
        "bureaus": ["metropol"],
        "isAutomated": False,
        "servedAt": None,
        "reviewAskedAt": None,
        "reviewedAt": None,
    },
}
POLICY_VERSION: dict[str, Any] = {
    "number": 3,
    "state": "ACTIVE",
    "mode": "DECIDE",
    "rules": [
        {
            "when": [
                {
                    "check": "CRB_SCORE",
                    "fact": "creditScore",
                    "comparison": "BELOW",
                    "value": 400.0,
                }
            ],
            "then": "DECLINED",
            "reasonCodes": ["CREDIT_SCORE_TOO_LOW"],
        }
    ],
    "activatedAt": "2026-11-02T07:30:00.000000Z",
    "retiredAt": None,
}
CORRECTION: dict[str, Any] = {
    "id": "019a5b2c-c3d4-7e5f-8061-7c8d9e0f1a2b",
    "checkName": "IDENTITY",
    "checkResultId": RESULT_ID,
    "status": "OPEN",
    "openedAt": ENDED_AT,
    "dueAt": "2026-12-05T08:15:30.171204Z",
    "closedAt": None,
    "reason": None,
    "correctedCheckResultId": None,
}
CORRECTION_ITEM: dict[str, Any] = {**CORRECTION, "reportId": REPORT_ID}
CORRECTION_DETAIL: dict[str, Any] = {
    **CORRECTION_ITEM,
    "what": "The name is not mine.",
    "why": "My ID card was typed with two digits swapped.",
    "documentsCount": 1,
}
ONE_PAGE: dict[str, Any] = {
    "page": 0,
    "size": 20,
    "totalElements": 1,
    "totalPages": 1,
    "first": True,
    "last": True,
}
PAGE: dict[str, Any] = {
    **ONE_PAGE,
    "totalIsExact": True,
    "content": [
        {
            "id": REPORT_ID,
            "subjectName": "Wanjiku Kamau",
            "subjectType": "INDIVIDUAL",
            "status": "READY",
            "reference": "loan-4711",
            "riskScore": 5,
            "package": None,
            "checksCount": 1,
            "completedChecksCount": 1,
            "createdAt": CREATED_AT,
        }
    ],
}
ERASURE: dict[str, Any] = {
    "id": "019a5b2c-e1f2-7a3b-9c4d-5e6f70819203",
    "number": "E-5E6F-7081-9203",
    "status": "WAITING",
    "requestedBy": "CLIENT",
    "requestedAt": CREATED_AT,
    "endedAt": None,
    "reportIds": [],
}
CERTIFICATE: dict[str, Any] = {
    "certificate": '{\n  "type": "erasure-certificate",\n  "version": 1\n}',
    "signature": (
        "hgyY0il+MGCjP0JzlnkYKZRTZcQjXl5JDTQZBzWMaWJEVLyr0nHfPPN8Kt1TQp8yZ2Y1K2lWc0VQ"
        "VnJ2a3h5Aw=="
    ),
    "key": "8f434346648f6b96",
    "keyUrl": "http://localhost:8000/.well-known/signing-keys/8f434346648f6b96.pem",
}
QUOTE: dict[str, Any] = {
    "count": 1,
    "total": {"amount": 50.0, "currency": "KES"},
    "payableByWorkspace": {"amount": 50.0, "currency": "KES"},
    "reports": [
        {
            "package": None,
            "price": {"amount": 50.0, "currency": "KES"},
            "checks": [
                {
                    "checkName": "IDENTITY",
                    "price": {"amount": 50.0, "currency": "KES"},
                    "reused": False,
                    "reusedFromResultId": None,
                }
            ],
            "gates": [],
            "status": "RUNNING",
        }
    ],
}
TIMELINE: dict[str, Any] = {
    "events": [
        {
            "id": "019a5b2c-7d20-7c11-b2d3-4e5f60718293",
            "from": None,
            "to": "RUNNING",
            "trigger": "created",
            "actor": "key vrf_test_012…SEUb",
            "createdAt": CREATED_AT,
        },
        {
            "id": "019a5b2c-7d50-7a02-9c8d-7e6f5a4b3c2d",
            "from": "RUNNING",
            "to": "READY",
            "trigger": "check ended",
            "actor": "engine",
            "createdAt": ENDED_AT,
        },
    ],
    "messages": [
        {
            "id": "019a5b2c-7d22-7b31-8a4c-1d2e3f405162",
            "kind": "CONSENT_REQUEST",
            "channel": "EMAIL",
            "status": "WITHHELD",
            "reason": "RECIPIENT_LIMIT",
            "detail": "The recipient got as many as a day allows.",
            "createdAt": CREATED_AT,
            "sentAt": None,
        }
    ],
}
DEFINITION: dict[str, Any] = {
    "id": "019a5b2c-0000-7000-8000-000000000001",
    "name": "CRB_SCORE",
    "displayName": "Credit score",
    "category": "CREDIT",
    "description": "The credit score that a bureau holds on a person.",
    "subjectTypes": ["INDIVIDUAL"],
    "active": True,
    "requiresConsent": True,
    "available": True,
    "unavailableReason": None,
    "price": {"amount": 150.0, "currency": "KES"},
    "requiredInputs": [
        {
            "key": "idNumber",
            "label": "ID number",
            "type": "TEXT",
            "required": True,
            "requiredFor": ["INDIVIDUAL"],
            "requiredUnless": None,
            "description": "National ID number.",
        }
    ],
    "outputFields": ["creditScore", "scoreBand", "probabilityOfDefault"],
    "flagCodes": ["ID_NOT_FOUND", "LOW_CREDIT_SCORE"],
    "freshnessDays": 30,
    "retryPolicy": {
        "maxAttempts": 5,
        "initialDelaySeconds": 1.0,
        "backoffMultiplier": 3.0,
        "maxDelaySeconds": 60.0,
    },
    "availability": {
        "status": "AVAILABLE",
        "successRate": 0.9987,
        "medianMs": 694,
        "p95Ms": 1694,
    },
    "recipients": [{"name": "Metropol Credit Reference Bureau", "country": "KE"}],
}
DEFINITIONS: dict[str, Any] = {**ONE_PAGE, "size": 1, "content": [DEFINITION]}
PACKAGE: dict[str, Any] = {
    "id": "019a5b2c-0000-7000-8000-000000000101",
    "name": "tenant-screening",
    "displayName": "Tenant screening",
    "owner": "OPERATOR",
    "checks": ["IDENTITY", "CREDITBUREAU_STATUS"],
    "subjectTypes": ["INDIVIDUAL"],
    "requiresConsent": True,
    "price": {"amount": 270.0, "currency": "KES"},
    "available": True,
    "unavailableReason": None,
}
PACKAGES: dict[str, Any] = {**ONE_PAGE, "size": 1, "content": [PACKAGE]}
RESERVED_SUBJECTS: dict[str, Any] = {
    **ONE_PAGE,
    "size": 1,
    "content": [
        {
            "idNumber": "90000000",
            "kraPin": "A900000000Z",
            "registrationNumber": "SBX-0000000",
            "outcome": "CLEAR",
            "description": "The check finds nothing adverse.",
        }
    ],
}
RULE_ID = "019a5b2c-a1b2-7c3d-9e4f-5a6b7c8d9e0f"
ALERT_ID = "019a5b2c-b2c3-7d4e-8f50-6b7c8d9e0f1a"
RULE_REQUEST: dict[str, Any] = {
    "subject": SUBJECT,
    "checkNames": ["IDENTITY"],
    "cadence": "MONTHLY",
    "reference": "loan-4711",
}
ALERT: dict[str, Any] = {
    "id": ALERT_ID,
    "monitoringId": RULE_ID,
    "kind": "CHANGE",
    "title": "IDENTITY: risk level changed",
    "message": "IDENTITY: risk level went from LOW to HIGH.",
    "severity": "CRITICAL",
    "read": False,
    "actioned": False,
    "reportId": REPORT_ID,
    "changes": [
        {"checkName": "IDENTITY", "field": "riskLevel", "old": "LOW", "new": "HIGH"}
    ],
    "createdAt": ENDED_AT,
}
RULE: dict[str, Any] = {
    "id": RULE_ID,
    "subject": FULL_SUBJECT,
    "checkNames": ["IDENTITY"],
    "package": None,
    "checks": [
        {
            "checkName": "IDENTITY",
            "lastCompletedAt": ENDED_AT,
            "runsWithoutAnswer": 0,
        }
    ],
    "cadence": "MONTHLY",
    "status": "ACTIVE",
    "pauseReason": None,
    "pausedAt": None,
    "nextRunAt": "2026-12-21T08:15:30.123456Z",
    "launchError": None,
    "reference": "loan-4711",
    "recentAlerts": [ALERT],
    "createdAt": CREATED_AT,
}
PAUSED_RULE: dict[str, Any] = {
    **RULE,
    "status": "PAUSED",
    "pauseReason": "BY_CLIENT",
    "pausedAt": ENDED_AT,
    "nextRunAt": None,
}
WORKSPACE_ID = "019a5b2b-11aa-7d02-8c1b-5a4e3d2c1b0a"
SUBJECT_ID = "90931303-f7cd-8498-a04e-3957c7bb93e0"
DEFINITION_ID = "019a5b2c-0000-7000-8000-000000000002"
EVENT_ID = "019a5b2c-7d51-7b44-8e90-2f1a0b9c8d7e"
URL = "https://hooks.acacia.example/verification"

CONFIGURATION_REQUEST: dict[str, Any] = {
    "url": URL,
    "enabled": True,
    "enabledEvents": ["report.ready", "report.failed", "check.completed"],
    "secret": "correct-horse-battery-staple",
}
CONFIGURATION: dict[str, Any] = {
    "id": "019a5b2b-7e3f-7c15-9d28-4b6a5c7d8e9f",
    "url": URL,
    "enabled": True,
    "enabledEvents": ["report.ready", "report.failed", "check.completed"],
    "failuresInRow": 0,
    "disabledAt": None,
    "disabledReason": None,
    "previousSecretEndsAt": None,
    "createdAt": CREATED_AT,
    "updatedAt": CREATED_AT,
}
SUMMARY: dict[str, Any] = {
    "id": EVENT_ID,
    "event": "report.ready",
    "status": "RETRYING",
    "attemptCount": 2,
    "statusCode": 503,
    "reportId": REPORT_ID,
    "createdAt": ENDED_AT,
    "nextAttemptAt": "2026-11-21T08:20:37.902117Z",
    "deliveredAt": None,
}
DELIVERIES: dict[str, Any] = {**ONE_PAGE, "content": [SUMMARY]}
DELIVERY: dict[str, Any] = {
    **SUMMARY,
    "attempts": [
        {
            "number": 1,
            "attemptedAt": "2026-11-21T08:15:30.220871Z",
            "url": URL,
            "statusCode": None,
            "durationMs": 15001,
            "answer": None,
            "error": {
                "code": "TIMED_OUT",
                "message": "The answer was not complete in time.",
            },
        },
        {
            "number": 2,
            "attemptedAt": "2026-11-21T08:15:50.511902Z",
            "url": URL,
            "statusCode": 503,
            "durationMs": 84,
            "answer": "Service Unavailable",
            "error": None,
        },
    ],
}
PENDING_DELIVERY: dict[str, Any] = {
    **DELIVERY,
    "status": "PENDING",
    "nextAttemptAt": "2026-11-21T08:16:02.118340Z",
}
TEST_DELIVERY: dict[str, Any] = {
    **SUMMARY,
    "event": "webhook.test",
    "status": "PENDING",
    "attemptCount": 0,
    "statusCode": None,
    "reportId": None,
    "nextAttemptAt": ENDED_AT,
    "attempts": [],
}
PULLED_EVENTS: dict[str, Any] = {
    "content": [
        {
            "id": SUMMARY["id"],
            "event": "report.restricted",
            "timestamp": ENDED_AT,
            "data": {
                "workspaceId": WORKSPACE_ID,
                "reportId": REPORT_ID,
                "requestedBy": "SUBJECT",
                "restrictedAt": ENDED_AT,
            },
        }
    ],
    "nextCursor": "AAZECC52-0QBmlssfR5_Op8OO4ocLU5fAAZECC52-0Q",
    "hasMore": False,
}
ME: dict[str, Any] = {
    "workspace": {"id": WORKSPACE_ID, "name": "Acacia Lenders"},
    "environment": "sandbox",
    "key": {
        "id": "019a5b2b-22bb-7e13-9d2c-6b5f4e3d2c1b",
        "name": "Server",
        "expiresAt": None,
        "networks": ["192.0.2.0/24"],
    },
    "scopes": ["reports:create", "reports:read"],
    "limits": {
        "requestsPerMinute": 3000,
        "createsPerMinute": 600,
        "exportsPerMinute": 10,
        "reportsPerRequest": 500,
        "checksPerReport": 10,
        "bodyBytes": 2_097_152,
    },
    "version": "1.1.0",
}
BALANCE: dict[str, Any] = {
    "mode": "PREPAID",
    "balance": {"amount": 12_450.0, "currency": "KES"},
    "limit": {"amount": 5_000.0, "currency": "KES"},
    "available": {"amount": 17_450.0, "currency": "KES"},
}
