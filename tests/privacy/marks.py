"""A client's reports, rule and payments with a mark in each personal field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings as django_settings
from django.test import Client as HttpClient
from django.utils.timezone import localdate
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from monitoring.models import Alert
from tests.fakes import companies_house as companies_house_fake
from tests.fakes import kra as kra_fake
from tests.fakes import prembly as prembly_fake
from tests.fakes.africastalking import SmsGateway
from tests.fakes.companies_house import FakeCompaniesHouse
from tests.fakes.gleif import FakeGleif
from tests.fakes.kra import FakeKra
from tests.fakes.metropol import PRIVATE, PUBLIC, FakeMetropol
from tests.fakes.opensanctions import FakeOpenSanctions
from tests.fakes.paystack import FakePaystack
from tests.fakes.prembly import FakePrembly
from tests.fakes.smile_id import KEY, PARTNER, FakeSmileId
from tests.fakes.smile_id_v3 import FakeSmileIdV3
from tests.fakes.stripe import FakeStripe
from tests.files.samples import pdf
from tests.privacy.canaries import Canaries
from tests.world.brands import HOST, save_brand
from tests.world.clients import ATTESTED, HOSTED, Api
from tests.world.corrections import reviewer
from tests.world.decisions import DECLINE, Officer, deciding_api
from tests.world.deliveries import configure_receiver
from tests.world.payer import Payer
from tests.world.payments import poll_checkouts, provider_settings, send_event
from tests.world.receiver import Received, Receiver, Script
from tests.world.referee import visit_as_referee
from tests.world.refunds import create_refund, paystack_settings, send_waiting_refunds
from tests.world.rules import DAY, move_rules_back, run_rules
from tests.world.subject import Visitor, newest_code
from verification.batches.cells import Cell, Line, Sheet
from verification.batches.models import Upload
from verification.checks.models import CheckDefinition, CheckResult
from verification.console.batches import (
    OpenUpload,
    choose_columns,
    judge,
    place_batch,
    store_upload,
)
from verification.console.order_inputs import Choice, Offer
from verification.decisions import notices
from verification.files.inspection import inspect
from verification.notifications.delivery import send_due_notifications
from verification.privacy.corrections import (
    Statement,
    UploadedFile,
    correct,
    open_correction,
    rerun,
    take,
)
from verification.privacy.models import Correction, Origin
from verification.privacy.objections import object_to_use
from verification.providers import registry
from verification.references.models import Reference
from verification.reports.models import Report
from verification.values.local_time import NAIROBI
from webhooks.delivery import send_due_deliveries
from workspaces.ledger import top_up
from workspaces.models import Client

SUBJECT = "SubjectInput"
ADDRESS = "203.0.113.77"


@dataclass
class World:
    """The client, the servers around it, and the marks that it has planted."""

    api: Api
    receiver: Receiver
    paystack: FakePaystack
    stripe: FakeStripe
    smile_id: FakeSmileId
    smile_id_v3: FakeSmileIdV3
    metropol: FakeMetropol
    prembly: FakePrembly
    opensanctions: FakeOpenSanctions
    gleif: FakeGleif
    companies_house: FakeCompaniesHouse
    sms_gateway: SmsGateway
    settings: Any
    # Source -> its adapter and options
    sources: dict[str, Any]
    canaries: Canaries = field(default_factory=Canaries)
    # The members of the person and the company in requests
    person: dict[str, Any] = field(default_factory=dict)
    company: dict[str, Any] = field(default_factory=dict)
    # Ids of all reports and of the rule
    reports: list[str] = field(default_factory=list)
    sandbox_reports: list[str] = field(default_factory=list)
    rule: str = ""
    open_correction: str = ""

    @cached_property
    def sandbox(self) -> Api:
        return Api(self.api.workspace, "sandbox")

    def plant(self) -> None:
        """Put a mark into each field, and do what spreads it."""
        self.fail_deliveries()
        self.make_subjects()
        self.order()
        self.ask_other_sources()
        self.answer_consents()
        self.answer_references()
        self.act_in_the_sandbox()
        self.pay()
        self.pay_by_stripe()
        self.edit_draft()
        self.monitor()
        self.correct()
        self.decide()
        self.send_files()
        self.leave_callback()
        self.object()
        self.write_by_hand()
        self.read()
        self.sms_gateway.ids = self.canaries.word("africastalking.messageId")
        send_due_notifications()
        send_due_deliveries()

    def create(self, item: dict[str, Any], **headers: str) -> dict[str, Any]:
        answer = self.api.post("/reports", {"reports": [item]}, **headers)
        assert answer.status_code == 201, answer.content
        (made,) = answer.json()["reports"]
        self.reports.append(made["id"])
        return made

    def item(self, *checks: str, **members: Any) -> dict[str, Any]:
        """Return a request for a report on the person."""
        return {
            "subject": self.person,
            "checksRequested": list(checks) or ["IDENTITY"],
            "purpose": "Loan application",
            "consent": ATTESTED,
            **members,
        }

    def fail_deliveries(self) -> None:
        """Let the client's receiver fail and repeat what it got."""
        mark = self.canaries.text("receiver.answer")

        def answer(received: Received) -> Script:
            return Script(status=500, body=mark.encode() + received.body)

        self.receiver.scripts["/hook"] = answer
        url = self.receiver.url("/hook", host="localhost")
        configure_receiver(self.api.workspace, url, environment="production")

    def make_subjects(self) -> None:
        c = self.canaries
        names = {
            member: c.name(f"{SUBJECT}.{member}")
            for member in ("firstName", "middleName", "lastName")
        }
        self.person = {
            "subjectType": "INDIVIDUAL",
            **names,
            "fullName": f"{' '.join(names.values())} {c.name(f'{SUBJECT}.fullName')}",
            # The fake of Smile ID finds numbers that end like this.
            "idNumber": c.digits(f"{SUBJECT}.idNumber", "0"),
            "email": c.email(f"{SUBJECT}.email"),
            "phone": c.phone(f"{SUBJECT}.phone"),
            "dateOfBirth": c.day(f"{SUBJECT}.dateOfBirth"),
        }
        self.company = {
            "subjectType": "COMPANY",
            "fullName": f"{c.name('company.fullName')} Traders Limited",
            "registrationNumber": f"PVT-{c.digits(f'{SUBJECT}.registrationNumber')}0",
            "email": c.email("company.email"),
        }
        self.smile_id.person = {
            "FullName": f"{c.name('smile_id.FullName').upper()} KAMAU",
            "DOB": c.day("smile_id.DOB"),
            "FullData": {
                "Serial_Number": c.digits("smile_id.Serial_Number"),
                "Place_Of_Birth": c.name("smile_id.Place_Of_Birth"),
            },
        }
        self.smile_id.company = {
            "legal_name": f"{c.name('smile_id.legal_name')} LIMITED",
            "address": c.text("smile_id.address"),
        }
        self.smile_id.results = {
            "directors": [{"name": c.name("smile_id.director")}],
            "beneficial_owners": [
                {"name": c.name("smile_id.beneficial_owner"), "shareholdings": "40%"}
            ],
        }
        self.metropol.anybody = (501, "005")
        self.metropol.data = {
            "identity_verification": {
                "first_name": c.name("metropol.first_name"),
                "surname": c.name("metropol.surname"),
                "dob": c.day("metropol.dob"),
            },
            "identity_scrub": {
                "phone": [f"07{c.digits('metropol.phone')}"],
                "physical_address": [
                    {"address": c.text("metropol.address"), "town": "Nakuru"}
                ],
                "employment": [{"employer_name": c.name("metropol.employer_name")}],
            },
        }

    def order(self) -> None:
        """Order reports on attested consent, at three sources and of a company."""
        c = self.canaries
        save_brand(self.api.workspace)
        pin = f"A7{c.digits(f'{SUBJECT}.kraPin')}Z"
        name = f"{c.name('kra.Name')} MAONGA"
        kra_fake.TAXPAYERS[pin] = ("Individual", name, "Active")
        consent = {
            **ATTESTED,
            "policyVersion": c.text("ConsentInput.policyVersion"),
            "evidenceReference": c.text("ConsentInput.evidenceReference"),
        }
        item = self.item(
            *("IDENTITY", "KRA_PIN", "CRB_FULL"),
            subject={**self.person, "kraPin": pin},
            purpose=c.text("ReportItem.purpose"),
            reference=c.word("ReportItem.reference"),
            returnUrl=f"https://{HOST}/{c.word('ReportItem.returnUrl')}",
            consent=consent,
        )
        self.create(item, Idempotency_Key=c.unstored("header.Idempotency-Key"))
        company = {
            **self.company,
            "postalAddress": c.text(f"{SUBJECT}.postalAddress"),
            "postalCode": c.word(f"{SUBJECT}.postalCode"),
        }
        self.create(
            {**self.item("BUSINESS_VERIFICATION"), "subject": company, "reuse": False}
        )
        self.api.work()

    def ask_other_sources(self) -> None:
        """Ask the sources that the other orders do not ask."""
        c = self.canaries
        self.prembly.data = {
            "id_number": self.person["idNumber"],
            "surname": c.name("prembly.surname").upper(),
            "date_of_birth": c.day("prembly.date_of_birth"),
            "serial_number": c.digits("prembly.serial_number"),
            "place_of_birth": c.name("prembly.place_of_birth"),
        }
        person = self.item(reuse=False)
        self.create_routed(person, "IDENTITY", "KE", "prembly")
        self.opensanctions.entities[self.person["fullName"]] = (
            *("Person", ["sanction"]),
            "us_ofac_sdn",
        )
        self.opensanctions.result = {
            "caption": f"{c.name('opensanctions.caption')} Testperson",
            "properties": {
                "topics": ["sanction"],
                "birthDate": [c.day("opensanctions.birthDate")],
            },
        }
        CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
        person = self.item("AML_SCREENING", reuse=False)
        self.create_routed(person, "AML_SCREENING", "*", "opensanctions")
        number = f"C.{c.digits('gleif.registeredAs')}"
        self.gleif.add(
            "549300BUK5X61Q2X4S91",
            registeredAs=number,
            legalName={"name": f"{c.name('gleif.legalName')} LIMITED"},
            otherNames=[{"name": self.company["fullName"]}],
            legalAddress={
                "addressLines": [c.text("gleif.legalAddress")],
                "city": c.name("gleif.city"),
                "country": "UG",
            },
        )
        self.create_company("gleif", "UG", number)
        self.companies_house.profile = {
            "company_name": f"{c.name('companies_house.company_name')} LIMITED",
            "registered_office_address": {
                "address_line_1": c.text("companies_house.address_line_1")
            },
        }
        self.companies_house.officers = [
            {"name": c.name("companies_house.officer"), "officer_role": "director"}
        ]
        self.companies_house.owners = [
            {
                "name": c.name("companies_house.owner"),
                "natures_of_control": ["ownership-of-shares-75-to-100-percent"],
            }
        ]
        number = companies_house_fake.NUMBER
        self.create_company("companies_house", "GB", number)

    def create_company(self, source: str, country: str, number: str) -> None:
        """Order a report on a company of another country from this source."""
        check = "BUSINESS_VERIFICATION"
        company = {**self.company, "registrationNumber": number, "country": country}
        item = {**self.item(check, reuse=False), "subject": company}
        self.create_routed(item, check, country, source)

    def create_routed(
        self, item: dict[str, Any], check: str, country: str, source: str
    ) -> None:
        """Order a report whose check this source answers."""
        registry.configure(self.sources, {**ROUTES, check: {country: [source]}})
        made = self.create(item)
        self.api.work()
        (result,) = self.api.report(made["id"])["checkResults"]
        assert result["status"] == "COMPLETED", result
        registry.configure(self.sources, ROUTES)

    def answer_consents(self) -> None:
        """Grant, decline and withdraw on the pages of person and company."""
        c = self.canaries
        agent = {"User-Agent": c.text("header.User-Agent")}
        c.mark("visitor.address", ADDRESS)

        def ask(**members: Any) -> Visitor:
            made = self.create(self.item(consent=HOSTED, reuse=False, **members))
            visitor = Visitor(made["consentState"]["consentUrl"], **agent)
            visitor.browser.defaults["REMOTE_ADDR"] = ADDRESS
            visitor.open()
            return visitor

        born = date.fromisoformat(self.person["dateOfBirth"])
        challenge = {"day": born.day, "month": born.month, "year": born.year}
        for decision in ("grant", "decline", "withdraw"):
            visitor = ask()
            self.confirm(visitor, **{k: str(v) for k, v in challenge.items()})
            if decision != "decline":
                granted = visitor.grant(name=self.person["fullName"])
                assert granted.status_code == 303
            if decision != "grant":
                reason = c.text(f"ReasonForm.reason of {decision}")
                assert visitor.post(decision, reason=reason).status_code == 303
        pin = {**self.company, "kraPin": f"P7{c.digits('company.kraPin')}Z"}
        visitor = ask(subject=pin, checksRequested=["KRA_PIN"])
        self.confirm(visitor, answer=pin["registrationNumber"])
        signed = visitor.grant(
            name=f"{c.name('CompanyGrantForm.name')} Kamau",
            position=c.text("CompanyGrantForm.position"),
        )
        assert signed.status_code == 303
        self.api.work()

    def confirm(self, visitor: Visitor, **answer: str) -> None:
        """Answer the challenge, and type the code if the page asks for one."""
        visitor.confirm(**answer)
        if "Enter the code" in visitor.text():
            visitor.post("code", answer=newest_code())

    def answer_references(self) -> None:
        """Let one referee answer, and another decline."""
        c = self.canaries
        subject = {
            **self.person,
            "employerName": c.name(f"{SUBJECT}.employerName"),
            "refereeName": c.name(f"{SUBJECT}.refereeName"),
            "refereeEmail": c.email(f"{SUBJECT}.refereeEmail"),
            "jobTitle": c.name(f"{SUBJECT}.jobTitle"),
            "employmentStart": c.day(f"{SUBJECT}.employmentStart"),
            "employmentEnd": c.day(f"{SUBJECT}.employmentEnd"),
        }
        first, last = (
            date.fromisoformat(c.day(f"AnswersForm.{name}")) for name in ("from", "to")
        )
        answers = {
            "employed": "YES",
            "employer": c.name("AnswersForm.employer"),
            "job_title": c.name("AnswersForm.job_title"),
            **{f"from_{part}": str(getattr(first, part)) for part in DATE_PARTS},
            **{f"to_{part}": str(getattr(last, part)) for part in DATE_PARTS},
            "rehire": "YES",
            "remarks": c.text("AnswersForm.remarks"),
            "name": c.name("AnswersForm.name"),
            "title": c.name("AnswersForm.title"),
            "may_answer": "on",
        }
        reason = {"reason": c.text("ReasonForm.reason of a referee")}
        for action, form in (("submit", answers), ("decline", reason)):
            item = self.item("EMPLOYER_VERIFICATION", subject=subject, reuse=False)
            made = self.create(item)
            self.api.work()
            referee = visit_as_referee(Reference.objects.get(report=made["id"]))
            referee.browser.defaults["REMOTE_ADDR"] = ADDRESS
            referee.open()
            assert referee.post(action, **form).status_code == 303
        self.api.work()

    def act_in_the_sandbox(self) -> None:
        """Decline as the subject, answer and decline as a referee, by the API."""
        c, api = self.canaries, self.sandbox
        subject = {
            **self.person,
            "employerName": "Baraka Traders Ltd",
            "refereeName": "Kamau Njoroge",
            "refereeEmail": "referee@sandbox.test",
        }
        item = self.item("EMPLOYER_VERIFICATION", subject=subject)
        asked, answered, declined = (
            api.create({**item, "consent": consent})
            for consent in (HOSTED, ATTESTED, ATTESTED)
        )
        self.sandbox_reports += [made["id"] for made in (asked, answered, declined)]
        api.work()
        words = ("employer", "jobTitle", "refereeName", "refereeTitle")
        answers = {
            **{name: c.name(f"ReferenceAnswers.{name}") for name in words},
            "remarks": c.text("ReferenceAnswers.remarks"),
            "employedFrom": c.day("ReferenceAnswers.employedFrom"),
            "employedTo": c.day("ReferenceAnswers.employedTo"),
        }
        reason = c.text("ConsentAction.reason")
        self.act("consent", asked, {"action": "decline", "reason": reason})
        self.act("reference", answered, {"action": "answer", "answers": answers})
        reason = c.text("ReferenceAction.reason")
        self.act("reference", declined, {"action": "decline", "reason": reason})
        for name in ("idNumber", "kraPin", "registrationNumber"):
            field = f"NextResult.{name}"
            c.not_stored.add(field)
            number = c.digits(field)
            known = {"kraPin": f"P7{number}Z"}.get(name, number)
            check = "BUSINESS_VERIFICATION" if name[0] == "r" else "KRA_PIN"
            result = {"check": check, name: known, "outcome": "ADVERSE"}
            answer = api.post("/sandbox/results", result)
            assert answer.status_code == 200, answer.content
        api.work()

    def act(self, on: str, made: dict[str, Any], action: dict[str, Any]) -> None:
        """Act on a report of the sandbox; the answer is kept for a repeated request."""
        path = f"/sandbox/reports/{made['id']}/{on}"
        answer = self.sandbox.post(path, action, Idempotency_Key=made["id"])
        assert answer.status_code == 200, answer.content

    def pay(self) -> None:
        """Let a nominated payer fail by a prompt, and then pay on the page."""
        c = self.canaries
        payer = {
            "name": c.name("PayerInput.name"),
            "email": c.email("PayerInput.email"),
            "phone": c.phone("PayerInput.phone"),
        }
        item = self.item(paymentMode="THIRD_PARTY", payer=payer, reuse=False)
        payer_page = Payer(self.create(item)["id"])
        payer_page.open()
        phone = f"07{c.digits('PhoneForm.phone')}"
        payer_page.browser.post(payer_page.page + "prompt", {"phone": phone})
        prompt = payer_page.checkout
        said = c.text("paystack.gateway_response")
        self.paystack.end_prompt(prompt.reference, said)
        poll_checkouts(prompt)
        payer_page.pay()
        checkout = payer_page.checkout
        self.paystack.pay(checkout.reference)
        event = self.paystack.events[-1]
        event["data"]["customer"] |= {
            "email": c.email("paystack.email"),
            "phone": c.phone("paystack.phone"),
            "first_name": c.name("paystack.first_name"),
        }
        event["data"]["authorization"] = {"account_name": c.name("paystack.account")}
        send_event(self.paystack, event)
        poll_checkouts(checkout)
        self.api.work()

    def pay_by_stripe(self) -> None:
        """Let a payer pay at Stripe, whose bank refuses to take some of it back."""
        c = self.canaries
        self.settings.PAYMENT_PROVIDER = "stripe"
        payer = {"name": c.name("Stripe's payer"), "email": c.email("Stripe's payer's")}
        # Stripe takes no less than the price of both.
        item = self.item(
            *("IDENTITY", "CRB_FULL"),
            paymentMode="THIRD_PARTY",
            payer=payer,
            reuse=False,
        )
        payer_page = Payer(self.create(item)["id"])
        payer_page.open()
        payer_page.pay()
        checkout = payer_page.checkout
        self.stripe.pay(checkout.reference)
        event = self.stripe.events[-1]
        event["data"]["object"]["customer_details"] = {
            "email": c.email("stripe.email"),
            "name": c.name("stripe.name"),
            "phone": c.phone("stripe.phone"),
            "address": {"line1": c.text("stripe.line1")},
        }
        send_event(self.stripe, event)
        poll_checkouts(checkout)
        self.stripe.refunds_wait = True
        create_refund(checkout, 10)
        send_waiting_refunds()
        (refund,) = self.stripe.refunds.values()
        reason = c.text("stripe.failure_reason")
        refund |= {"status": "failed", "failure_reason": reason}
        send_waiting_refunds()
        self.settings.PAYMENT_PROVIDER = "paystack"
        self.api.work()

    def edit_draft(self) -> None:
        """Create a draft and replace its marks."""
        c = self.canaries
        draft = self.item(
            purpose=c.unstored("purpose before the edit"), draft=True, reuse=False
        )
        made = self.create(draft)
        edit = {
            "purpose": c.text("DraftEdit.purpose"),
            "returnUrl": f"https://{HOST}/{c.word('DraftEdit.returnUrl')}",
        }
        answer = self.api.post(f"/reports/{made['id']}/draft", edit)
        assert answer.status_code == 200, answer.content
        assert self.api.post(f"/reports/{made['id']}/launch").status_code == 200
        self.api.work()

    def monitor(self) -> None:
        """Monitor the person until a run raises an alert."""
        c = self.canaries
        request = {
            "subject": self.person,
            "checkNames": ["IDENTITY"],
            "cadence": "DAILY",
            "reference": c.word("MonitoringRule.reference"),
            "consent": {
                **ATTESTED,
                "policyVersion": c.text("ConsentInput.policyVersion of a rule"),
                "evidenceReference": c.text("ConsentInput.evidenceReference of a rule"),
            },
        }
        key = {"Idempotency_Key": c.unstored("header.Idempotency-Key of a rule")}
        made = self.api.post("/monitoring", request, **key)
        assert made.status_code == 201, made.content
        self.rule = made.json()["id"]
        run_rules(self.api)
        changed = f"{c.name('smile_id.FullName of a later run').upper()} KAMAU"
        self.smile_id.person = {**self.smile_id.person, "FullName": changed}
        move_rules_back(DAY)
        run_rules(self.api)
        (alert,) = self.api.get("/monitoring/alerts").json()["content"]
        assert changed in str(alert["changes"])

    def correct(self) -> None:
        """Let the person dispute two findings; staff correct the first of them."""
        results = CheckResult.objects.filter(report=self.reports[0])
        first, second = (
            self.dispute(results.get(name=name)) for name in ("IDENTITY", "CRB_FULL")
        )
        c, by = self.canaries, reviewer()
        take(first.pk, by)
        detail = f"{c.name('detail of a re-run')} Kamau"
        self.smile_id.person = {
            **self.smile_id.person,
            "FullName": f"{c.name('smile_id.FullName of a re-run')} Kamau",
        }
        rerun(first.pk, by, {"fullName": detail})
        self.api.work()
        correct(first.pk, by, c.text("reason of a decision"))
        self.open_correction = str(second.pk)

    def dispute(self, result: CheckResult) -> Correction:
        c, about = self.canaries, f"of {result.name}"
        statement = Statement(
            what=c.text(f"DisputeForm.what {about}"),
            why=c.text(f"DisputeForm.why {about}"),
            language="en",
        )
        name = f"{c.word(f'name of a document {about}')}.pdf"
        content = pdf_with(c.text(f"DisputeForm.documents {about}"))
        file = inspect(name, "application/pdf", content)
        return open_correction(
            result.report_id, result.pk, statement, [UploadedFile(name, file)]
        )

    def leave_callback(self) -> None:
        """Let Smile ID call back with an answer that no check reads."""
        routes = {**ROUTES, "IDENTITY": {"KE": ["smile_id_v3"]}}
        registry.configure(self.sources, routes)
        self.smile_id_v3.person = {
            "full_name": self.canaries.name("smile_id_v3.full_name")
        }
        self.create(self.item(reuse=False))
        self.api.work()
        body, headers = self.smile_id_v3.signed(self.smile_id_v3.events[0])
        answer = HttpClient(headers=headers).post(
            "/callbacks/smile-id-v3", body, content_type="application/json"
        )
        assert answer.status_code == 200, answer.content

    def decide(self) -> None:
        """Decline by the API, which keeps its answer for repeated requests."""
        path = f"/reports/{self.reports[0]}/decision"
        api = deciding_api(self.api)
        reason = self.canaries.text("Decision.notOnBureau")
        other = {**DECLINE, "reasonCodes": ["OWN_CRITERIA"], "notOnBureau": reason}
        first = api.post(path, other).json()
        note = self.canaries.text("Decision.note")
        body = {**DECLINE, "note": note, "replaces": first["id"]}
        answer = api.post(path, body, Idempotency_Key="decide-1")
        assert answer.status_code == 201, answer.content
        officer = Officer(self.api)
        officer.note(self.reports[0], self.canaries.text("CaseNote.text"))
        notices.hand_over(
            officer.client,
            answer.json()["notice"]["id"],
            officer.member,
            officer.actor,
            by=self.canaries.text("NoticeFact.by"),
            on=localdate(timezone=NAIROBI),
        )

    def send_files(self) -> None:
        """Let a member order by a file, and send another one that waits."""
        account = self.api.account
        client = Client(self.api.workspace, account, "member of the client")
        chosen = Choice("INDIVIDUAL", "KE", ("IDENTITY",), "", "SERVICE_HOSTED", "SELF")
        names = ["fullName", "idNumber", "dateOfBirth", "email", "purpose"]
        values = [*(self.person[name] for name in names[:4]), "Loan application"]
        header = Line(1, [Cell(name) for name in names])
        name = self.canaries.text("name of a file")
        for number in (2, 3):
            sheet = Sheet(header, [Line(number, [Cell(value) for value in values])])
            values[-1] = "Another loan application"
            upload = store_upload(client, name, sheet, chosen, {})
            if number == 2:
                columns = OpenUpload.of(upload).mapping(client, Offer.to(client))
                choose_columns(client, upload.pk, columns.inputs)
                self.order_upload(client, Upload.objects.get(pk=upload.pk))

    def order_upload(self, client: Client, upload: Upload) -> None:
        judged = judge(client, OpenUpload.of(upload))
        assert judged.quote, judged.faults
        digest = judged.quote.digest
        report_ids = place_batch(
            client, upload, judged, draft=False, digest=digest, also=lambda _batch: None
        )
        self.reports += map(str, report_ids)

    def object(self) -> None:
        """Let staff enter an objection with what the person wrote."""
        reason = self.canaries.text("reason of an objection")
        report_id = UUID(self.reports[0])
        object_to_use(report_id, Origin.STAFF, requested_by="staff", reason=reason)

    def write_by_hand(self) -> None:
        """Put marks where today only words of the service are, such as errors."""
        c = self.canaries
        message = c.text("CheckResult.failure_message")
        CheckResult.objects.filter(report=self.reports[0]).update(
            failure_message=message
        )
        message = c.text("Report.failure_message")
        Report.objects.filter(pk=self.reports[0]).update(failure_message=message)
        for alert in Alert.objects.all():
            alert.title = c.text("Alert.title")
            alert.message = c.text("Alert.message")
            alert.save()

    def read(self) -> None:
        """Read everything as the client does; what it asks for is not stored."""
        c = self.canaries
        listed = self.api.get("/reports", size=100).json()["content"]
        self.reports = [report["id"] for report in listed]
        for report_id in self.reports:
            self.api.report(report_id)
            self.api.get(f"/reports/{report_id}/events")
            self.api.get(f"/reports/{report_id}/pdf")
        self.api.get("/reports", search=c.unstored("query.search"))
        self.api.get("/monitoring", search=c.unstored("query.search of rules"))
        self.api.get(f"/monitoring/{self.rule}")


def pdf_with(text: str) -> bytes:
    """Return a PDF with a line of text."""

    def write(writer: PdfWriter) -> None:
        names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        font = DictionaryObject(
            {NameObject(key): NameObject(value) for key, value in names.items()}
        )
        line = DecodedStreamObject()
        line.set_data(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
        fonts = DictionaryObject({NameObject("/F1"): font})
        page = writer.pages[0]
        page[NameObject("/Contents")] = line
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})

    return pdf(write)


DATE_PARTS = ("day", "month", "year")
ROUTES = {
    "IDENTITY": {"KE": ["smile_id"]},
    "BUSINESS_VERIFICATION": {"KE": ["smile_id"]},
    "KRA_PIN": {"KE": ["kra"]},
    "CRB_FULL": {"KE": ["metropol"]},
}


@pytest.fixture
def sources(
    smile_id: FakeSmileId,
    smile_id_v3: FakeSmileIdV3,
    kra: FakeKra,
    metropol: FakeMetropol,
    prembly: FakePrembly,
    opensanctions: FakeOpenSanctions,
    gleif: FakeGleif,
    companies_house: FakeCompaniesHouse,
) -> dict[str, Any]:
    """The configuration of all live sources."""
    configured: dict[str, tuple[Any, dict[str, Any]]] = {
        "smile_id.SmileId": (smile_id, {"partner_id": PARTNER, "api_key": KEY}),
        "smile_id_v3.SmileIdV3": (
            smile_id_v3,
            {**smile_id_v3.options, "attested_language": "en"},
        ),
        "kra.Kra": (kra, {"client_id": "key", "client_secret": "secret"}),
        "metropol.Metropol": (
            metropol,
            {
                "public_key": PUBLIC,
                "private_key": PRIVATE,
                "url": f"{metropol.url}/v2_1",
            },
        ),
        "prembly.Prembly": (
            prembly,
            {"app_id": prembly_fake.APP, "api_key": prembly_fake.KEY},
        ),
        "opensanctions.OpenSanctions": (opensanctions, {}),
        "gleif.Gleif": (gleif, {"url": f"{gleif.url}/api/v1"}),
        "companies_house.CompaniesHouse": (
            companies_house,
            {"api_key": companies_house_fake.KEY},
        ),
    }
    return {
        path.split(".")[0]: (
            f"verification.providers.{path}",
            {"url": fake.url, "opened": [fake.host], **options},
        )
        for path, (fake, options) in configured.items()
    }


@pytest.fixture
def live_source(sources: dict[str, Any]) -> Iterator[None]:
    """Configure these sources, with the name of a taxpayer that tests may add."""
    registry.configure(sources, ROUTES)
    known = kra_fake.TAXPAYERS.copy()
    yield
    kra_fake.TAXPAYERS.clear()
    kra_fake.TAXPAYERS.update(known)
    registry.configure(django_settings.PROVIDERS, django_settings.SOURCE_ROUTES)


@pytest.fixture
def world(
    paystack_api: Api,
    receiver: Receiver,
    paystack: FakePaystack,
    stripe_api: FakeStripe,
    smile_id: FakeSmileId,
    smile_id_v3: FakeSmileIdV3,
    metropol: FakeMetropol,
    prembly: FakePrembly,
    opensanctions: FakeOpenSanctions,
    gleif: FakeGleif,
    companies_house: FakeCompaniesHouse,
    sms_gateway: SmsGateway,
    sources: dict[str, Any],
    tmp_path: Path,
    settings: Any,
) -> World:
    settings.EMAIL_BACKEND = "verification.notifications.mailbox.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path / "mail")
    (tmp_path / "mail").mkdir()
    name, of_stripe = provider_settings(stripe_api)
    settings.PAYMENT_PROVIDERS = {**paystack_settings(paystack), name: of_stripe}
    workspace = paystack_api.workspace
    top_up(workspace, "production", Decimal(100_000), actor="tests", note="")
    return World(
        paystack_api,
        receiver,
        paystack,
        stripe_api,
        smile_id,
        smile_id_v3,
        metropol,
        prembly,
        opensanctions,
        gleif,
        companies_house,
        sms_gateway,
        settings,
        sources,
    )
