"""Bodies with one hazard on each marked line. Nothing here is ever executed."""

import asyncio
import collections
import datetime
import functools
import glob
import importlib
import io
import itertools
import locale
import email.utils
import multiprocessing
import os
import os.path
import pathlib
import platform
import queue
import random
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from datetime import datetime as dt
from pathlib import Path
from time import monotonic as tick
from time import perf_counter

import anyio.to_thread
import httpx
import numpy as np
import requests
from asgiref.sync import sync_to_async
from starlette.concurrency import run_in_threadpool

import holdfast
from holdfast import AsyncClient, Client, Worker, step, workflow

CACHE: dict[str, int] = {}
SEEN = []
NUMBERS = itertools.count()
CARDS = iter(["4242"])
DICE = random.Random()
SESSION = requests.Session()
CLIENT = Client("sqlite:///x.db")
COUNT = 0


@step
async def charge(card: str) -> str:
    return card


@step
def render(card: str) -> str:
    return card


@step
async def tags_of(card: str) -> set[str]:
    return {card}


@holdfast.resource
async def pool():
    yield 1


@workflow
async def child(card: str) -> str:
    return await charge(card)


@workflow
async def clocks() -> None:
    time.time()  # hazard: clock
    time.time_ns()  # hazard: clock
    tick()  # hazard: clock
    started = perf_counter()  # hazard: clock
    dt.now()  # hazard: clock
    dt.now(datetime.UTC)  # hazard: clock
    datetime.datetime.utcnow()  # hazard: clock
    date.today()  # hazard: clock
    time.strftime("%Y")  # hazard: clock
    time.localtime()  # hazard: clock
    clock = time.monotonic
    clock()  # hazard: clock
    getattr(time, "time")()  # hazard: clock
    getattr(time, "monotonic", None)()  # hazard: clock
    getattr(getattr(datetime, "datetime"), "now")()  # hazard: clock
    importlib.import_module("time").time()  # hazard: clock
    __import__("time").time()  # hazard: clock
    module = importlib.import_module("time")
    module.time()  # hazard: clock
    if time.time() - started > 5:  # hazard: clock
        return
    time.sleep(1)  # hazard: sleep


@workflow
async def dice() -> None:
    random.random()  # hazard: random
    random.choice([1, 2])  # hazard: random
    secrets.token_hex()  # hazard: random
    uuid.uuid4()  # hazard: random
    uuid.uuid1()  # hazard: random
    os.urandom(8)  # hazard: random
    np.random.rand()  # hazard: random
    DICE.random()  # hazard: random
    own = random.Random()  # hazard: random
    own.random()
    items = [1, 2, 3]
    random.shuffle(items)  # hazard: random


@workflow
async def files(folder: Path) -> None:
    open("x")  # hazard: io
    with io.open("x") as lines:  # hazard: io
        lines.read()
    Path("x").read_text()  # hazard: io
    (Path("x") / "y").write_text("z")  # hazard: io
    folder.exists()  # hazard: io
    pathlib.Path("x").open()  # hazard: io
    os.listdir(".")  # hazard: io
    os.path.exists("x")  # hazard: io
    __import__("os.path").listdir(".")  # hazard: io
    importlib.import_module("os.path").exists("x")  # hazard: io
    glob.glob("*")  # hazard: io
    shutil.copy("x", "y")  # hazard: io
    tempfile.mkdtemp()  # hazard: io
    sqlite3.connect("x.db")  # hazard: io
    input("?")  # hazard: io
    sys.stdin.read()  # hazard: io


@workflow
async def network() -> None:
    socket.create_connection(("x", 1))  # hazard: network
    requests.get("http://x")  # hazard: network
    SESSION.get("http://x")  # hazard: network
    urllib.request.urlopen("http://x")  # hazard: network
    async with httpx.AsyncClient() as client:  # hazard: network
        await client.get("http://x")
    list(map(requests.get, ["http://x"]))  # hazard: network


@workflow
async def processes() -> None:
    subprocess.run(["ls"])  # hazard: process
    os.system("ls")  # hazard: process
    signal.signal(2, print)  # hazard: process
    multiprocessing.Process()  # hazard: process
    await asyncio.create_subprocess_exec("ls")  # hazard: process


@workflow
async def threads() -> None:
    thread = threading.Thread(target=print)  # hazard: thread
    thread.start()
    threading.Lock()  # hazard: thread
    queue.Queue()  # hazard: thread
    await asyncio.to_thread(print)  # hazard: thread
    with ThreadPoolExecutor() as threads:  # hazard: thread
        threads.submit(print)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, print)  # hazard: thread
    await anyio.to_thread.run_sync(print)  # hazard: thread
    await sync_to_async(print)()  # hazard: thread
    await run_in_threadpool(print)  # hazard: thread


@workflow
async def machines() -> None:
    os.environ["HOME"]  # hazard: environment
    os.environ.get("HOME")  # hazard: environment
    os.getenv("HOME")  # hazard: environment
    os.getpid()  # hazard: environment
    os.getcwd()  # hazard: environment
    platform.node()  # hazard: environment
    socket.gethostname()  # hazard: environment
    sys.argv[1]  # hazard: environment
    Path.home()  # hazard: environment
    locale.getlocale()  # hazard: environment


@workflow
async def order(names: set[str], card: str, some: set[str] | None = None) -> list[str]:
    for name in {"a", "b"}:  # hazard: unordered
        await charge(name)
    for name in names:  # hazard: unordered
        await charge(name)
    others = set(["a", card])
    both = [name for name in others | names]  # hazard: unordered
    both += list(others)  # hazard: unordered
    both += [*names]  # hazard: unordered
    first, second = {card, "b"}  # hazard: unordered
    both.append(others.pop())  # hazard: unordered
    ",".join(names)  # hazard: unordered
    for number, name in enumerate(frozenset(both)):  # hazard: unordered
        print(number, name)
    for tag in await tags_of(card):  # hazard: unordered
        await charge(tag)
    await asyncio.gather(*(charge(name) for name in names))  # hazard: unordered
    await holdfast.map(charge, names)  # hazard: unordered
    found = {}
    for name in names.union(both):  # hazard: unordered
        found[name] = 1
    for name in found.keys() - {"a"}:  # hazard: unordered
        print(name)
    both += names  # hazard: unordered
    collections.Counter(names).most_common(1)  # hazard: unordered
    collections.OrderedDict.fromkeys(names)  # hazard: unordered
    for name in some or ():  # hazard: unordered
        await charge(name)
    await charge(f"all of {names}")  # hazard: unordered
    await charge(str(names))  # hazard: unordered
    hash(card)  # hazard: identity
    id(both)  # hazard: identity
    asyncio.Future()  # hazard: identity
    return both


@workflow
async def loops() -> None:
    asyncio.run(charge("x"))  # hazard: asyncio
    asyncio.new_event_loop()  # hazard: asyncio
    await asyncio.open_connection("x", 1)  # hazard: asyncio
    asyncio.get_running_loop().add_reader(1, print)  # hazard: asyncio
    for one in asyncio.as_completed([charge("x"), charge("y")]):  # hazard: asyncio
        await one


@workflow
async def forgotten(card: str) -> str:
    charge(card)  # hazard: await
    holdfast.sleep("1d")  # hazard: await
    held = charge(card)  # hazard: await
    if holdfast.wait_for_signal("x"):  # hazard: await
        print(f"{charge(card)}")  # hazard: await
    render(charge(card))  # hazard: await
    child(card)  # hazard: await
    charge.options(name="again")(card)  # hazard: await
    charge.start(card)  # hazard: await
    asyncio.sleep(5)  # hazard: await
    hook = holdfast.hook(name="x")
    hook.wait()  # hazard: await
    helping(card)  # hazard: await
    await charge(card), charge(card)  # hazard: await
    charge(card) if card else None  # hazard: await
    _ = charge(card)  # hazard: await
    return charge(card)  # hazard: await


async def helping(card: str) -> None:
    await charge(card)


@workflow
async def outside(card: str) -> None:
    global COUNT  # hazard: global
    COUNT += 1
    CACHE[card] = 1  # hazard: global
    SEEN.append(card)  # hazard: global
    next(NUMBERS)  # hazard: global
    next(CARDS, None)  # hazard: global
    own = itertools.count()
    next(own)
    CLIENT.start("x")  # hazard: client
    AsyncClient("sqlite:///x.db")  # hazard: client
    Worker("sqlite:///x.db")  # hazard: client
    holdfast.run(child, card)  # hazard: client
    pool()  # hazard: resource


@workflow
async def arguments(card: str) -> None:
    await holdfast.call("stamp", render, time.time())  # hazard: clock
    await holdfast.call("where", render, os.environ)  # hazard: environment
    await holdfast.call("stamp", functools.partial(render, time.time()))  # hazard: clock
    await holdfast.call("stamp", functools.partial(time.ctime, time.time()))  # hazard: clock
    functools.partial(time.time)()  # hazard: clock
    clock = functools.partial(time.time)
    clock()  # hazard: clock
    list(map(functools.partial(open, mode="w"), [card]))  # hazard: io
    await holdfast.map(charge, os.listdir("."))  # hazard: io
    holdfast.compensate(render, str(uuid.uuid4()))  # hazard: random


@workflow
def blocking_body(card: str) -> str:
    time.sleep(1)  # hazard: sleep
    return render(str(random.random()))  # hazard: random


@workflow
async def inner_definitions() -> None:
    class Stamped:
        at = time.time()  # hazard: clock

    def stamped(at: float = time.time()) -> float:  # hazard: clock
        return at

    email.utils.localtime()  # hazard: clock
    email.utils.formatdate()  # hazard: clock
    email.utils.make_msgid()  # hazard: random
