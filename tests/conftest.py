import asyncio
import gc
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.world.clients import another_api as another_api
from tests.world.clients import api as api
from tests.world.clients import live_api as live_api
from tests.world.clients import live_source as live_source
from tests.world.clients import workspace as workspace
from tests.world.database import database_server as database_server
from tests.world.database import django_db_setup as django_db_setup
from tests.world.database import make_template
from tests.world.database import module_transaction as module_transaction
from tests.world.service import OWN_PROGRAMS, RESTARTING, SERVED
from tests.world.service import service as service
from tests.world.setting_caches import follow_settings
from tests.world.staff import admin_client as admin_client
from tests.world.staff import rows as rows
from tests.world.staff import staff as staff
from tests.world.staff import superuser as superuser
from verification.batches.spreadsheet import WORKBOOKS, WORKBOOKS_OF_NEWCOMERS
from verification.files.inspection import DOCUMENTS, NEWCOMERS
from verification.providers import registry
from verification.values import clock

# The groups of tests that take longest
LONGEST = {"browser", "pages", "restarts", "service"}
# The line that marks all tests of a file as slow
ALL_SLOW = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.slow\b", re.MULTILINE)
# All tests of these folders are slow. Reading them alone takes seconds.
SLOW_FOLDERS = ("tests/browser/", "tests/pages/", "tests/service/")
# A busy machine may take long for one example.
settings.register_profile("patient", settings.default, deadline=None)
settings.load_profile("patient")
follow_settings()
# Modules and tests that are collected stay: until then there is no garbage to look for.
gc.disable()


def _call_with_room(run: Callable[[], Any]) -> Any:
    return run()


# Python before 3.13.13 and 3.14.4 maps memory for frames by 16 KB, and unmaps it when
# the first of these returns. A loop deep in Django may do both at each call, a tenth of
# the tests' time (python/cpython#142183). Beside a large frame there is room for all.
_call_with_room.__code__ = _call_with_room.__code__.replace(co_stacksize=1 << 17)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Any:
    """Run the session with room for all of its frames."""
    this = sys.modules[__name__]
    others = config.pluginmanager.subset_hook_caller("pytest_cmdline_main", [this])
    return _call_with_room(lambda: others(config=config))


class FewServices(LoadScopeScheduling):
    """Starts the service in three workers at most."""

    # A group named by a mark is not kept together: pytest-dev/pytest-xdist#1386.
    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid) or nodeid


def _group(nodeid: str) -> str:
    """Return the name of the tests that one worker runs, or "" for a test alone."""
    if nodeid.startswith("tests/browser/"):
        return "browser"
    # What a page has shown is not tried again on the next.
    if nodeid.startswith("tests/pages/"):
        return "pages"
    file = nodeid.partition("::")[0]
    if file in OWN_PROGRAMS:
        return file
    if file in RESTARTING:
        return "restarts"
    return "service" if file.startswith(SERVED) else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FewServices | None:
    if config.getvalue("dist") != "loadscope":
        return None
    # The order of `pytest_collection_modifyitems` stays.
    config.option.loadscopereorder = False
    return FewServices(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which no test is chosen: reading them takes many seconds."""
    chosen = config.option.markexpr
    if chosen not in {"slow", "not slow"}:
        return None
    path = str(collection_path.relative_to(config.rootpath))
    if chosen == "not slow" and f"{path}/".startswith(SLOW_FOLDERS):
        return True
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    if chosen == "not slow":
        return True if ALL_SLOW.search(text) else None
    return None if path.startswith(SERVED) or "mark.slow" in text else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import another part of the tests in each worker before it reads all of them.

    The first import of a file in a checkout compiles it. The workers read all files in
    the same order, so each of them would compile each file.
    """
    config = session.config
    if worker := getattr(config, "workerinput", None):
        number, workers = int(worker["workerid"][2:]), worker["workercount"]
        files = [p for a in config.args for p in Path(a).rglob("test_*.py")]
        for path in sorted(config.rootpath / file for file in files)[number::workers]:
            if not pytest_ignore_collect(path, config):
                name = path.relative_to(config.rootpath).with_suffix("")
                import_module(".".join(name.parts))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Count a test of the running service as slow, and begin with the longest tests.

    The service starts within 15 s. A test that may take minutes has a time of its own.
    Tests of one file stay together: they share the programs that they start.
    """
    for item in items:
        # A test elsewhere has another fixture of this name, or is refused by ours.
        is_served = item.nodeid.startswith(SERVED)
        is_slow = is_served and "service" in getattr(item, "fixturenames", ())
        if is_slow or item.nodeid.startswith(SLOW_FOLDERS):
            item.add_marker("slow")
    # Others choose and shuffle.
    yield
    longest: Counter[Path] = Counter()
    for item in items:
        longest[item.path] = max(longest[item.path], _seconds_allowed(item))

    def turn(item: pytest.Item) -> tuple[bool, bool, int]:
        group = _group(item.nodeid)
        # A group that begins late runs on while other workers have nothing to do.
        return group not in LONGEST, not group, -longest[item.path]

    items.sort(key=turn)


def _seconds_allowed(item: pytest.Item) -> int:
    marker = item.get_closest_marker("timeout")
    return int(marker.args[0]) if marker else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    """Drop what a passed test wrote: a worker would send all of its log lines."""
    report = yield
    if report.passed:
        report.sections.clear()
        report.keywords.clear()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and report its set-up and its end only if they go wrong.

    Each report that a worker sends costs half a millisecond, of 10,000 tests.

    Hides the event loop that the browser of an earlier test has left running. No test
    can run a loop of its own beside that one. Django has another connection within a
    loop, so the fixtures of a test and its body see none, or both see one.
    """
    of_browser = asyncio._get_running_loop()
    if "browser" not in getattr(item, "fixturenames", ()):
        asyncio._set_running_loop(None)
    try:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    finally:
        asyncio._set_running_loop(asyncio._get_running_loop() or of_browser)
    for report in reports:
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def browser(browser: Any) -> Iterator[Any]:
    """Give the browser its event loop back before it is closed."""
    loop = asyncio._get_running_loop()
    yield browser
    asyncio._set_running_loop(loop)


def pytest_collection_finish() -> None:
    """Leave modules and tests out of the garbage, and look for it less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make the template while the workers of a whole run read the tests."""
    config = session.config
    is_whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    if is_whole and config.option.dist != "no" and not config.option.collectonly:
        threading.Thread(target=make_template).start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    if not session.config.option.collectonly and any(
        "db" in getattr(item, "fixturenames", ())
        or item.get_closest_marker("django_db")
        for item in session.items
    ):
        make_template()


@pytest.fixture
def content_types(db: None) -> None:
    """Looks up every content type, which a process does only once."""
    ContentType.objects.get_for_models(*apps.get_models())


@pytest.fixture
def django_assert_num_queries(
    content_types: None, django_assert_num_queries: Any
) -> Any:
    return django_assert_num_queries


@pytest.fixture
def django_assert_max_num_queries(
    content_types: None, django_assert_max_num_queries: Any
) -> Any:
    return django_assert_max_num_queries


@pytest.fixture(autouse=True, scope="session")
def own_inspections(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the files of these tests wait for none of other processes."""
    folder = tmp_path_factory.mktemp("inspections")
    for inspector in (DOCUMENTS, NEWCOMERS, WORKBOOKS, WORKBOOKS_OF_NEWCOMERS):
        inspector.lock_file = folder / inspector.lock_file.name
        inspector.lock_file.touch()


@pytest.fixture(autouse=True)
def own_sources() -> Iterator[None]:
    """Fail where a test leaves sources to the tests after it."""
    yield
    left = registry.live_sources()
    registry.configure({}, {})
    assert not left, f"leaves the sources {left}"


@pytest.fixture
def new_minute(time_machine: Any) -> None:
    """Move the clock to the start of a minute, as limits count in minutes of the clock.

    On a busy machine a test could otherwise end in another minute than it began.
    """
    next_minute = clock.now() + timedelta(minutes=1)
    time_machine.move_to(next_minute.replace(second=0, microsecond=0))
