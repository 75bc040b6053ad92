"""The words of a policy: its rules as sentences, its faults, why it has decided so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from verification.checks.finding_words import flag_name
from verification.checks.models import CheckDefinition, CheckPackage
from verification.console.base import Text
from verification.console.words import WORDS
from verification.decisions.models import Decision, reason_text
from verification.decisions.reason_codes import codes_of
from verification.decisions.rules import (
    NUMBERS,
    Condition,
    Fact,
    Gone,
    Rule,
    RuleFault,
    read_rules,
)
from workspaces.models import Workspace

NUMBER_NAMES = {
    "creditScore": _("credit score"),
    "probabilityOfDefault": _("probability of default"),
    "openAccounts": _("number of open accounts"),
    "nonPerformingAccounts": _("number of non-performing accounts"),
    "totalBalance": _("total balance in KES"),
    "totalOverdue": _("total overdue in KES"),
    "worstDaysInArrears": _("longest arrears in days"),
    "enquiriesLast12Months": _("number of enquiries in 12 months"),
    "bouncedChequesLast12Months": _("number of bounced cheques in 12 months"),
}
# The sentence of a condition, by fact and comparison
ABOUT_REPORT = {
    ("score", "AT_LEAST"): _("the risk score of the report is at least %(value)s"),
    ("score", "BELOW"): _("the risk score of the report is below %(value)s"),
    ("level", "IS"): _("the risk level of the report is %(value)s"),
    ("level", "IS_NOT"): _("the risk level of the report is not %(value)s"),
    ("flag", "IS"): _("a check has the flag %(value)s"),
    ("flag", "IS_NOT"): _("no check has the flag %(value)s"),
    ("package", "IS"): _("the package is %(value)s"),
    ("package", "IS_NOT"): _("the package is not %(value)s"),
}
ABOUT_CHECK = {
    ("score", "AT_LEAST"): _("the risk score of %(check)s is at least %(value)s"),
    ("score", "BELOW"): _("the risk score of %(check)s is below %(value)s"),
    ("level", "IS"): _("the risk level of %(check)s is %(value)s"),
    ("level", "IS_NOT"): _("the risk level of %(check)s is not %(value)s"),
    ("flag", "IS"): _("%(check)s has the flag %(value)s"),
    ("flag", "IS_NOT"): _("%(check)s does not have the flag %(value)s"),
}
ABOUT_NUMBER = {
    "AT_LEAST": _("the %(number)s of %(check)s is at least %(value)s"),
    "BELOW": _("the %(number)s of %(check)s is below %(value)s"),
}
ABOUT_STATE = {
    ("COMPLETED", "IS"): _("%(check)s was completed"),
    ("COMPLETED", "IS_NOT"): _("%(check)s was not completed"),
    ("FAILED", "IS"): _("%(check)s failed"),
    ("FAILED", "IS_NOT"): _("%(check)s did not fail"),
    ("MISSING", "IS"): _("the report does not have %(check)s"),
    ("MISSING", "IS_NOT"): _("the report has %(check)s"),
}
SENTENCES = {
    "APPROVED": _("If %(conditions)s, approve."),
    "DECLINED": _("If %(conditions)s, decline: %(codes)s."),
    "REVIEW": _("If %(conditions)s, a person reviews the report."),
}
# Of declines: Banking (Credit Reference Bureau) Regulations, 2020
ABOUT_SCORES = _(
    "A lender in Kenya must not refuse credit because of a credit score alone."
)
FAULTS = {
    Gone.CHECK: _("Rule %(rule)s: the check %(name)s is not offered."),
    Gone.FLAG: _("Rule %(rule)s: the check has no flag %(name)s."),
    Gone.NUMBER: _("Rule %(rule)s: the check does not tell %(name)s."),
    Gone.PACKAGE: _("Rule %(rule)s: the package %(name)s is not offered."),
    Gone.CODE: _("Rule %(rule)s: the reason %(name)s is not offered."),
}


@dataclass(frozen=True, slots=True)
class Names:
    """The names that readers know, by the names and codes of rules."""

    checks: Mapping[str, str]
    packages: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, workspace: Workspace) -> Names:
        packages = CheckPackage.objects.known_to(workspace.pk)
        return cls(
            {one.name: one.title for one in CheckDefinition.objects.all()},
            dict(packages.values_list("name", "display_name")),
            {row.code: reason_text(row.words) for row in codes_of(workspace)},
        )

    def reasons_of(self, rule: Rule) -> list[str]:
        return [self.reasons.get(code, code) for code in rule.codes]


def sentence_of(rule: Rule, names: Names) -> str:
    """Return the rule as one sentence."""
    said = [_phrase(one, names, _plain(one)) for one in rule.when]
    reasons = ", ".join(names.reasons_of(rule))
    words = {"conditions": _(" and ").join(said), "codes": reasons}
    return str(SENTENCES[rule.then]) % words


def marked_conditions(rule: Rule, names: Names) -> SafeString:
    """Return the conditions of a rule, with each name and value marked."""
    said = [_phrase(one, names, _marked) for one in rule.when]
    conditions = SafeString(_(" and ").join(said))
    return SafeString(str(_("If %(conditions)s")) % {"conditions": conditions})


def _plain(condition: Condition) -> Callable[[str], str]:
    """Quote the sentences that stand for flags."""
    is_flag = condition.fact == Fact.FLAG
    return (lambda text: f"“{text}”") if is_flag else str


def _marked(text: str) -> str:
    return format_html("<q>{}</q>", text)


def _phrase(condition: Condition, names: Names, mark: Callable[[str], str]) -> str:
    check, comparison = condition.check, condition.comparison.value
    value = word_name(condition.fact, value_text(condition.value), names)
    words = {"value": mark(value)}
    if check is None:
        return str(ABOUT_REPORT[condition.fact, comparison]) % words
    name = names.checks.get(check, check)
    words["check"] = mark(name) if mark is _marked else name
    if condition.fact in NUMBERS:
        words["number"] = str(NUMBER_NAMES[condition.fact])
        return str(ABOUT_NUMBER[comparison]) % words
    if condition.fact == Fact.STATE:
        return str(ABOUT_STATE[str(condition.value), comparison]) % words
    return str(ABOUT_CHECK[condition.fact, comparison]) % words


def word_name(fact: str, word: str, names: Names) -> str:
    """Return the name of a level, flag or package; other words stay."""
    match fact:
        case Fact.LEVEL:
            return str(WORDS["risk"].get(word, word))
        case Fact.FLAG:
            return flag_name(word)
        case Fact.PACKAGE:
            return names.packages.get(word, word)
    return word


def value_text(value: float | str) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def fault_texts(faults: Iterable[RuleFault], names: Names) -> list[str]:
    named: dict[Gone, Callable[[str], str]] = {
        Gone.CHECK: lambda name: names.checks.get(name, name),
        Gone.FLAG: lambda name: f"“{flag_name(name)}”",
        Gone.NUMBER: lambda name: str(NUMBER_NAMES.get(name, name)),
        Gone.PACKAGE: lambda name: names.packages.get(name, name),
        Gone.CODE: lambda name: f"“{names.reasons.get(name, name)}”",
    }
    return [
        str(FAULTS[one.gone]) % {"rule": one.rule, "name": named[one.gone](one.name)}
        for one in faults
    ]


def why_of(decision: Decision) -> list[Text]:
    """Return why a policy has decided so, in sentences; nothing for other decisions."""
    version, basis = decision.policy_version, decision.policy
    if version is None or not basis:
        return []
    if basis["isBroken"]:
        return [_("The version of the policy named something that no longer exists.")]
    names = Names.of(version.workspace)
    said: Text = _("No rule decided, so a person reviews the report.")
    if false := basis.get("contradicted"):
        contradicted = _("No finding bears out %(codes)s, so a person reviews it.")
        reasons = (f"“{names.reasons.get(code, code)}”" for code in false)
        said = contradicted % {"codes": ", ".join(reasons)}
    if number := basis["rule"]:
        said = sentence_of(read_rules(version.rules)[number - 1], names)
    if unanswered := basis["unanswered"]:
        listed = ", ".join(map(str, unanswered))
        return [said, _("Rules without an answer: %(rules)s.") % {"rules": listed}]
    return [said]
