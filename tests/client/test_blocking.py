"""The blocking client: the same, one line a method, over a thread that nobody has to think of."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.client import AsyncClient, AsyncRun, AsyncRuns, Client, Run, Runs
from holdfast.client.portal import Portal
from holdfast.define import current_scope, workflow
from holdfast.errors import BadArguments, ClientClosed, IOInBody, MisplacedCall, RunFailed
from holdfast.model import RunFilter, RunStatus
from holdfast.testing import Environment
from tests.client.hands import Hands, total

ROOT = Path(__file__).parents[2]
PAIRS = [(AsyncClient, Client), (AsyncRun, Run), (AsyncRuns, Runs)]
NAMES = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}


@pytest.fixture
def blocking(database_url):
    with Client(database_url) as client:
        yield client


def hand(client: Client, deed: str, run_id: str, *arguments) -> None:
    """Let a worker of another client do something."""

    async def work() -> None:
        async with AsyncClient(client.url) as other:
            await getattr(Hands(other), deed)(run_id, *arguments)

    asyncio.run(work())


def public(cls: type) -> dict[str, object]:
    """What a class offers: methods, properties and slots."""
    return {
        name: value
        for part in reversed(cls.__mro__[:-1])
        for name, value in vars(part).items()
        if name in {*NAMES, *NAMES.values()} or not name.startswith("_")
    }


def test_both_clients_and_their_handles_have_the_same_methods():
    for slow, blocking in PAIRS:
        assert {NAMES.get(name, name) for name in public(slow)} == set(public(blocking)), slow


def test_both_clients_and_their_handles_have_the_same_signatures():
    for slow, blocking in PAIRS:
        for name, method in public(slow).items():
            twin = vars(blocking)[NAMES.get(name, name)]
            if inspect.isfunction(method):
                mine, other = inspect.signature(method), inspect.signature(twin)
                assert list(mine.parameters.values()) == list(other.parameters.values()), (slow, name)
            else:
                assert type(method) is type(twin) or isinstance(twin, property), (slow, name)
    assert inspect.signature(AsyncClient).parameters == inspect.signature(Client).parameters


def test_a_run_is_started_watched_and_found_without_a_loop(blocking):
    run = blocking.start(total.options(key="k"), 1)
    assert (run.created, run.key, run.status, run.workflow) == (True, "k", RunStatus.PENDING, "total")
    hand(blocking, "complete", run.id, 42)
    assert run.result(timeout="60s") == 42
    assert run.wait() is RunStatus.COMPLETED
    assert blocking.get_run(total, key="k").refresh().record.id == run.id
    assert [entry.kind for entry in blocking.journal(run.id)][-1] == "ended"
    assert blocking.explain(run.id).reason == "ended"
    assert not blocking.cancel(run.id)
    # The store that it had registered in is closed, which on one host is its end.
    assert blocking.workers() == []
    assert blocking.workflows()[0].counts == {"completed": 1}


def test_errors_reach_the_blocking_caller_unchanged(blocking):
    with pytest.raises(BadArguments):
        blocking.start(total, "one")
    run = blocking.start(total, 1)
    with pytest.raises(TimeoutError, match="it goes on"):
        run.result(timeout="10ms")
    hand(blocking, "fail", run.id, ValueError("no"))
    with pytest.raises(RunFailed) as failed:
        run.result()
    assert isinstance(failed.value.__cause__, ValueError)
    assert blocking.retry(run.id).created


def test_runs_are_listed_by_iteration_and_by_page(blocking):
    runs = blocking.start_many(total, [(n,) for n in range(150)])
    assert [run.id for run in blocking.runs()] == [run.id for run in reversed(runs)]
    page = blocking.runs(RunFilter(workflow="total")).page(limit=2)
    assert [run.id for run in page.items] == [runs[-1].id, runs[-2].id]
    assert blocking.runs().page(cursor=page.next, limit=1).items[0].id == runs[-3].id


def test_many_threads_share_one_client(blocking):
    ids: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: ids.append(blocking.start(total, n, key=f"k{n % 5}").id)) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ids), len(set(ids))) == (20, 5)


def test_threads_that_use_a_new_client_at_the_same_time_share_one_loop(monkeypatch):
    portal, pid = Portal(), os.getpid()
    both, is_done = threading.Barrier(2), threading.Event()
    asked: list[str] = []

    def getpid() -> int:
        """Both ask before either goes on; if the later one asks again, the earlier one has its answer by then."""
        name = threading.current_thread().name
        asked.append(name)
        if name in ("earlier", "later") and asked.count(name) == 1:
            both.wait()
        elif name == "later":
            is_done.wait()
        return pid

    async def thread() -> int:
        return threading.get_ident()

    found: list[int] = []

    def call() -> None:
        found.append(portal.call(thread()))
        is_done.set()

    monkeypatch.setattr(os, "getpid", getpid)
    threads = [threading.Thread(target=call, name=name) for name in ("earlier", "later")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    async def nothing() -> None: ...

    portal.close(nothing)
    assert len(found) == 2
    assert len(set(found)) == 1


def test_a_blocking_client_works_inside_a_running_loop(blocking):
    async def main() -> str:
        return blocking.start(total, 1).id

    assert asyncio.run(main())


def test_a_blocking_client_is_refused_on_its_own_loop():
    portal = Portal()

    async def nested() -> None:
        portal.call(asyncio.sleep(0))

    async def nothing() -> None: ...

    with pytest.raises(MisplacedCall, match="wait for itself"):
        portal.call(nested())
    portal.close(nothing)


def test_a_blocking_client_is_refused_in_a_body(blocking):
    token = current_scope.set(object())
    try:
        with pytest.raises(IOInBody):
            blocking.start(total, 1)
    finally:
        current_scope.reset(token)
    assert list(blocking.runs()) == []


def test_a_client_made_in_a_body_is_refused_with_advice_before_it_opens_anything():
    @workflow
    def body(what: str) -> None:
        client = Client("sqlite:///:memory:")
        try:
            if what == "signal":
                client.signal("somebody", "go")
            elif what == "start":
                client.start(total, 1)
            else:
                client.__enter__()
        except IOInBody as error:
            raise ValueError(str(error)) from None

    with Environment(body) as env:
        for what, instead in (("signal", "use holdfast.signal"), ("start", "a child of this run"), ("enter", "a step")):
            with pytest.raises(RunFailed, match=instead):
                env.client.start(body, what).result()


def test_a_closed_client_says_so_and_closing_again_changes_nothing(database_url):
    for client in (Client(database_url), Client(database_url)):
        client.close()
        client.close()
        with pytest.raises(ClientClosed):
            client.start(total, 1)
    with Client(database_url) as client:
        run = client.start(total, 1)
    with pytest.raises(ClientClosed):
        run.result()


def test_a_call_under_way_when_the_client_is_closed_is_told_so(database_url):
    client = Client(database_url)
    run = client.start(total, 1)
    errors: list[BaseException] = []

    def wait(work) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    never = lambda: client._portal.call(asyncio.sleep(3600))  # noqa: E731  # as short as what it is
    threads = [threading.Thread(target=wait, args=(work,)) for work in (run.result, never)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    client.close()
    for thread in threads:
        thread.join(60)
    assert [type(error) for error in errors] == [ClientClosed, ClientClosed]


def test_making_a_blocking_client_starts_no_thread(database_url):
    before = set(threading.enumerate())
    client = Client(database_url)
    assert client.url == database_url
    assert client.store is client.store
    assert set(threading.enumerate()) <= before


def test_a_garbage_collected_client_ends_its_thread(database_url):
    client = Client(database_url)
    client.start(total, 1)
    thread = client._portal._here().thread
    del client
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_a_handle_keeps_its_client_alive(database_url):
    run = Client(database_url).start(total, 1)
    gc.collect()
    assert run.refresh().status is RunStatus.PENDING
    run._client.close()


@pytest.mark.parametrize(
    ("follow", "seen"),
    [(lambda run: run.stream("words"), []), (lambda run: run.changes(), [RunStatus.CANCELLED])],
    ids=["a stream", "changes"],
)
def test_an_iterator_that_follows_a_run_keeps_its_client_alive(database_url, follow, seen):
    run = Client(database_url).start(total, 1)
    run.cancel()
    following = follow(run)
    del run
    gc.collect()
    assert list(following) == seen


def script(text: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", text, url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"src{os.pathsep}."},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_script_that_never_closes_its_client_still_ends_quietly(database_url):
    text = "import sys\nfrom holdfast.client import Client\nfrom tests.client.hands import total\n"
    ran = script(text + "run = Client(sys.argv[1]).start(total, 1)\nprint(run.status)\n", database_url)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("pending\n", "", 0)


INTERRUPTED = """
import os, signal, sys, threading
from holdfast.client import Client
from tests.client.hands import total
# What is begun in the background by a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
client = Client(sys.argv[1])
run = client.start(total, 1)
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    run.result(timeout="1h")
except KeyboardInterrupt:
    print("interrupted", run.refresh().status)
"""


def test_ctrl_c_interrupts_a_blocking_result_and_leaves_the_run_alone(database_url):
    ran = script(INTERRUPTED, database_url)
    assert (ran.stdout, ran.stderr) == ("interrupted pending\n", "")


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")  # newer versions of Python warn of a fork beside threads, which is what this is about
from holdfast.client import Client
from tests.client.hands import total
client = Client(sys.argv[1])
client.start(total, 1)
child = os.fork()
if child == 0:
    client.start(total, 2)
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.start(total, 3)
print(len(list(client.runs())))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_goes_on_with_a_store_of_its_own(database_url):
    ran = script(FORK, database_url)
    assert (ran.stdout, ran.returncode) == ("3\n", 0), ran.stderr


DAEMON = """
import os, sys, warnings
warnings.simplefilter("ignore")  # newer versions of Python warn of a fork beside threads, which is what this is about
from holdfast.client import Client
from tests.client.hands import total
os.chdir(sys.argv[1])
client = Client("sqlite:///here.db")
client.start(total, 1)
child = os.fork()
if child == 0:
    os.chdir("elsewhere")
    client.start(total, 2)
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(len(list(client.runs())))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_that_goes_to_another_folder_goes_on_with_the_same_file(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    ran = script(DAEMON, str(tmp_path))
    assert (ran.stdout, ran.returncode) == ("2\n", 0), ran.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


FORKED_WORKER = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")  # newer versions of Python warn of a fork beside threads, which is what this is about
from holdfast import Worker
from holdfast.client import Client
from tests.client.hands import total
client = Client(sys.argv[1])
run = client.start(total, 1)

async def work():
    await Worker(client, workflows=[total]).drive(run.id, budget="30s")

child = os.fork()
if child == 0:
    asyncio.run(work())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(run.refresh().status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_worker_of_a_forked_process_takes_a_store_of_its_own_from_the_client(database_url):
    ran = script(FORKED_WORKER, database_url)
    assert (ran.stdout, ran.returncode) == ("completed\n", 0), ran.stderr
