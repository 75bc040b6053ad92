"""Columns that can hold free text and hold no data of a report's people, and why.

`personal_data.TABLES` erases all others. A column with choices holds a code. A test
compares the models with the database, so that somebody classifies each new column.
"""

CODES = "ids, digests, codes and figures"
HASHES = "keyed hashes, which say nothing without LOOKUP_KEY"
CLIENT = "the client's own details and configuration"
# API keys, members and staff who did something
ACTORS = "who acted for the client, the operator or the service"
ACCOUNTS = "members and staff, kept while they have an account"
STAFF = "notes of staff, who name no subject in them"
AUDIT = "audit trail, which stays as evidence"
BOOKS = "ledger and invoices, kept by tax law"
RULES = "goes with its rule when the subject is erased, or the rule was paused for long"
DECIDED = "erased when a second person decides on the erasure that it is about"
UPLOADS = "goes with its upload when the subject is erased, and after a day"
APPLICATIONS = "erased when the retention of applications to go live is over"
PUBLIC = "published lists"

# Table -> why, or for a table that has rows about subjects: why -> its columns
NOT_OF_SUBJECTS: dict[str, str | dict[str, str]] = {
    # Django and its apps
    "account_emailaddress": ACCOUNTS,
    "account_emailconfirmation": ACCOUNTS,
    "auth_group": CODES,
    "auth_permission": CODES,
    "auth_user": ACCOUNTS,
    "axes_accessattempt": ACCOUNTS,
    "axes_accessfailurelog": ACCOUNTS,
    "axes_accesslog": ACCOUNTS,
    "django_admin_log": AUDIT,
    "django_content_type": CODES,
    "django_migrations": CODES,
    "django_q_ormq": CODES,
    "django_q_schedule": CODES,
    "django_q_task": CODES,
    "mfa_authenticator": ACCOUNTS,
    # The provider and a digest of its id of the person
    "socialaccount_socialaccount": ACCOUNTS,
    "socialaccount_socialapp": CODES,
    "socialaccount_socialtoken": CODES,
    # The installation and its clients
    "accounts_session": ACCOUNTS,
    "accounts_staffinvitation": ACCOUNTS,
    "accounts_staffrequest": ACCOUNTS,
    "audit_trail_auditseal": CODES,
    "audit_trail_trailstate": {CODES: "check_found"},
    "backoffice_auditevent": AUDIT,
    "backoffice_keyprobe": CODES,
    "backoffice_lookupkey": CODES,
    "checks_checkdefinition": CODES,
    "checks_checkpackage": CLIENT,
    # An outcome without its reasons is a state of the skeleton.
    "decisions_decision": {
        CODES: "result_ids",
        ACTORS: "made_by second_by withdrawn_by",
    },
    # The reasons are those of the decision.
    "decisions_adversenotice": {CODES: "bureaus result_ids language"},
    "decisions_noticefact": {CODES: "channel error", ACTORS: "recorded_by"},
    "decisions_case": {CODES: "package"},
    "decisions_casenote": {ACTORS: "author"},
    "decisions_policyversion": CLIENT,
    "decisions_reasoncode": CLIENT,
    # Counts of days, without an id of a report, so they stay after an erasure.
    "figures_dailyfigure": CODES,
    "golive_application": {
        APPLICATIONS: "details",
        CLIENT: "company_name",
        STAFF: "reason",
    },
    "golive_document": {APPLICATIONS: "name file data_key"},
    "golive_namechange": CLIENT,
    "jobs_heartbeat": CODES,
    "sources_source": CODES,
    "sources_sourceminute": CODES,
    "watchlists_edition": PUBLIC,
    "watchlists_listentry": PUBLIC,
    "webhooks_configuration": CLIENT,
    "workspaces_account": CLIENT,
    "workspaces_apikey": CLIENT,
    # The face of a company: its logo, colour, office hours and hosts
    "workspaces_brand": CLIENT,
    "workspaces_apirequest": {CODES: "method route problem reasons given_id"},
    "workspaces_invitation": ACCOUNTS,
    "workspaces_ledgerentry": {BOOKS: "note", ACTORS: "actor"},
    "workspaces_note": STAFF,
    "workspaces_ratecount": CODES,
    "workspaces_staffentry": BOOKS,
    "workspaces_workspace": CLIENT,
    # Reports and what belongs to them
    "checks_nextresult": {CODES: "check_name outcome", HASHES: "subject"},
    "checks_checkresult": {CODES: "name waits_for failure_code"},
    "batches_batch": {
        CODES: "report_ids row_numbers",
        HASHES: "digest",
        ACTORS: "created_by",
    },
    "batches_columnmapping": {CODES: "inputs", HASHES: "headings"},
    "batches_upload": {
        UPLOADS: "content",
        ACTORS: "created_by",
    },
    "consents_consent": {CODES: "token_digest shown_sources code_channel"},
    "consents_consentrecord": {
        CODES: "language notice_version notice_sha256",
        HASHES: "digest",
    },
    "consents_retiredlink": {CODES: "digest"},
    "jobs_job": {CODES: "function arguments claimed_by"},
    "monitoring_baseline": {CODES: "check_name"},
    "monitoring_rule": {
        RULES: "subject_id subject_name search_name terms subject consent reference",
        CODES: "check_names package last_error",
        ACTORS: "created_by",
    },
    "notifications_block": {HASHES: "address_hash"},
    "notifications_dailycount": {HASHES: "subject"},
    "notifications_notification": {
        CODES: "cause",
    },
    "notifications_refusedaddress": {HASHES: "address_hash"},
    # Addresses of members, who type the code that is sent there
    "notifications_sandboxaddress": {
        ACCOUNTS: "address address_hash code_hash",
    },
    "payments_audittotal": {CODES: "walk_id"},
    # Kinds and ids of rows, and the faults of their amounts.
    "payments_auditwalk": {CODES: "found"},
    "payments_checkout": {
        CODES: (
            "provider currency url session failure paid_currency transaction language"
        ),
        STAFF: "reason_to_keep",
        ACTORS: "started_by",
    },
    "payments_dispute": {CODES: "provider_dispute"},
    "payments_operatoralert": {CODES: "cause message"},
    "payments_payment": {CODES: "currency token_digest"},
    "payments_paymentevent": {CODES: "provider event_id type body_sha256"},
    "payments_reconciliationprogress": {CODES: "provider"},
    "payments_refund": {
        CODES: "provider_refund",
        STAFF: "reason",
        ACTORS: "requested_by decided_by",
    },
    "payments_sandboxcheckout": {
        CODES: "reference state failure currency return_url cancel_url refunds",
        CLIENT: "description",
    },
    "privacy_correction": {
        CODES: "check_name",
        ACTORS: "taken_by decided_by",
    },
    "privacy_disclosure": {ACTORS: "recipient"},
    "privacy_erasure": {
        CODES: "report_ids rule_ids searched_by counts certificate signature"
    },
    "privacy_erasedcount": CODES,
    "privacy_hold": {STAFF: "reason", ACTORS: "held_by released_by"},
    "privacy_journalentry": CODES,
    "privacy_rerun": {CODES: "fields"},
    "privacy_retentionrun": {CODES: "report_ids rule_ids"},
    "privacy_signingkey": CODES,
    "privacy_stafferasure": {
        DECIDED: "person subject_ids",
        CODES: "earlier_erasures found_ids",
        STAFF: "reason",
        ACTORS: "requested_by decided_by",
    },
    "privacy_subjectrequest": {
        # The register shows that a person was answered, also after the erasure.
        HASHES: "subject_id further_ids proved_address",
        STAFF: "reason",
        ACTORS: "requested_by",
    },
    "references_reference": {CODES: "token_digest"},
    "reports_idempotencyrecord": {HASHES: "key fingerprint"},
    "reports_report": {
        CODES: "country checks_requested package failure_code",
        ACTORS: "created_by",
    },
    "reports_statuschange": {CODES: "trigger", ACTORS: "actor"},
    "sources_call": {CODES: "source reference passed_over why cause job"},
    "webhooks_attempt": {CLIENT: "url"},
    "webhooks_event": {CODES: "cause"},
}
