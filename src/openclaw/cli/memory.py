"""`openclaw memory`: search the notes, and inspect, rebuild and measure the index."""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import structs

from openclaw.agent import settings as agents
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, YES, facts, note, print_json, say, show, table, when
from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.settings import Fixed
from openclaw.core.text import strip_unprintable
from openclaw.memory import notes
from openclaw.memory.citations import PARTS, explain_search, format_citation, status_to_json
from openclaw.memory.embedders import open_embedder
from openclaw.memory.embedders.pool import Build, build_embedder, provider_keys
from openclaw.memory.evaluate import EvalMetrics, ask, compare, compute_metrics, parse_questions
from openclaw.memory.index import MemoryIndex, SearchAnswer
from openclaw.memory.indexer import remove
from openclaw.memory.service import forget_lines, open_memory, parse_citation
from openclaw.memory.settings import BUILT_IN, MemorySearchSettings, overlay
from openclaw.memory.tools import MemorySearch, excerpt_to_json
from openclaw.plugins.find import discover_plugins
from openclaw.plugins.hooks.dispatch import HookDispatcher
from openclaw.plugins.registry import PluginRegistry
from openclaw.plugins.settings import MEMORY_CORE, PluginsSettings
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol.events import EventBus
from openclaw.skills.roots import expand_path
from openclaw.workspace.seed import workspace_of


@asynccontextmanager
async def open_index(agent: str | None) -> AsyncIterator[MemoryIndex]:
    """The memory of an agent, as it is configured."""
    environment, loaded = read_home()
    config = loaded.config
    if (slot := config.plugins.slots.memory) != MEMORY_CORE:
        raise InvalidRequest(f"the built-in memory is not in use: plugins.slots.memory is {slot}, not {MEMORY_CORE}")
    found = agents.resolve_agent(config.agents, agent or agents.default_agent(config.agents))
    settings = overlay(config.agents.defaults.memory_search, found.entry.memory_search)
    if not settings.enabled:
        raise InvalidRequest(f"memory search is off for {found.id}: set agents.defaults.memorySearch.enabled to true")
    keys = {name: section.api_key for name, section in config.models.providers.items() if section.api_key}
    names = (settings.provider, settings.fallback)
    async with open_embedders(names, config.plugins, environment) as build:
        memory = open_memory(
            settings,
            agent_id=found.id,
            workspace=workspace_of(config.agents, found.id, environment),
            state=environment.home.state,
            home=environment.home_dir,
            clock=SystemClock(),
            keys=provider_keys(loaded.variables, keys),
            build=build,
            warn=note,
        )
        try:
            yield memory
        finally:
            await memory.close()


def with_memory(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Makes a command of an async function that gets the memory of an agent as its first argument."""

    @wraps(command)
    def run(agent: str | None, **options: Any) -> None:
        async def main() -> None:
            async with open_index(agent) as memory:
                await command(memory, **options)

        asyncio.run(main())

    return run


AGENT = click.option("--agent", metavar="ID", help="Whose memory; the default agent's when left out.")


@click.group("memory")
def memory_command() -> None:
    """Search the notes the assistant keeps, and see how the search is doing."""


@memory_command.command("status")
@click.option("--deep", is_flag=True, help="Also try whether meaning can be searched.")
@click.option("--index", "refresh", is_flag=True, help="Bring the index up to date first.")
@AGENT
@JSON
@with_memory
async def status(memory: MemoryIndex, deep: bool, refresh: bool, as_json: bool) -> None:
    """Where the index is, what is in it, and how notes are searched."""
    if refresh:
        await memory.sync(progress=_progress(as_json))
    found = await memory.status()
    tried = await memory.means.tried() if deep else None
    document = status_to_json(found, memory, tried)
    show(document, _status_lines(document), as_json)


@memory_command.command("index")
@click.option("--force", is_flag=True, help="Make the index anew; the old one answers until it is done.")
@click.option("--verbose", is_flag=True, help="Name what was left out or could not be read.")
@AGENT
@JSON
@with_memory
async def index(memory: MemoryIndex, force: bool, verbose: bool, as_json: bool) -> None:
    """Bring the index up to date with the notes."""
    report = await memory.sync(force=force, progress=_progress(as_json))
    now = await memory.status()
    if as_json:
        read = {"files": report.files, "changed": report.changed, "removed": report.removed}
        print_json({**read, "pieces": now.pieces, "waiting": now.waiting, "problems": list(report.problems)})
        return
    click.echo(f"{report.files} files, {report.changed} read anew, {report.removed} gone, {now.pieces} pieces.")
    if now.waiting:
        note(f"{now.waiting} pieces are found by words only: {memory.means.resting() or 'no vectors yet'}")
    elif now.reason:
        note(f"words only: {now.reason}")
    for problem in report.problems if verbose else report.problems[:3]:
        note(strip_unprintable(problem))


@memory_command.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--max-results", type=click.IntRange(1, 50), help="Most results (6).")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Least score (0.35).")
@AGENT
@JSON
@with_memory
async def search(
    memory: MemoryIndex, query: tuple[str, ...], max_results: int | None, min_score: float | None, as_json: bool
) -> None:
    """Find notes by words and by meaning."""
    answer = await _search(memory, query, max_results=max_results, min_score=min_score)
    if as_json:
        print_json(MemorySearch(memory, "on").document(answer, ""))
        return
    if not answer.results:
        click.echo("Nothing found.")
    for found in answer.results:
        click.echo(f"{found.score:.2f}  {click.style(format_citation(found.piece), bold=True)}")
        lines = [line for line in strip_unprintable(found.piece.text).split("\n") if line.strip()]
        for line in lines[:4]:
            say(f"      {line[:160]}")
    if answer.mode == "keyword":
        note(f"words only: {answer.reason}")


@memory_command.command("why")
@click.argument("query", nargs=-1, required=True)
@AGENT
@JSON
@with_memory
async def why(memory: MemoryIndex, query: tuple[str, ...], as_json: bool) -> None:
    """Why each result stands where it does."""
    answer = await _search(memory, query)
    document = explain_search(answer)
    how = f"Searched by {answer.mode}{f' ({answer.reason})' if answer.reason else ''}.\n"
    terms = [(term["term"], term["pieces"], term["worth"]) for term in document["terms"]]
    cells = [tuple(_cell(item[key]) for key in (*PARTS, "citation")) for item in document["results"]]
    tables = [table(terms, ("term", "pieces", "worth")) + "\n", table(cells, (*PARTS, "where"))]
    show(document, [how, *tables], as_json)


@memory_command.command("get")
@click.argument("path")
@click.option("--from", "start", type=click.IntRange(1), help="First line.")
@click.option("--lines", type=click.IntRange(1), help="How many lines (120).")
@AGENT
@JSON
@with_memory
async def get(memory: MemoryIndex, path: str, start: int | None, lines: int | None, as_json: bool) -> None:
    """Print some lines of a note."""
    scope = memory.plan.scope
    file = notes.resolve(path, scope)
    document = excerpt_to_json(notes.excerpt(file, scope.name(file), start, lines))
    show(document, document["text"], as_json)


@memory_command.command("forget")
@click.argument("citation")
@YES
@AGENT
@JSON
@with_memory
async def forget(memory: MemoryIndex, citation: str, yes: bool, as_json: bool) -> None:
    """Remove lines (memory/x.md#L3-L5) from a note, the index and the cache for good."""
    path, start, end = parse_citation(citation)
    if not yes:
        file = notes.resolve(path, memory.plan.scope)
        note(strip_unprintable(notes.excerpt(file, path, start, end - start + 1).text))
        click.confirm("Forget these lines?", abort=True, err=True)
    await forget_lines(memory, path, start, end, time.time())
    document = {"ok": True, "path": path, "startLine": start, "endLine": end}
    show(document, f"Forgot lines {start} to {end} of {path}.", as_json)


@memory_command.command("reset")
@YES
@AGENT
@with_memory
async def reset(memory: MemoryIndex, yes: bool) -> None:
    """Throw the index away; it is made anew from the notes, which stay."""
    if not yes:
        click.confirm(f"Remove {memory.path}? The notes stay.", abort=True, err=True)
    remove(memory.path)
    remove(memory.path.with_name(memory.path.name + ".building"))
    click.echo("Removed. The next search makes it anew.")


@memory_command.command("eval")
@click.argument("questions", required=False, type=click.Path(exists=True, dir_okay=False))
@AGENT
@JSON
def evaluate(questions: str | None, agent: str | None, as_json: bool) -> None:
    """Measure the search: with QUESTIONS of your own on your notes, or without on the sample we ship."""
    if questions is None:
        _evaluate_sample(as_json)
    else:
        _evaluate_own(agent, questions=questions, as_json=as_json)


@with_memory
async def _evaluate_own(memory: MemoryIndex, questions: str, as_json: bool) -> None:
    asked = parse_questions(Path(questions).read_bytes(), questions)
    await memory.sync(progress=_progress(as_json))
    _print_figures({"hybrid": compute_metrics(await ask(memory, asked))}, as_json)


async def _search(memory: MemoryIndex, query: tuple[str, ...], **limits: Any) -> SearchAnswer:
    answer = await memory.search(" ".join(query), **limits)
    if answer.unavailable:
        raise StateError(f"memory cannot be searched: {answer.reason}")
    return answer


def _progress(quiet: bool) -> Callable[[int, int], None] | None:
    """A callback that prints progress on one line; None when quiet."""
    if quiet or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        if total > 20 and (done % 10 == 0 or done == total):
            width = 30 * done // total
            click.echo(f"\r[{'#' * width}{'.' * (30 - width)}] {done}/{total}", nl=done == total, err=True)

    return show


def _status_lines(document: dict[str, Any]) -> Iterable[str]:
    meaning = document["model"] + (f" ({document['provider']})" if document["provider"] != "none" else "")
    pairs = [
        ("notes", document["agentWorkspace"]),
        ("index", f"{document['index']} ({document['bytes'] / 1e6:.1f} MB)"),
        ("holds", f"{document['files']} files in {document['pieces']} pieces"),
        ("meaning", f"words only: {document['reason']}" if "reason" in document else meaning),
        ("vectors", document["vectorExtension"]),
        ("as of", when(document["syncedAt"]) if document["syncedAt"] else "never: run openclaw memory index"),
        ("tried", document.get("meaning")),
    ]
    yield from facts(pairs, 10)
    if document["waiting"]:
        note(f"{document['waiting']} pieces wait for their vectors: openclaw memory index")
    if document["outdated"]:
        note("The index was made with other settings: openclaw memory index makes it anew.")
    for problem in document["problems"]:
        note(strip_unprintable(problem))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)


def _evaluate_sample(as_json: bool) -> None:
    """Measures the shipped questions on the shipped notes: by words, by meaning, by both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = folder / "workspace"

        def open_sample(way: str, settings: MemorySearchSettings) -> MemoryIndex:
            return open_memory(
                settings,
                agent_id=way,
                workspace=workspace,
                state=folder,
                home=folder,
                clock=SystemClock(),
                keys={},
                build=open_embedder,
                warn=note,
            )

        found = asyncio.run(compare(workspace, open_sample))
    _print_figures(found, as_json)


def _print_figures(found: dict[str, list[EvalMetrics]], as_json: bool) -> None:
    cells = [
        (name, row.kind, row.questions, f"{row.hit_at_1:.2f}", f"{row.hit_at_5:.2f}", f"{row.mrr:.2f}")
        for name, rows in found.items()
        for row in rows
    ]
    listed = table(cells, ("search", "questions", "count", "hit@1", "hit@5", "mrr"))
    show(msgspec.to_builtins(found), listed, as_json)


@asynccontextmanager
async def open_embedders(
    names: Iterable[str], plugins: PluginsSettings, environment: Environment
) -> AsyncIterator[Build]:
    """Opens the embedders for a command without a gateway: starts only plugins that declare one of `names`."""
    foreign = frozenset(names) - {*BUILT_IN, "auto", "none"}
    if not foreign:
        yield open_embedder
        return
    state, home = environment.home.state, environment.home_dir
    found, _ = discover_plugins([expand_path(text, home, home) for text in plugins.load.paths], state / "extensions")
    known = {each.id: each.manifest for each in found}
    wanted: set[str] = set()
    pending = [name for name, manifest in known.items() if foreign & set(manifest.contracts.embedders)]
    while pending:  # also what they depend on
        name = pending.pop()
        if name not in wanted and name in known:
            wanted.add(name)
            pending += known[name].requires_plugins
    narrowed = structs.replace(plugins, deny=(*plugins.deny, *({each.id for each in found} - wanted)))
    hooks = HookDispatcher(SystemClock())
    extensions = PluginRegistry(state, home, SystemClock(), hooks, Fixed(narrowed), EventBus())
    try:
        yield partial(build_embedder, extensions)
    finally:
        await extensions.close()
        await hooks.close()
