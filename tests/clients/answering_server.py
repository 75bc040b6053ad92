"""An HTTP server on a socket that gives the answers of a test, one after another."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    # Close the connection after so many bytes of the body.
    cut_at: int | None = None
    # Answer only when the server is closed.
    silent: bool = False


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


class AnsweringServer:
    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.received: list[Received] = []
        self._over = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                owner._answer(self)

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any

            def log_message(self, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.002])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        sent = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        given = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.command, request.path, given, sent)
        self.received.append(received)
        # The last answer is given to all further requests.
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer.silent:
            self._over.wait()
            return
        content = (
            answer.body.encode()
            if isinstance(answer.body, str)
            else json.dumps(answer.body).encode()
        )
        request.send_response_only(answer.status)
        headers = {"Date": request.date_time_string()} | answer.headers
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: answer.cut_at])
