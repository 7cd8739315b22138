"""`openclaw memory`: search the notes, and inspect, rebuild and measure the index."""

import asyncio
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.cli.client import call, call_in_parts, given, with_client
from openclaw.cli.render import JSON, YES, ProgressLine, facts, note, print_json, say, show, table, when
from openclaw.core.errors import StateError
from openclaw.core.text import strip_unprintable
from openclaw.memory.citations import PARTS
from openclaw.memory.embedders import open_embedder
from openclaw.memory.evaluate import ASKED, EvalMetrics, ask, compare, compute_metrics, parse_questions
from openclaw.memory.index import MemoryIndex
from openclaw.memory.service import open_memory, parse_citation
from openclaw.memory.settings import MemorySearchSettings
from openclaw.process.tasks import SystemClock
from openclaw.protocol.client import GatewayClient

SEARCH_SECONDS = 120.0
"""A first search reads all notes, and starts the model that knows meanings."""

AGENT = click.option("--agent", metavar="ID", help="Whose memory; the default agent's when left out.")


@click.group("memory")
def memory_command() -> None:
    """Search the notes the assistant keeps, and see how the search is doing."""


@memory_command.command("status")
@click.option("--deep", is_flag=True, help="Also try whether meaning can be searched.")
@click.option("--index", "refresh", is_flag=True, help="Bring the index up to date first.")
@AGENT
@JSON
def status(agent: str | None, deep: bool, refresh: bool, as_json: bool) -> None:
    """Where the index is, what is in it, and how notes are searched."""
    if refresh:
        _sync(agent, as_json)
    document = call("memory.status", given(agentId=agent, deep=deep), timeout=SEARCH_SECONDS)
    if not document["enabled"]:
        raise StateError(document["reason"])
    show(document, _status_lines(document), as_json)


@memory_command.command("index")
@click.option("--force", is_flag=True, help="Make the index anew; the old one answers until it is done.")
@click.option("--verbose", is_flag=True, help="Name what was left out or could not be read.")
@AGENT
@JSON
def index(agent: str | None, force: bool, verbose: bool, as_json: bool) -> None:
    """Bring the index up to date with the notes."""
    report = _sync(agent, as_json, force=force)
    if as_json:
        print_json(report)
        return
    said = "{files} files, {changed} read anew, {removed} gone, {pieces} pieces."
    click.echo(said.format_map(report))
    if report["waiting"]:
        note(f"{report['waiting']} pieces are found by words only: {report['reason'] or 'no vectors yet'}")
    elif report["reason"]:
        note(f"words only: {report['reason']}")
    for problem in report["problems"] if verbose else report["problems"][:3]:
        note(strip_unprintable(problem))


@memory_command.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--max-results", type=click.IntRange(1, 50), help="Most results (6).")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Least score (0.35).")
@AGENT
@JSON
def search(
    query: tuple[str, ...], max_results: int | None, min_score: float | None, agent: str | None, as_json: bool
) -> None:
    """Find notes by words and by meaning."""
    answer = _search("memory.search", query, agent, maxResults=max_results, minScore=min_score)
    if as_json:
        print_json(answer)
        return
    if not answer["results"]:
        click.echo("Nothing found.")
    for found in answer["results"]:
        click.echo(f"{found['score']:.2f}  {click.style(found['citation'], bold=True)}")
        text = found["snippet"].removesuffix(f"Source: {found['citation']}")
        for line in [line for line in strip_unprintable(text).split("\n") if line.strip()][:4]:
            say(f"      {line[:160]}")
    if answer["mode"] == "keyword":
        note(f"words only: {answer['reason']}")


@memory_command.command("why")
@click.argument("query", nargs=-1, required=True)
@AGENT
@JSON
def why(query: tuple[str, ...], agent: str | None, as_json: bool) -> None:
    """Why each result stands where it does."""
    document = _search("memory.explain", query, agent)
    reason = f" ({document['reason']})" if document["reason"] else ""
    how = f"Searched by {document['mode']}{reason}.\n"
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
def get(path: str, start: int | None, lines: int | None, agent: str | None, as_json: bool) -> None:
    """Print some lines of a note."""
    document = _lines(agent, path, start, lines)
    show(document, document["text"], as_json)


@memory_command.command("forget")
@click.argument("citation")
@YES
@AGENT
@JSON
def forget(citation: str, yes: bool, agent: str | None, as_json: bool) -> None:
    """Remove lines (memory/x.md#L3-L5) from a note, the index and the cache for good."""
    path, start, end = parse_citation(citation)
    if not yes:
        note(strip_unprintable(_lines(agent, path, start, end - start + 1)["text"]))
        click.confirm("Forget these lines?", abort=True, err=True)
    params = given(agentId=agent, path=path, startLine=start, endLine=end)
    document = call("memory.forget", params, timeout=SEARCH_SECONDS)
    show(document, f"Forgot lines {start} to {end} of {path}.", as_json)


@memory_command.command("reset")
@YES
@AGENT
def reset(yes: bool, agent: str | None) -> None:
    """Throw the index away; it is made anew from the notes, which stay."""
    if not yes:
        click.confirm("Remove the index? The notes stay.", abort=True, err=True)
    removed = call("memory.reset", given(agentId=agent), timeout=SEARCH_SECONDS)
    say(f"Removed {removed['index']}. The next search makes it anew.")


@memory_command.command("eval")
@click.argument("questions", required=False, type=click.Path(exists=True, dir_okay=False))
@AGENT
@JSON
def evaluate(questions: str | None, agent: str | None, as_json: bool) -> None:
    """Measure the search: with QUESTIONS of your own on your notes, or without on the sample we ship."""
    if questions is None:
        _evaluate_sample(as_json)
    else:
        _evaluate_own(agent, questions, as_json)


def _evaluate_own(agent: str | None, questions: str, as_json: bool) -> None:
    asked = parse_questions(Path(questions).read_bytes(), questions)
    _sync(agent, as_json)

    async def measure(client: GatewayClient) -> list[EvalMetrics]:
        async def search(question: str) -> list[tuple[str, int, int]]:
            params = given(agentId=agent, query=question, maxResults=ASKED)
            found = await client.call("memory.search", params, timeout=SEARCH_SECONDS)
            return [(each["path"], each["startLine"], each["endLine"]) for each in found["results"]]

        return compute_metrics(await ask(search, asked))

    _print_figures({"hybrid": with_client(measure)}, as_json)


def _search(method: str, query: tuple[str, ...], agent: str | None, **limits: Any) -> dict[str, Any]:
    params = given(agentId=agent, query=" ".join(query), **limits)
    answer: dict[str, Any] = call(method, params, timeout=SEARCH_SECONDS)
    if answer.get("unavailable"):
        raise StateError(f"memory cannot be searched: {answer['reason']}")
    return answer


def _lines(agent: str | None, path: str, start: int | None, lines: int | None) -> dict[str, Any]:
    found: dict[str, Any] = call("memory.notes.lines", given(agentId=agent, path=path, **{"from": start}, lines=lines))
    return found


def _sync(agent: str | None, quiet: bool, *, force: bool = False) -> dict[str, Any]:
    """Brings the index up to date, and shows on a terminal how far it is; gives the report."""
    progress, parts = ProgressLine(quiet=quiet), list[dict[str, Any]]()

    def take(part: dict[str, Any]) -> None:
        if part["last"]:
            parts.append({name: value for name, value in part.items() if name != "last"})
        else:
            progress(STAGES[part["stage"]], part["done"], part["total"])

    call_in_parts("memory.index", given(agentId=agent, force=force), take)
    progress.clear()
    return parts[0]


STAGES = {"notes": "reading notes", "vectors": "computing what they mean"}
"""What is done, by the name of the stage."""


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
