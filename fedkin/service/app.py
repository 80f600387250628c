"""The HTTP service: addresses, limits and errors. It needs the extra ``serve``."""

from __future__ import annotations

import gc
import json
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedkin.core.errors import ConfigError, FedkinError, MissingExtra
from fedkin.service import open_inference
from fedkin.service.json_body import MOST_BYTES, BodyTooLargeError, parsed
from fedkin.service.models import LoadedModels, UnknownClientError, described
from fedkin.service.predictions import predicted

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_log = logging.getLogger("fedkin")
_AT_ONCE = 64_000  # bytes of a body; a larger one is computed in a thread
_WAITING = 2048  # connections that may wait to be accepted
_CONNECTIONS = 1_000  # more connections at the same time are refused with status 503
_IDLE = 30  # seconds after which an idle connection is closed
Answer = Callable[[bytes], dict[str, Any]]


def application(served: LoadedModels, most_bytes: int = MOST_BYTES) -> Starlette:
    """The ASGI application that serves models.

    Args:
        served: the models.
        most_bytes: largest body of a request.

    Raises MissingExtra without the extra ``serve``.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise _missing(error) from error
    service = _Service(served, most_bytes)
    model = "/v2/models/{name}"
    versioned = f"{model}/versions/{open_inference.VERSION}"
    routes = [
        Route("/predict", service.predict, methods=["POST"]),
        Route("/v2", service.about),
        Route("/v2/health/live", service.healthy),
        Route("/v2/health/ready", service.healthy),
    ]
    for path in (model, versioned):
        routes += [
            Route(f"{path}/infer", service.infer, methods=["POST"]),
            Route(f"{path}/ready", service.model_ready),
            Route(path, service.model),
        ]
    return Starlette(routes=routes, exception_handlers={Exception: _failed})


class _Service:
    """The handlers of the addresses."""

    def __init__(self, served: LoadedModels, most_bytes: int) -> None:
        self._served = served
        self._most_bytes = most_bytes

    async def predict(self, request: Request) -> Response:
        """Predict rows for a client."""
        return await self._answered(request, lambda body: predicted(self._served, parsed(body)))

    async def infer(self, request: Request) -> Response:
        """Predict a tensor with a model."""
        name = request.path_params["name"]
        return await self._answered(
            request, lambda body: open_inference.inferred(self._served, name, parsed(body))
        )

    async def about(self, request: Request) -> Response:
        """Which models the service has."""
        about = {**open_inference.server_metadata(), "fedkin": described(self._served.export)}
        return _json(about)

    async def healthy(self, request: Request) -> Response:
        """The service runs, and its models are loaded."""
        return _json({"live": True, "ready": True})

    async def model(self, request: Request) -> Response:
        """Inputs and outputs of a model."""
        name = request.path_params["name"]
        try:
            return _json(open_inference.model_metadata(self._served, name))
        except ConfigError as error:
            return _error(404, error)

    async def model_ready(self, request: Request) -> Response:
        """Whether a model is loaded."""
        name = request.path_params["name"]
        known = name in self._served.models
        return _json({"name": name, "ready": known}, 200 if known else 404)

    async def _answered(self, request: Request, answer: Answer) -> Response:
        """The answer to a body, or the error that it caused."""
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import ClientDisconnect

        try:
            body = await self._body(request)
            if len(body) <= _AT_ONCE:
                return _json(answer(body))
            return _json(await run_in_threadpool(answer, body))
        except ClientDisconnect as error:
            return _error(400, error)
        except BodyTooLargeError as error:
            return _error(413, error)
        except UnknownClientError as error:
            return _error(404, error)
        except FedkinError as error:
            return _error(400, error)

    async def _body(self, request: Request) -> bytes:
        """The body of a request. Raises BodyTooLargeError before more than the limit is read."""
        parts = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._most_bytes:
                raise BodyTooLargeError(
                    f"the body has more than {self._most_bytes} bytes; send fewer rows at a time, "
                    "or start fedkin serve with a larger --max-body"
                )
            parts.append(part)
        return b"".join(parts)


def _json(content: dict[str, Any], status: int = 200) -> Response:
    """A response with a JSON object."""
    from starlette.responses import Response

    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Response(text.encode(), status, media_type="application/json")


def _error(status: int, error: Exception) -> Response:
    """A response with the reason why a request is refused."""
    return _json({"error": " ".join(str(error).split())[:1000]}, status)


async def _failed(request: Request, error: Exception) -> Response:
    """The response to a request that met an error of the program. The service goes on."""
    _log.error("a request to %s failed: %s", request.url.path, error, exc_info=error)
    return _json({"error": "the request met an error of the program; see its log"}, 500)


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address. Raises ConfigError if it cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    one = socket.socket(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind((host, port))
        # Connections wait in the socket until the service runs.
        one.listen(_WAITING)
    except (OSError, OverflowError) as error:
        one.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{host_in_url(host)}:{port}: {reason}; choose another address with --host and --port"
        ) from error
    return one


def host_in_url(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host


def serve(config: uvicorn.Config, bound: socket.socket) -> None:
    """Serve an application until the process is interrupted.

    Args:
        config: the application with its settings, as ``settings_of`` returns it.
        bound: the socket on which the service listens.
    """
    import uvicorn

    # The collector of garbage would look through all imported libraries again and again, which
    # takes 0.1 s each time.
    gc.collect()
    gc.freeze()
    uvicorn.Server(config).run(sockets=[bound])


def settings_of(app: Starlette) -> uvicorn.Config:
    """The settings of the server that runs an application. Raises MissingExtra."""
    try:
        import uvicorn
    except ImportError as error:
        raise _missing(error) from error
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",  # a malformed request is no event; errors are logged here
        access_log=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE,
        server_header=False,
        lifespan="off",
        ws="none",
    )


def _missing(error: ImportError) -> MissingExtra:
    """The error of a missing library."""
    return MissingExtra(
        f"fedkin serve needs starlette and uvicorn, which are not installed ({error}); run pip "
        "install 'fedkin[serve]'"
    )
