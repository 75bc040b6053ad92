"""The examples of the OpenAPI document; a test sends and checks each of them."""

from typing import Any

REPORT_ID = "019a5b2c-7d1e-7f3a-9f0e-3b8a1c2d4e5f"
RESULT_ID = "019a5b2c-7d1f-7a41-8a55-6f0b2c9d1e34"
CREATED_AT = "2026-11-21T08:15:30.123456Z"
ENDED_AT = "2026-11-21T08:15:30.171204Z"

SUBJECT = {
    "subjectType": "INDIVIDUAL",
    "fullName": "Wanjiku Kamau",
    "idNumber": "12345678",
    "phone": "+254712345678",
    "dateOfBirth": "1990-01-31",
    "country": "KE",
}
CREATE: dict[str, Any] = {
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
ASKED_TO_PAY: dict[str, Any] = {
    **PAYMENT,
    "status": "PENDING",
    "paymentUrl": "https://verify.example.com/p/0Zb3kQpT7cVnR2xLw9YsJd",
    "expiresAt": "2026-12-05T08:15:30.123456Z",
}
CREATED: dict[str, Any] = {
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
            "matcherVersion": "2",
            "likeness": "MATCH",
            "reason": "SAME",
            "strength": 100,
        },
        "editions": None,
        "fieldsNotTold": [],
    },
    "failure": None,
    "reused": False,
    "startedAt": CREATED_AT,
    "completedAt": ENDED_AT,
    "durationMs": 48,
}
REPORT: dict[str, Any] = {
    "id": REPORT_ID,
    "status": "READY",
    "reference": "loan-4711",
    "monitoringId": None,
    "subject": {
        **SUBJECT,
        "firstName": "Wanjiku",
        "middleName": None,
        "lastName": "Kamau",
        "registrationNumber": None,
        "email": None,
    },
    "checksRequested": ["IDENTITY"],
    "purpose": "Loan application",
    "paymentMode": "SELF",
    "checkResults": [RESULT],
    "riskScore": 5,
    "riskLevel": "LOW",
    "consentState": CONSENT,
    "paymentState": PAYMENT,
    "failure": None,
    "createdAt": CREATED_AT,
    "updatedAt": ENDED_AT,
    "completedAt": ENDED_AT,
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
    "content": [
        {
            "id": REPORT_ID,
            "subjectName": "Wanjiku Kamau",
            "subjectType": "INDIVIDUAL",
            "status": "READY",
            "reference": "loan-4711",
            "riskScore": 5,
            "checksCount": 1,
            "completedChecksCount": 1,
            "createdAt": CREATED_AT,
        }
    ],
}
QUOTE: dict[str, Any] = {
    "count": 1,
    "total": {"amount": 50.0, "currency": "KES"},
    "payableByWorkspace": {"amount": 50.0, "currency": "KES"},
    "reports": [
        {
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
}
DEFINITIONS: dict[str, Any] = {**ONE_PAGE, "size": 1, "content": [DEFINITION]}
RESERVED: dict[str, Any] = {
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
