"""The versions of the client's policy over HTTP; the console writes them."""

from typing import Self

from rest_framework.request import Request

from verification.api.content import PageQuery
from verification.api.operations import OperationViewSet, PageEnvelope, operation
from verification.checks.catalogue import CheckName
from verification.db.base import read_page
from verification.decisions.models import (
    DecisionStatus,
    PolicyMode,
    PolicyState,
    PolicyVersion,
)
from verification.decisions.policies import versions_of
from verification.decisions.rules import Comparison, read_rules
from verification.values.shapes import Shape, Timestamp
from workspaces.models import Scope


class PolicyConditionBody(Shape):
    """One condition of a rule."""

    check: CheckName | None
    """The name of the check; null if the condition is about the whole report."""
    fact: str
    """`score`, `level`, `flag`, `package`, `state`, or a number of the check's details,
    such as `creditScore`."""
    comparison: Comparison
    value: float | str


class PolicyRuleBody(Shape):
    """If all conditions hold, `then` is the outcome."""

    when: list[PolicyConditionBody]
    then: DecisionStatus
    reason_codes: list[str]


class PolicyVersionBody(Shape):
    """A version of your policy that is, or was, switched on."""

    number: int
    state: PolicyState
    """ACTIVE looks at each report that ends; RETIRED is switched off."""
    mode: PolicyMode
    """PROPOSE leaves the decision to a member who confirms it; DECIDE takes it."""
    rules: list[PolicyRuleBody]
    """The first one that matches decides. If none does, the outcome is REVIEW."""
    activated_at: Timestamp
    retired_at: Timestamp | None

    @classmethod
    def of(cls, version: PolicyVersion) -> Self:
        rules = [
            PolicyRuleBody(
                when=[PolicyConditionBody.from_row(one) for one in rule.when],
                then=DecisionStatus(rule.then),
                reason_codes=list(rule.codes),
            )
            for rule in read_rules(version.rules)
        ]
        return cls.from_row(version, rules=rules)


class PolicyVersionPage(PageEnvelope):
    """One page of versions, newest first."""

    content: list[PolicyVersionBody]


class PolicyViewSet(OperationViewSet):
    """The versions of the policy of the key's workspace, in the key's environment."""

    @operation(
        "listPolicyVersions",
        "List the versions of your policy",
        scope=Scope.REPORTS_READ,
        query=PageQuery,
        answer=PolicyVersionPage,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List the versions that were switched on, newest first, without drafts.

        `madeByName` of a decision that a policy made names its version. Members write
        the rules in the console.
        """
        found = versions_of(self.client).exclude(state=PolicyState.DRAFT)
        page = read_page(found, self.query.page, self.query.size)
        rows = [PolicyVersionBody.of(row) for row in page.rows]
        return self.page_of(rows, page.total)
