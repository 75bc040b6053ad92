"""Order reports, act in the sandbox, and get events on your machine."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, get_args

from . import Client, Problem, VerificationError, __version__, _listener, _stored
from .models import ConsentAction, PaymentAction, ReferenceAction

KINDS = ("report", "rule", "delivery")
ACTIONS = ", ".join(
    f"{part}.{action}"
    for part, actions in (
        ("consent", ConsentAction),
        ("payment", PaymentAction),
        ("reference", ReferenceAction),
    )
    for action in get_args(actions)
)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output, such as head, needs no more. At its end Python would
        # write the rest, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # what shells report of programs that end by SIGPIPE
    except Problem as problem:
        faults = [f"  {one.place}: {one.detail}" for one in problem.faults]
        print(f"vrf: {problem}", *faults, sep="\n", file=sys.stderr)
        return 1
    except (VerificationError, ValueError, OSError, EOFError) as error:
        print(f"vrf: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vrf", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], None], text: str, under: Any
    ) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = under.add_parser(
            name, help=text, description=text
        )
        made.set_defaults(run=run)
        return made

    login = command("login", _login, "Store the address and a key.", commands)
    login.add_argument("--url", help="address of the service")

    listen = command(
        "listen", _listen, "Post events to a receiver on this machine.", commands
    )
    listen.add_argument("--forward-to", required=True, metavar="URL")
    listen.add_argument("--events", default="", help="names, with commas between")

    trigger = command(
        "trigger",
        _trigger,
        "Act as the subject, payer or referee of a report, or let their time run out.",
        commands,
    )
    trigger.add_argument("action", help=ACTIONS)
    trigger.add_argument("report")

    skip = command("skip", _skip, "Do now what is due next.", commands)
    skip.add_argument("kind", choices=KINDS)
    skip.add_argument("id")

    command(
        "mcp", _mcp, "Serve an AI assistant: read-only, with a test key only.", commands
    )

    reports = commands.add_parser("reports", help="Order and read reports.")
    verbs = reports.add_subparsers(required=True, metavar="COMMAND")
    create = command("create", _create, "Order one report.", verbs)
    create.add_argument("file", help="JSON of a report request; - is standard input")
    get = command("get", _get, "Print a report as JSON.", verbs)
    get.add_argument("report")
    listing = command("list", _list, "Print the newest reports.", verbs)
    listing.add_argument("--status")
    listing.add_argument("--search")
    listing.add_argument("--limit", type=int, default=20)
    wait = command("wait", _wait, "Wait until a report has ended, and print it.", verbs)
    wait.add_argument("report")
    wait.add_argument("--timeout", type=float, default=600)
    return parser


def _login(options: argparse.Namespace) -> None:
    url = options.url or input("Address of the service: ")
    ask = getpass.getpass if sys.stdin.isatty() else lambda prompt: input()
    key = ask("API key: ")
    # The client would replace an empty one by that of the environment.
    if not key.strip() or not url.strip():
        raise ValueError("an address and a key are needed")
    with Client(key, url) as client:
        me = client.me()
    _stored.write_key(key.strip(), url.strip())
    print(f"Logged in to {me.workspace.name}, {me.environment}.")


def _listen(options: argparse.Namespace) -> None:
    with _client() as client:
        names = [name for name in options.events.split(",") if name]
        _listener.listen(client, options.forward_to, names)


def _trigger(options: argparse.Namespace) -> None:
    with _client() as client:
        acts = {
            "consent": client.sandbox.act_on_consent,
            "payment": client.sandbox.act_on_payment,
            "reference": client.sandbox.act_on_reference,
        }
        part, _, action = options.action.partition(".")
        if part not in acts or not action:
            raise ValueError(f"an action is one of {ACTIONS}")
        _print(acts[part](options.report, {"action": action}).to_dict())


def _skip(options: argparse.Namespace) -> None:
    with _client() as client:
        skips: dict[str, Callable[[str], Any]] = {
            "report": client.sandbox.skip_report,
            "rule": client.sandbox.skip_rule,
            "delivery": client.sandbox.skip_delivery,
        }
        _print(skips[options.kind](options.id).to_dict())


def _mcp(options: argparse.Namespace) -> None:
    try:
        from .mcp_server import serve
    except ModuleNotFoundError as error:
        raise ValueError(
            "the extra mcp is missing: the service says at /docs/clients how to add it"
        ) from error
    serve(*_stored.read_key())


def _create(options: argparse.Namespace) -> None:
    if options.file == "-":
        item = json.load(sys.stdin)
    else:
        with open(options.file, "rb") as file:
            item = json.load(file)
    with _client() as client:
        _print(client.reports.create(item).to_dict())


def _get(options: argparse.Namespace) -> None:
    with _client() as client:
        _print(client.reports.get(options.report).to_dict())


def _list(options: argparse.Namespace) -> None:
    if options.limit < 0:
        raise ValueError("--limit must be 0 or more")
    filters = {
        name: getattr(options, name)
        for name in ("status", "search")
        if getattr(options, name)
    }
    with _client() as client:
        for report in islice(client.reports.iterate(**filters), options.limit):
            print(report.id, report.status, report.subject_name, sep="\t")


def _wait(options: argparse.Namespace) -> None:
    with _client() as client:
        report = client.reports.wait_until_completed(
            options.report, timeout=options.timeout
        )
        _print(report.to_dict())


def _client() -> Client:
    return Client(*_stored.read_key())


def _print(answer: Any) -> None:
    print(json.dumps(answer, indent=2, ensure_ascii=False))
