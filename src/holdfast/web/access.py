"""Who may call: API keys and what they allow; without keys, callers on this host. Pure but for `new_key`.

A key is `hf_<id>_<secret>`. Only its SHA-256 is stored. A slow hash would add nothing: the secret is 32 random bytes,
so there is no dictionary to try, and it would let anybody make the server compute slow hashes. A key is looked up by
its id, and compared in constant time even if the id is unknown.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from holdfast.errors import DefinitionError

Right: TypeAlias = Literal["read", "operate", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""Each right includes those before it."""
_ID = re.compile(r"[A-Za-z0-9-]{1,40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NEEDED: dict[str, Right] = {"GET": "read", "HEAD": "read", "OPTIONS": "read", "DELETE": "admin"}
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OF_PROXIES = frozenset(
    {
        *("forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-forwarded-for"),
        *("x-envoy-external-address", "true-client-ip", "fastly-client-ip", "cf-connecting-ip", "cf-connecting-ipv6"),
    }
)
"""Headers that only proxies add, beside those that begin with x-forwarded-."""
_WRITTEN = "<id>:<read|operate|admin>[+payloads]:<sha-256 of the key>"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: its name, what it allows, and its hash. `str()` writes it as a line, `parse` reads one.

    `right` is "read" (GET), "operate" (also POST) or "admin" (also DELETE). Without `payloads` its holder sees runs,
    steps and sizes, but no input, result, value, message or error text.
    """

    id: str
    digest: str
    right: Right = "read"
    payloads: bool = False

    def __post_init__(self) -> None:
        # No message shows what it refuses: it may be a key in the wrong place. What has the form of an id is no key.
        if not _ID.fullmatch(self.id):
            raise DefinitionError("the id of an API key: expected 1 to 40 letters, digits and dashes")
        if not _DIGEST.fullmatch(self.digest):
            raise DefinitionError(f"the API key {self.id!r}: expected the SHA-256 of the key in hex, never the key")
        if self.right not in RIGHTS:
            raise DefinitionError(f"the API key {self.id!r}: expected one of the rights {', '.join(RIGHTS)}")

    def __str__(self) -> str:
        return f"{self.id}:{self.right}{'+payloads' if self.payloads else ''}:{self.digest}"

    @classmethod
    def parse(cls, line: str) -> ApiKey:
        """A key from its line in a file of settings or an environment variable."""
        parts = line.strip().split(":")
        if len(parts) != 3:
            # The text is not shown: it may be a key in the wrong place.
            raise DefinitionError(f"an API key that can't be read: expected {_WRITTEN}; `holdfast keys` makes one")
        right, plus, payloads = parts[1].partition("+")
        if plus and payloads != "payloads":
            named = f"the API key {parts[0]!r}" if _ID.fullmatch(parts[0]) else "an API key"
            raise DefinitionError(f"{named}: expected {_WRITTEN}; no other word than payloads may follow the +")
        return cls(parts[0], parts[2], cast(Right, right), bool(plus))


def new_key(id: str, right: Right = "read", *, payloads: bool = False) -> tuple[str, ApiKey]:
    """Make a key. Returns its text, which is stored nowhere, to hand over, and the ApiKey to store."""
    text = f"hf_{id}_{secrets.token_urlsafe(32)}"
    return text, ApiKey(id, _digest(text), right, payloads)


@dataclass(slots=True)
class Caller:
    """Who makes a request, and what they may do."""

    request_id: str
    who: str
    """The key's id, or "local", "anybody" or "hook" where no key is needed."""
    address: str
    right: Right = "read"
    sees_payloads: bool = False
    run_id: str | None = None
    """The run that the request created, for the audit log."""


class Keys:
    """The configured keys."""

    def __init__(self, keys: Iterable[ApiKey | str]) -> None:
        found = [key if isinstance(key, ApiKey) else ApiKey.parse(str(key)) for key in keys]
        self._keys = {key.id: key for key in found}
        if len(self._keys) < len(found):
            raise DefinitionError("two API keys have the same id; each needs its own, as the audit log names it")

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, authorization: str) -> ApiKey | None:
        """The key in an Authorization header, if it is one of ours."""
        scheme, _, text = authorization.partition(" ")
        text = text.strip()
        prefix, _, rest = text.partition("_")
        id, _, _ = rest.partition("_")
        key = self._keys.get(id)
        # Always one comparison: the response time must not tell which ids exist.
        is_right = hmac.compare_digest(_digest(text), _NOBODY if key is None else key.digest)
        return key if is_right and scheme.lower() == "bearer" and prefix == "hf" else None


def allows(right: Right, method: str) -> bool:
    """Whether a right is enough for a method: GET needs "read", DELETE "admin", everything else "operate"."""
    return RIGHTS.index(right) >= RIGHTS.index(_NEEDED.get(method, "operate"))


def needed_for(method: str) -> Right:
    return _NEEDED.get(method, "operate")


def is_loopback(address: str) -> bool:
    """Whether this is an address of this very host. False for text that is no address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def foreign(headers: Mapping[str, str], address: str, origins: Iterable[str]) -> str | None:
    """Why a request without a key does not come from this host, in words; None if it does.

    A loopback address is not enough. A proxy on this host forwards for the whole world, and a web page opened on this
    host may send requests to localhost, or let its own name resolve to 127.0.0.1. A proxy that adds no header and sends
    localhost as the host can't be told from a local caller.
    """
    if not is_loopback(address):
        return "it does not come from this host"
    if any(name in _OF_PROXIES or name.startswith("x-forwarded-") for name in map(str.lower, headers)):
        return "it was forwarded by a proxy"
    host = headers.get("host", "")
    if host and _name_of(host) not in _LOCAL_NAMES:
        return "its Host header is not localhost"
    origin = headers.get("origin", "")
    if origin and not {origin, "*"} & set(origins) and _name_of(origin.partition("://")[2]) not in _LOCAL_NAMES:
        return "it was sent by a page of another origin"
    return None


def _name_of(host: str) -> str:
    """The name in `name:port`, in lower case. It may be an address in brackets."""
    return (host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]).lower()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


_NOBODY = _digest(secrets.token_urlsafe(32))
