"""What a body must not call: dotted paths, each with its code and fix. Tables, and one function that reads them."""

from __future__ import annotations

from dataclasses import dataclass

from .findings import CODES

_NOW = "use holdfast.now()"
_RNG = "use holdfast.rng()"
_UUID = "use holdfast.uuid4()"


@dataclass(frozen=True, slots=True)
class Hazard:
    """Why a call is a hazard, and what to do instead."""

    code: str
    fix: str | None = None

    @property
    def told(self) -> str:
        why, _, general = CODES[self.code].partition("; ")
        return f"{why}; {self.fix or general}"


def _all(code: str, prefix: str, names: str, fix: str | None = None) -> dict[str, Hazard]:
    return {f"{prefix}.{name}": Hazard(code, fix) for name in names.split()}


_EXACT: dict[str, Hazard] = {
    **_all("clock", "time", "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time", _NOW),
    **_all("clock", "time", "process_time_ns thread_time thread_time_ns clock_gettime clock_gettime_ns", _NOW),
    **_all("clock", "datetime.datetime", "now utcnow today", _NOW),
    **_all("clock", "datetime.date", "today", "use holdfast.now().date()"),
    **_all("clock", "pandas.Timestamp", "now utcnow today", _NOW),
    **_all("clock", "arrow", "now utcnow", _NOW),
    **_all("clock", "pendulum", "now today yesterday tomorrow", _NOW),
    **_all("clock", "django.utils.timezone", "now localtime localdate", _NOW),
    **_all("clock", "email.utils", "localtime", _NOW),
    **_all("sleep", "time", "sleep"),
    **_all("random", "uuid", "uuid1 uuid4 uuid6 uuid7 uuid8", _UUID),
    **_all("random", "email.utils", "make_msgid", _UUID),
    **_all("random", "os", "urandom getrandom", "use holdfast.rng().randbytes()"),
    **_all("io", "builtins", "open input breakpoint"),
    **_all("io", "io", "open open_code"),
    **_all("io", "os", "open read write close listdir scandir walk stat lstat remove unlink rename replace mkdir"),
    **_all("io", "os", "makedirs rmdir removedirs access chmod chown link symlink readlink truncate utime fsync"),
    **_all("io", "os.path", "exists lexists isfile isdir islink ismount getsize getmtime getctime getatime samefile"),
    **_all("io", "os.path", "realpath"),
    **_all("io", "codecs", "open"),
    **_all("io", "gzip", "open GzipFile"),
    **_all("io", "bz2", "open BZ2File"),
    **_all("io", "lzma", "open LZMAFile"),
    **_all("io", "zipfile", "ZipFile"),
    **_all("io", "tarfile", "open TarFile"),
    **_all("io", "dbm", "open"),
    **_all("io", "mmap", "mmap"),
    **_all("io", "pandas", "read_csv read_json read_parquet read_excel read_sql read_sql_query read_table"),
    **_all("io", "numpy", "load save loadtxt savetxt"),
    **_all("network", "sqlalchemy", "create_engine"),
    **_all("network", "sqlalchemy.orm", "Session sessionmaker"),
    **_all("network", "sqlalchemy.ext.asyncio", "create_async_engine AsyncSession"),
    **_all(
        "process", "os", "system popen fork forkpty kill killpg abort _exit startfile posix_spawn posix_spawnp wait"
    ),
    **_all("process", "os", "execl execle execlp execlpe execv execve execvp execvpe waitpid"),
    **_all("process", "os", "spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"),
    **_all("process", "signal", "signal alarm setitimer raise_signal pause"),
    **_all("process", "asyncio", "create_subprocess_exec create_subprocess_shell"),
    **_all("thread", "asyncio", "to_thread run_coroutine_threadsafe"),
    **_all("thread", "queue", "Queue LifoQueue PriorityQueue SimpleQueue", "use asyncio.Queue"),
    **_all(
        "environment", "os", "getenv getenvb putenv unsetenv getcwd getcwdb getpid getppid getlogin uname cpu_count"
    ),
    **_all("environment", "os", "getuid getgid chdir getloadavg process_cpu_count"),
    **_all("environment", "os.path", "expanduser expandvars abspath"),
    **_all("environment", "socket", "gethostname getfqdn"),
    **_all("environment", "getpass", "getuser getpass"),
    **_all("environment", "pathlib.Path", "cwd home"),
    **_all("environment", "locale", "getlocale getdefaultlocale setlocale getpreferredencoding"),
    **_all("environment", "sys", "getrecursionlimit getrefcount"),
    **_all("identity", "builtins", "id hash"),
    # It hashes by its address, so sets of them, as asyncio.wait returns, are iterated in another order on replay.
    **_all("identity", "asyncio", "Future", "use asyncio.get_running_loop().create_future()"),
    **_all("asyncio", "asyncio", "run Runner new_event_loop set_event_loop open_connection start_server"),
    **_all("asyncio", "asyncio", "open_unix_connection start_unix_server"),
    **_all("client", "holdfast", "Client AsyncClient"),
    **_all("client", "holdfast", "Worker", "serve workflows with `holdfast worker`, outside of bodies"),
    **_all("client", "holdfast", "run", "call the workflow: it becomes a child run"),
}

_PREFIXES: dict[str, Hazard] = {
    "random.": Hazard("random", _RNG),
    "secrets.": Hazard("random", _RNG),
    "numpy.random.": Hazard("random", f"{_RNG}, or seed a generator with holdfast.rng()"),
    "shortuuid.": Hazard("random", _UUID),
    "ulid.": Hazard("random", _UUID),
    "faker.": Hazard("random", _RNG),
    "sys.stdin.": Hazard("io"),
    **{
        f"{name}.": Hazard("io")
        for name in ("shutil", "tempfile", "glob", "fileinput", "aiofiles", "anyio.Path", "shelve", "sqlite3")
    },
    "aiosqlite.": Hazard("io"),
    **{
        f"{name}.": Hazard("network")
        for name in (
            *("socket", "ssl", "requests", "httpx", "urllib.request", "urllib3", "aiohttp", "http.client", "smtplib"),
            *("ftplib", "imaplib", "poplib", "telnetlib", "nntplib", "xmlrpc.client", "websockets", "websocket"),
            "grpc",
            *("boto3", "botocore", "aioboto3", "redis", "pymongo", "motor", "psycopg", "psycopg2", "asyncpg"),
            *("pymysql", "aiomysql", "mysql", "kafka", "aiokafka", "pika", "aio_pika", "nats", "paramiko", "stripe"),
            *("twilio", "openai", "anthropic", "elasticsearch", "opensearchpy", "select", "selectors", "aiosmtplib"),
            *("google.cloud", "azure", "niquests", "httplib2", "pycurl", "sendgrid", "slack_sdk"),
        )
    },
    "subprocess.": Hazard("process"),
    "multiprocessing.": Hazard("process"),
    "pty.": Hazard("process"),
    "plumbum.": Hazard("process"),
    **{
        f"{name}.": Hazard("thread")
        for name in (
            *("threading", "_thread", "concurrent.futures", "anyio.to_thread", "anyio.from_thread", "asgiref.sync"),
            *("starlette.concurrency", "fastapi.concurrency", "joblib"),
        )
    },
    "platform.": Hazard("environment"),
    "anyio.": Hazard("asyncio", "use asyncio's own primitives, or move it into a step"),
    "trio.": Hazard("asyncio", "use asyncio's own primitives, or move it into a step"),
    "curio.": Hazard("asyncio", "use asyncio's own primitives, or move it into a step"),
    "gevent.": Hazard("asyncio", "use asyncio's own primitives, or move it into a step"),
    "eventlet.": Hazard("asyncio", "use asyncio's own primitives, or move it into a step"),
    "holdfast.Client().": Hazard("client"),
    "holdfast.AsyncClient().": Hazard("client"),
}

_PURE = frozenset(
    {
        *("httpx.URL", "httpx.Timeout", "httpx.Headers", "httpx.QueryParams", "httpx.Limits", "httpx.BasicAuth"),
        *("httpx.Request", "requests.Request", "socket.inet_aton", "socket.inet_ntoa", "socket.inet_pton"),
        *("socket.inet_ntop", "socket.htons", "socket.htonl", "socket.ntohs", "socket.ntohl", "threading.get_ident"),
        *("threading.local", "shutil.get_terminal_size", "subprocess.list2cmdline", "threading.current_thread"),
        *("google.cloud.firestore.SERVER_TIMESTAMP", "glob.escape", "aiohttp.ClientTimeout", "random.Random"),
        *("platform.python_version", "platform.python_version_tuple", "ssl.match_hostname"),
    }
)
"""Names in these modules that do no real work. random.Random has a rule of its own."""

_FILE_DEEDS = frozenset(
    {
        *("open", "read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir", "stat"),
        *(
            "touch",
            "lstat",
            "unlink",
            "mkdir",
            "rmdir",
            "rename",
            "replace",
            "iterdir",
            "glob",
            "rglob",
            "walk",
            "resolve",
        ),
        *("chmod", "samefile", "symlink_to", "hardlink_to", "readlink", "is_symlink", "is_mount", "owner", "group"),
        *("copy", "copy_into", "move", "move_into", "expanduser", "absolute"),
    }
)
_LOOPS = ("asyncio.get_running_loop().", "asyncio.get_event_loop().")
_LOOP_DEEDS = {
    **dict.fromkeys(("run_in_executor", "set_default_executor", "call_soon_threadsafe"), "thread"),
    **dict.fromkeys(("subprocess_exec", "subprocess_shell"), "process"),
    **dict.fromkeys(("add_reader", "add_writer", "remove_reader", "remove_writer", "create_connection"), "asyncio"),
    **dict.fromkeys(("create_server", "create_unix_connection", "create_unix_server", "getaddrinfo"), "asyncio"),
    **dict.fromkeys(("create_datagram_endpoint", "connect_read_pipe", "connect_write_pipe", "getnameinfo"), "asyncio"),
    **dict.fromkeys(("add_signal_handler", "run_forever", "run_until_complete", "stop", "close"), "asyncio"),
    **dict.fromkeys(("sock_recv", "sock_sendall", "sock_connect", "sock_accept", "start_tls", "sendfile"), "asyncio"),
}
_WITHOUT_TIME = {
    "time.localtime": 0,
    "time.gmtime": 0,
    "time.ctime": 0,
    "time.asctime": 0,
    "time.strftime": 1,
    "email.utils.formatdate": 0,
}
"""Functions that read the clock if they get no time: that is, at most this many arguments."""
_WITHOUT_ZONE = {
    "datetime.datetime().astimezone": 0,
    "holdfast.now().astimezone": 0,
    "datetime.datetime.fromtimestamp": 1,
    "datetime.date.fromtimestamp": 1,
}
"""Functions that use the machine's own zone if they get none: that is, at most this many arguments."""

READ = {"os.environ": Hazard("environment"), "os.environb": Hazard("environment"), "sys.argv": Hazard("environment")}
"""Hazards even when they are only read."""


def hazard_of(path: str, arguments: int) -> Hazard | None:
    """Why calling `path` with this many arguments is a hazard in a body, if it is one."""
    name = path.rpartition(".")[2]
    if path in _EXACT:
        return _EXACT[path]
    if path in _WITHOUT_TIME:
        return Hazard("clock", _NOW) if arguments <= _WITHOUT_TIME[path] else None
    if path in _WITHOUT_ZONE:
        return Hazard("environment", "name a zone, as datetime.UTC") if arguments <= _WITHOUT_ZONE[path] else None
    if path in ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState"):
        return Hazard("random", "give it a seed, or use holdfast.rng()") if not arguments else None
    if path in _PURE or name.endswith(("Error", "Exception", "Warning")):
        return None
    if path.startswith(("pathlib.Path().", "pathlib.PosixPath().")):
        return Hazard("io") if name in _FILE_DEEDS else None
    for loop in _LOOPS:
        if path.startswith(loop) and name in _LOOP_DEEDS:
            return Hazard(_LOOP_DEEDS[name])
    found = [prefix for prefix in _PREFIXES if path.startswith(prefix)]
    return _PREFIXES[max(found, key=len)] if found else None
