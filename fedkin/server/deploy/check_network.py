"""Whether the server's port is free, or whether the SuperLink answers there as it should."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path

from fedkin.server.deploy.check_result import CheckResult, doubtful, wrong
from fedkin.server.deploy.project import Address

_PATIENCE = 3.0  # seconds


def port(address: Address, ca: Path) -> CheckResult:
    """Whether the SuperLink can have its port on this machine, or has it."""
    what = f"port {address.port}"
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that has just been left is free
        try:
            attempt.bind((address.listens, address.port))
            return CheckResult(what, "free")
        except OSError as error:
            reason = error.strerror
    answered = reach(address, ca)
    if answered.mark == "✓":
        return CheckResult(what, "a SuperLink runs there")
    return wrong(what, f"cannot be had ({reason}), and no SuperLink of this federation has it; another needs --port")


def reach(address: Address, ca: Path) -> CheckResult:
    """Whether a SuperLink answers, with a certificate of our authority if it has one."""
    what = f"server {address}"
    try:
        trusted = ssl.create_default_context(cafile=str(ca)) if address.secure else None
    except OSError:
        return wrong(what, f"cannot be asked without the authority, {ca}")
    try:
        status = _asked(address, trusted)
    except ssl.SSLCertVerificationError as error:
        return wrong(what, f"its certificate is not that of {ca} for {address.host}: {error.verify_message}")
    except (ssl.SSLError, http.client.HTTPException, ConnectionResetError) as error:
        how = "with TLS" if address.secure else "without TLS"
        return wrong(what, f"something answers there, but no SuperLink {how} ({type(error).__name__}): see SUPERLINK")
    except socket.gaierror:
        return wrong(what, f"there is no machine {address.host} as far as this one knows: see SUPERLINK, or the DNS")
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        return doubtful(what, f"not reachable ({reason}): is the SuperLink up, and does the firewall let this out?")
    if status != 200:
        return wrong(what, f"answers {status} to /health, as no SuperLink does: see SUPERLINK")
    return CheckResult(what, "a SuperLink answers" + (", with the right certificate" if address.secure else ""))


def _asked(address: Address, trusted: ssl.SSLContext | None) -> int:
    """The status with which it says how it is."""
    line = http.client.HTTPConnection(address.host, address.port, timeout=_PATIENCE)
    if trusted is not None:
        line = http.client.HTTPSConnection(address.host, address.port, timeout=_PATIENCE, context=trusted)
    try:
        line.request("GET", "/health")
        return line.getresponse().status
    finally:
        line.close()
