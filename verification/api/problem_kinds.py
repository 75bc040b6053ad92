"""Every problem the API can answer with: its code, status and words.

The words are also the page that a problem's `type` leads to; their Kiswahili is in
`locale/sw`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProblemKind:
    code: str
    status: int
    title: str
    explanation: str
    way_out: str


_PROBLEM_KINDS = [
    ProblemKind(
        "malformed-body",
        400,
        "The body cannot be read",
        "The body is not a JSON object, or it holds something JSON does not allow.",
        "Send one JSON object in UTF-8, with each member once. The detail says where "
        "reading stopped.",
    ),
    ProblemKind(
        "validation-failed",
        400,
        "The request breaks a rule",
        "A member, parameter or header of the request breaks a rule, and nothing was "
        "done.",
        "Fix every entry of “errors” and send the request again. Each names its place "
        "and the rule.",
    ),
    ProblemKind(
        "authentication-required",
        401,
        "An API key is needed",
        "The request has no Authorization header, or one that cannot be read.",
        "Send the header “Authorization: Bearer” followed by your API key.",
    ),
    ProblemKind(
        "invalid-api-key",
        401,
        "The API key is not valid",
        "The API key is misspelt, unknown, revoked or expired.",
        "Compare the key with the one you were given, or make a new one.",
    ),
    ProblemKind(
        "wrong-environment",
        401,
        "The API key belongs to the other environment",
        "A test key was used at the production address, or a live key at the sandbox "
        "address.",
        "Use test keys at the sandbox address and live keys at the production address.",
    ),
    ProblemKind(
        "invalid-signature",
        401,
        "The event is not signed by a payment provider",
        "The signature of the payment provider is missing or wrong, or there are two.",
        "This address is for payment providers. Compare the keys that are configured "
        "with those of the provider.",
    ),
    ProblemKind(
        "insufficient-balance",
        402,
        "The balance is too low",
        "The prepaid balance and credit of the workspace do not cover this request, or "
        "a postpaid workspace would owe more than its ceiling. Nothing was created.",
        "Top up the workspace, or pay what it owes, and send the request again. The "
        "detail says how much is needed.",
    ),
    ProblemKind(
        "insufficient-scope",
        403,
        "The API key lacks a scope",
        "The API key is valid, but it was not given the scope this operation needs.",
        "Use a key with the scope that the problem names, or make one.",
    ),
    ProblemKind(
        "network-not-allowed",
        403,
        "The API key does not work from this address",
        "The API key names the networks that it works from, and the request came from "
        "elsewhere. The detail has the address that the service saw.",
        "Send the request from a machine in these networks, or change them under Keys "
        "in the console. If the request is not yours, revoke the key.",
    ),
    ProblemKind(
        "workspace-suspended",
        403,
        "The workspace is suspended",
        "The operator has suspended the workspace. Its data is kept.",
        "Ask the operator of the service.",
    ),
    ProblemKind(
        "https-required",
        403,
        "The API needs HTTPS",
        "The request came over plain HTTP, and so did its API key: anybody on the way "
        "could read both.",
        "Use the address that begins with https, and replace the key with a new one.",
    ),
    ProblemKind(
        "sandbox-only",
        403,
        "This works only in the sandbox",
        "The address acts on the sandbox, and the API key is a live one.",
        "Use a test key, which begins with vrf_test_. Nothing acts on production this "
        "way.",
    ),
    ProblemKind(
        "not-found",
        404,
        "Not found",
        "There is nothing at this address that this API key can see.",
        "Check the address and the id. Sandbox and production data are apart: use the "
        "key the object was made with.",
    ),
    ProblemKind(
        "method-not-allowed",
        405,
        "The method is not allowed here",
        "This address does not take this HTTP method.",
        "Use one of the methods in the Allow header.",
    ),
    ProblemKind(
        "not-acceptable",
        406,
        "Only JSON can be sent back",
        "The Accept header of the request excludes JSON.",
        "Leave the Accept header out, or let it include application/json.",
    ),
    ProblemKind(
        "report-not-launchable",
        409,
        "The report cannot be launched now",
        "The report is not a draft any more, or its consent or payment is outstanding.",
        "See “reasons”; the detail says what to do about each. Then launch again. A "
        "report that is not a draft needs no launch.",
    ),
    ProblemKind(
        "report-not-editable",
        409,
        "The report cannot be changed now",
        "Only a draft can be changed, and not in what its payer has paid for.",
        "Cancel the report and create another one.",
    ),
    ProblemKind(
        "report-not-cancellable",
        409,
        "The report cannot be cancelled now",
        "The report has already ended.",
        "There is nothing to cancel; read the report as it is.",
    ),
    ProblemKind(
        "report-not-retryable",
        409,
        "The report cannot be retried now",
        "Only a report that has ended with failed checks can be retried, while its "
        "consent holds, these checks are offered and its payer has no money back.",
        "Wait until the report has ended. If the detail names a reason that stays, "
        "order a new report.",
    ),
    ProblemKind(
        "report-not-decidable",
        409,
        "Nobody can decide about the report now",
        "The report has not ended, was cancelled, none of its checks was run, its "
        "subject objected to further use, or it has 100 decisions.",
        "Read the report, and decide when its status is READY, FAILED, or PARTIAL with "
        "completedAt, and a check has completed or failed. After 100 decisions members "
        "decide in the console.",
    ),
    ProblemKind(
        "decision-conflict",
        409,
        "Another decision came first",
        "Another decision about the report counts, or a proposal waits for a second "
        "member.",
        "Read `decision` and `proposedDecision` of the report. To decide again, name "
        "the decision that counts in `replaces`.",
    ),
    ProblemKind(
        "consent-not-resendable",
        409,
        "There is no consent link to send",
        "The report asks its subject for nothing on our page, or the subject has "
        "answered.",
        "Read the consent state. An edit of a draft can ask for consent again.",
    ),
    ProblemKind(
        "subject-link-not-sendable",
        409,
        "The subject can get no link to their data",
        "The subject is a company, has no address, has not answered yet, was erased, "
        "or says that they are another person.",
        "Read the detail. Tell a person without an address how to reach the operator.",
    ),
    ProblemKind(
        "payment-not-resendable",
        409,
        "There is no payment link to send",
        "The report asks nobody to pay now, or it was paid.",
        "Read the payment state. An edit of a draft can ask for payment again.",
    ),
    ProblemKind(
        "sandbox-action-not-possible",
        409,
        "The action is not possible now",
        "The state of the object does not allow this action, and nothing was changed.",
        "“possible” names the actions that it allows now. Read the object, as somebody "
        "else may have been faster.",
    ),
    ProblemKind(
        "nothing-due",
        409,
        "Nothing is due",
        "Nothing is due for the object now, or a job or another "
        "skip has just done it. Nothing was changed.",
        "Read what comes next at the address that ends with /next.",
    ),
    ProblemKind(
        "idempotency-in-progress",
        409,
        "The same request is still running",
        "A request with this Idempotency-Key is being worked on.",
        "Wait for the time in Retry-After, then send the same request again to get its "
        "answer.",
    ),
    ProblemKind(
        "rule-not-resumable",
        409,
        "The rule cannot be resumed now",
        "The monitoring rule is paused for a reason that a request alone does not end: "
        "staff paused it, the subject withdrew consent or objected, or a check is not "
        "offered.",
        "Look at `pauseReason`. After a withdrawal or an objection, send the new "
        "`consent`. Staff resume rules that they paused. The detail names a check that "
        "is not offered.",
    ),
    ProblemKind(
        "webhook-not-configured",
        409,
        "There is no webhook configuration",
        "The workspace has no webhook configuration in this environment, so there is "
        "nowhere to send to.",
        "Create the configuration, then send the request again.",
    ),
    ProblemKind(
        "webhook-disabled",
        409,
        "The webhook configuration is disabled",
        "Nothing is sent while the webhook configuration is disabled, by the client or "
        "because its receiver failed for too long.",
        "Fix the receiver, send the configuration again with “enabled” true, then "
        "repeat the request.",
    ),
    ProblemKind(
        "event-purged",
        409,
        "The event is no longer kept",
        "What the event said was deleted 30 days after it was recorded, so it cannot "
        "be sent again.",
        "Read the report itself; it is kept for longer.",
    ),
    ProblemKind(
        "cursor-expired",
        410,
        "Events after the cursor are no longer kept",
        "Events are kept for 30 days. The cursor is older, so events that follow it "
        "may be deleted.",
        "Read the reports that matter to you, then the events without a cursor.",
    ),
    ProblemKind(
        "event-restricted",
        409,
        "The event is not sent again",
        "The subject of the report objected to further use of the details.",
        "Read the report itself. Use it only as far as the law allows.",
    ),
    ProblemKind(
        "request-timeout",
        408,
        "The body came too slowly",
        "The body was not complete in 20 seconds and a second for each 1,000 bytes, or "
        "in 10 minutes.",
        "Send the request again, over a faster connection or with a smaller body.",
    ),
    ProblemKind(
        "body-too-large",
        413,
        "The body is too large",
        "The body is larger than 2 MiB.",
        "Split the request into smaller ones.",
    ),
    ProblemKind(
        "unsupported-media-type",
        415,
        "The body is not sent as JSON",
        "The Content-Type of the request is not application/json in UTF-8, or the body "
        "is compressed.",
        "Send the header “Content-Type: application/json” and a plain JSON body.",
    ),
    ProblemKind(
        "idempotency-key-reused",
        422,
        "The Idempotency-Key was used for another request",
        "The same Idempotency-Key came with a different request within 72 hours.",
        "Use a new key for each new request, and an old one only to repeat a request.",
    ),
    ProblemKind(
        "answer-erased",
        410,
        "The answer was erased",
        "The request was carried out, and the personal data in its answer was erased.",
        "Do not repeat the request.",
    ),
    ProblemKind(
        "report-erased",
        410,
        "The report was erased",
        "The personal data of the report was erased.",
        "Read the report itself: its skeleton tells when it was erased.",
    ),
    ProblemKind(
        "erasure-held",
        409,
        "The person is not erased now",
        "The operator has to keep a report about this person, and has a reason for it.",
        "Ask the operator until when. The register of requests has the refusal.",
    ),
    ProblemKind(
        "erasure-not-ended",
        409,
        "The erasure has not ended",
        "The certificate is written at the end of the erasure.",
        "Read the erasure until its status is ENDED. It takes seconds.",
    ),
    ProblemKind(
        "rate-limited",
        429,
        "Too many requests",
        "More requests were made in a minute than are allowed.",
        "Wait for the time in Retry-After, then go on at a slower pace.",
    ),
    ProblemKind(
        "internal-error",
        500,
        "The service made an error",
        "The service made an error that is not your fault, and it is in its log.",
        "Try again with the same Idempotency-Key. If that fails, give the operator the "
        "request id.",
    ),
    ProblemKind(
        "unavailable",
        503,
        "The service is not available just now",
        "The service cannot reach its database, or its web server restarts.",
        "Wait for the time in Retry-After, then try again with the same "
        "Idempotency-Key.",
    ),
    ProblemKind(
        "overloaded",
        503,
        "The service has too much to do",
        "More requests arrive than the service can answer in time, so it has not begun "
        "this one.",
        "Wait for the time in Retry-After, then send the request again. Send fewer at "
        "the same time if this happens often.",
    ),
]
PROBLEM_KINDS = {kind.code: kind for kind in _PROBLEM_KINDS}
