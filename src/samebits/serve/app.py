"""The server as an ASGI application: pages, what they ask for, and OpenAI's API. Read-only: it writes no file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from samebits import files
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.serve import openai
from samebits.serve.batcher import Batcher
from samebits.serve.details import details
from samebits.serve.events import Watchers
from samebits.serve.guard import Guard, TooLargeError, error_body
from samebits.serve.models import Loaded, Models
from samebits.serve.runs import Library, escaped, kind_of_picture, pictures
from samebits.training.contract import Family
from samebits.training.parts import find as find_function

PAGES = {"/": "runs.html", "/run": "run.html"}
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MOST_WAITING = 1000  # requests for texts at once
MOST_COMPARED = 12  # runs in one picture
MOST_PICTURE = 1 << 26  # bytes of a file
AUTOMATA = 64  # records of automata kept
STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nobody on the way may collect it

Name = Annotated[str, Query(max_length=1000)]
Step = Annotated[str, Query(max_length=40, pattern=r"^(last|best|\d+)$")]


class Served:
    """What the routes share."""

    def __init__(self, library: Library, workers: int | str) -> None:
        self.library, self.models, self.watchers = library, Models(library), Watchers(library)
        self.workers = workers
        self.batcher: Batcher | None = None  # made when there is an event loop
        self.automata: dict[Any, dict[str, Any]] = {}
        self.searching = asyncio.Lock()  # one circuit is searched at a time: it takes a core
        self.writing = 0

    def start(self) -> None:
        self.batcher = Batcher(asyncio.get_running_loop(), self.workers)
        self.batcher.start()

    def end(self) -> None:
        """Whatever would go on for ever comes to an end. For any thread."""
        if self.batcher is not None:
            self.batcher.end()
            self.batcher.loop.call_soon_threadsafe(self.watchers.end)

    async def model(self, name: str, which: str, has: Callable[[Family], str], what: str) -> Loaded:
        loaded = await asyncio.to_thread(self.models.load, name, which)
        if not has(loaded.family):
            raise HTTPException(404, f"the run {name!r} is a {loaded.family.name} run, which {what}; choose another")
        return loaded

    async def answer(self, address: str, loaded: Loaded, *given: str) -> Any:
        """What the family of a model answers at one of its addresses (Page.answers)."""
        named = loaded.family.page.answers[address]
        return await asyncio.to_thread(lambda: find_function(named)(loaded.model, *given))

    async def automaton(self, name: str, which: str) -> dict[str, Any]:
        loaded = await self.model(name, which, answers("automaton"), "has no automaton to play with")
        async with self.searching:
            if loaded.key not in self.automata:
                if len(self.automata) >= AUTOMATA:
                    self.automata.pop(next(iter(self.automata)))
                task = self.library.summary(name).task
                self.automata[loaded.key] = await self.answer("automaton", loaded, task)
            return self.automata[loaded.key]


def answers(address: str) -> Callable[[Family], str]:
    return lambda family: family.page.answers.get(address, "")


def writes_text(family: Family) -> str:
    return family.page.texts


def make_app(library: Library, key: str | None = None, workers: int | str = "auto") -> Guard:
    """The whole of it; `workers` is how many write texts."""
    served = Served(library, workers)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        served.start()
        await asyncio.to_thread(library.scan)
        yield
        assert served.batcher is not None
        await asyncio.to_thread(served.batcher.close)

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=life)
    add_errors(app)
    add_pages(app)
    add_runs(app, served)
    add_openai(app, served)
    return Guard(app, key, served)


def add_errors(app: FastAPI) -> None:
    """Every error in OpenAI's shape, in words, and none with a traceback."""

    def told(status: int, text: str, param: str | None = None, code: str | None = None) -> JSONResponse:
        return JSONResponse(error_body(text, status, param, code), status)

    @app.exception_handler(HTTPException)
    async def of_route(request: Request, error: HTTPException) -> JSONResponse:
        words = {404: "there is nothing here", 405: "this address does not take that method"}
        return told(error.status_code, words.get(error.status_code, "") if error.detail in NO_DETAIL else error.detail)

    @app.exception_handler(openai.RefusedError)
    async def of_request(request: Request, error: openai.RefusedError) -> JSONResponse:
        return told(error.status, str(error), error.param, error.code)

    @app.exception_handler(RequestValidationError)
    async def of_query(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return told(400, f"{first['loc'][-1]}: {first['msg']}", str(first["loc"][-1]))

    @app.exception_handler(SamebitsError)
    async def of_samebits(request: Request, error: SamebitsError) -> JSONResponse:
        return told(400, str(error))

    @app.exception_handler(LookupError)
    async def of_lookup(request: Request, error: LookupError) -> JSONResponse:
        if type(error) is not LookupError:  # a KeyError or IndexError is a mistake of ours
            raise error
        return told(404, str(error.args[0]) if error.args else "there is nothing here")

    @app.exception_handler(Exception)
    async def of_mistake(request: Request, error: Exception) -> JSONResponse:
        return told(500, f"this request could not be answered ({type(error).__name__}); please report this as a bug")

    @app.exception_handler(FileNotFoundError)
    async def of_deleted(request: Request, error: FileNotFoundError) -> JSONResponse:
        return told(404, "a file of this run has been deleted; look at the page of runs")

    @app.exception_handler(TooLargeError)
    async def of_body(request: Request, error: TooLargeError) -> JSONResponse:
        return told(413, "the body is too long; shorten it")


NO_DETAIL = ("Not Found", "Method Not Allowed")


def web_file(name: str) -> tuple[bytes, str]:
    """A file of the pages, by its name alone."""
    folder = resources.files("samebits") / "web"
    known = {entry.name for entry in folder.iterdir()}
    suffix = f".{name.rpartition('.')[2]}"
    if name not in known or suffix not in KINDS:
        raise HTTPException(404, "Not Found")
    return (folder / name).read_bytes(), f"{KINDS[suffix]}; charset=utf-8"


def add_pages(app: FastAPI) -> None:
    def page(file: str) -> Callable[[], Response]:
        def shown() -> Response:
            content, kind = web_file(file)
            return Response(content, media_type=kind)

        return shown

    for path, file in PAGES.items():
        app.get(path)(page(file))

    @app.get("/web/{name}")
    def own_file(name: str) -> Response:
        content, kind = web_file(name)
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})


def add_runs(app: FastAPI, served: Served) -> None:
    library = served.library

    @app.get("/api/runs")
    def runs() -> dict[str, Any]:
        folders = [escaped(folder) for folder in library.shown]
        return {"runs": [summary.as_json() for summary in library.scan()], "folders": folders}

    @app.get("/api/run")
    def run(id: Name) -> dict[str, Any]:
        return details(library.refresh(id), library.find(id))

    @app.get("/api/events")
    async def events(run: Annotated[list[Name], Query(max_length=MOST_COMPARED)] = []) -> StreamingResponse:  # noqa: B006
        for name in run:
            await asyncio.to_thread(library.find, name)
        listener = served.watchers.add()
        if listener is None:
            raise HTTPException(503, "too many pages listen already; close some")
        told = served.watchers.events(list(dict.fromkeys(run)), listener)
        return EventResponse(told, lambda: served.watchers.listeners.discard(listener))

    @app.get("/api/picture")
    def picture(run: Name, name: Name) -> Response:
        path = library.find(run)
        file = pictures(path).get(name)
        if file is None:
            raise HTTPException(404, "the run has no such picture")
        content = files.read(path / file, MOST_PICTURE, path)
        return Response(content, media_type=kind_of_picture(file), headers={"cache-control": "no-cache"})

    @app.get("/api/automaton")
    async def automaton(run: Name, checkpoint: Step = "last") -> dict[str, Any]:
        return await served.automaton(run, checkpoint)

    @app.get("/api/rewrite")
    async def rewrite(run: Name, expression: str, checkpoint: Step = "last") -> dict[str, Any]:
        loaded = await served.model(run, checkpoint, answers("rewrite"), "rewrites no expressions")
        found: dict[str, Any] = await served.answer("rewrite", loaded, expression)
        return found


class EventResponse(StreamingResponse):  # type: ignore[misc]  # FastAPI has no types here
    """Server-sent events; `closed` is called at the end, also where the client went before the first of them."""

    def __init__(self, events: AsyncIterator[str], closed: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=STREAM)
        self.closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.closed()


def add_openai(app: FastAPI, served: Served) -> None:
    def card(name: str, changed: float) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": int(changed), "owned_by": "samebits"}

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        usable = [
            run for run in served.library.scan() if run.hash and not run.problem and writes_text(discover()[run.family])
        ]
        return {"object": "list", "data": [card(run.id, run.changed) for run in usable]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        await find(name)
        run, _ = await asyncio.to_thread(served.models.split, name)
        return card(name, (await asyncio.to_thread(served.library.summary, run)).changed)

    async def find(name: str) -> Loaded:
        run, which = await asyncio.to_thread(served.models.split, name)
        try:
            return await served.model(run, which, writes_text, "writes no text")
        except (LookupError, SamebitsError, HTTPException) as error:
            told = str(getattr(error, "detail", "") or (error.args[0] if error.args else ""))
            raise openai.RefusedError(
                f"the model {name[:80]!r} does not exist here: {told}", 404, "model", "model_not_found"
            ) from None

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise openai.RefusedError("the content type must be application/json; set it", 415)
        asked = openai.parse(await request.body())
        loaded = await find(asked.model)
        if served.writing >= MOST_WAITING:
            raise openai.RefusedError("too many texts are being written; try again later", 429)
        job = await asyncio.to_thread(openai.prepare, asked, loaded)
        assert served.batcher is not None
        if asked.stream:
            return StreamingResponse(
                counted(openai.streamed(job, served.batcher)), media_type="text/event-stream", headers=STREAM
            )
        return await unless_gone(request, openai.whole(job, served.batcher))

    async def counted(pieces: AsyncIterator[str]) -> AsyncIterator[str]:
        served.writing += 1
        try:
            async for piece in pieces:
                yield piece
        finally:
            served.writing -= 1
            await pieces.aclose()  # type: ignore[attr-defined]  # now, not when it is collected

    async def unless_gone(request: Request, answer: Any) -> Response:
        """The answer, unless the client goes away meanwhile: then its places are free at once."""
        served.writing += 1
        working = asyncio.create_task(answer)
        gone = asyncio.create_task(left(request))
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            return JSONResponse(await working) if working.done() else Response(status_code=499)
        finally:
            served.writing -= 1
            for task in (working, gone):
                task.cancel()


async def left(request: Request) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
