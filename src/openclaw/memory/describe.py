"""How an index is and why results stand where they do, as documents for people and programs."""

from typing import Any

from openclaw.memory.citations import citation
from openclaw.memory.index import IndexStatus, MemoryIndex, SearchAnswer
from openclaw.memory.rank import RankedHit

PARTS = ("score", "relevance", "vector", "cosine", "text", "age", "sure")


def why_document(answer: SearchAnswer) -> dict[str, Any]:
    """Every term with what it is worth, every result with the parts of its score."""
    return {
        "mode": answer.mode,
        "reason": answer.reason,
        "terms": [
            {"term": item.term.text, "pieces": item.docs, "worth": round(item.worth, 2), "exact": item.term.exact}
            for item in answer.terms
        ],
        "results": [_parts(found) | {"citation": citation(found.piece)} for found in answer.results],
    }


def status_document(found: IndexStatus, memory: MemoryIndex, tried: str | None) -> dict[str, Any]:
    """`tried` says why meaning cannot be searched, nothing when it can, None when nobody tried."""
    document: dict[str, Any] = {
        "agentWorkspace": str(memory.plan.scope.workspace),
        "index": str(found.path),
        "provider": found.provider,
        "model": found.model,
        "sources": list(memory.plan.sources),
        "files": found.files,
        "pieces": found.pieces,
        "waiting": found.waiting,
        "bytes": found.bytes,
        "syncedAt": found.synced_at,
        "outdated": found.outdated,
        "vectorExtension": found.vectors or "loaded",
        "problems": list(found.problems),
    }
    if found.reason:
        document["reason"] = found.reason
    if tried is not None:
        document["meaning"] = tried or "works"
    return document


def _parts(found: RankedHit) -> dict[str, Any]:
    return {
        "score": found.score,
        "relevance": found.relevance,
        "vector": found.vector,
        "cosine": found.cosine,
        "text": found.text,
        "age": found.decay,
        "sure": found.sure,
        "matched": list(found.matched),
    }
