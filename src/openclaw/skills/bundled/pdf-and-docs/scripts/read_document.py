"""The text of a document as Markdown: .docx .pptx .odt .odp .ods .epub .html .pdf."""

import argparse
import html.parser
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

MAX_MEMBER = 32 << 20
MAX_MEMBERS = 2_000
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
ODF = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
ODF_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"


class Unreadable(Exception):
    """The document cannot be read; the text says why."""


def member(archive: zipfile.ZipFile, name: str) -> bytes:
    """One file of an archive, as long as it is of a reasonable size."""
    try:
        with archive.open(name) as stream:
            data = stream.read(MAX_MEMBER + 1)
    except KeyError:
        raise Unreadable(f"there is no {name} in it: it is not the kind of document its name says") from None
    if len(data) > MAX_MEMBER:
        raise Unreadable(f"{name} in it is larger than {MAX_MEMBER >> 20} MB")
    return data


def xml(data: bytes) -> ElementTree.Element:
    # Entities are how a small document becomes a huge one; no honest office file defines any.
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unreadable("it defines entities, which office documents do not")
    return ElementTree.fromstring(data)  # noqa: S314


def table(rows: list[list[str]]) -> Iterator[str]:
    width = max(map(len, rows), default=0)
    for number, row in enumerate(rows):
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in row] + [""] * (width - len(row))
        yield "| " + " | ".join(cells) + " |"
        if number == 0:
            yield "|" + "---|" * width
    yield ""


def word_text(node: ElementTree.Element) -> str:
    parts = {f"{WORD}tab": "\t", f"{WORD}br": "\n"}
    return "".join(item.text or "" if item.tag == f"{WORD}t" else parts.get(item.tag, "") for item in node.iter())


def docx(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        body = xml(member(archive, "word/document.xml")).find(f"{WORD}body")
    for node in body if body is not None else ():
        if node.tag == f"{WORD}tbl":
            rows = [[word_text(cell).strip() for cell in row.iter(f"{WORD}tc")] for row in node.iter(f"{WORD}tr")]
            yield from table(rows)
        elif node.tag == f"{WORD}p":
            text = word_text(node).strip()
            style = node.find(f"{WORD}pPr/{WORD}pStyle")
            name = style.get(f"{WORD}val", "") if style is not None else ""
            heading = re.match(r"[Hh]eading(\d)", name)
            listed = node.find(f"{WORD}pPr/{WORD}numPr") is not None
            prefix = "#" * int(heading[1]) + " " if heading else "# " if name == "Title" else "- " if listed else ""
            yield f"{prefix}{text}" if text else ""


def pptx(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)]
        if not names:
            raise Unreadable("there are no slides in it")
        for name in sorted(names, key=lambda name: int(re.sub(r"\D", "", name)))[:MAX_MEMBERS]:
            yield f"## Slide {re.sub(r'[^0-9]', '', name)}"
            for paragraph in xml(member(archive, name)).iter(f"{DRAWING}p"):
                text = "".join(item.text or "" for item in paragraph.iter(f"{DRAWING}t")).strip()
                if text:
                    yield f"- {text}"
            yield ""


def odf(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        root = xml(member(archive, "content.xml"))
    inside: set[ElementTree.Element] = set()
    for node in root.iter():
        if node in inside:
            continue
        if node.tag == f"{ODF_TABLE}table":
            inside.update(node.iter())
            rows = [
                ["".join(cell.itertext()).strip() for cell in row.iter(f"{ODF_TABLE}table-cell")]
                for row in node.iter(f"{ODF_TABLE}table-row")
            ]
            yield from table(rows)
        elif node.tag == f"{ODF}h":
            yield "#" * int(node.get(f"{ODF}outline-level", "1")) + " " + "".join(node.itertext()).strip()
        elif node.tag == f"{ODF}p":
            yield "".join(node.itertext()).strip()


class _Page(html.parser.HTMLParser):
    """The readable part of a page."""

    SILENT = frozenset({"script", "style", "head", "noscript", "template"})
    BREAKS = frozenset("p div br li tr h1 h2 h3 h4 h5 h6 section article table ul ol blockquote pre".split())

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in self.SILENT
        if tag in self.BREAKS:
            self.parts.append("\n")
        if re.fullmatch(r"h[1-6]", tag):
            self.parts.append("#" * int(tag[1]) + " ")
        elif tag == "li":
            self.parts.append("- ")
        elif tag in ("td", "th"):
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        self._silent = max(0, self._silent - (tag in self.SILENT))
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(re.sub(r"\s+", " ", data))


def page(data: bytes) -> Iterator[str]:
    reader = _Page()
    reader.feed(data.decode("utf-8", "replace"))
    for line in "".join(reader.parts).split("\n"):
        yield line.strip()


def epub(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        container = xml(member(archive, "META-INF/container.xml"))
        package = next((item.get("full-path", "") for item in container.iter() if item.tag.endswith("rootfile")), "")
        root = xml(member(archive, package))
        files = {item.get("id"): item.get("href", "") for item in root.iter() if item.tag.endswith("}item")}
        base = package.rpartition("/")[0]
        for item in [item for item in root.iter() if item.tag.endswith("}itemref")][:MAX_MEMBERS]:
            name = files.get(item.get("idref"), "")
            yield from page(member(archive, f"{base}/{name}" if base else name))


def pdf(path: Path, first: int, last: int) -> Iterator[str]:
    program = shutil.which("pdftotext")
    if program:
        pages = ["-f", str(first), *(["-l", str(last)] if last else [])]
        command = [program, "-layout", "-enc", "UTF-8", *pages, "--", str(path), "-"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            raise Unreadable(f"pdftotext says: {done.stderr.decode('utf-8', 'replace').strip()[:300]}")
        texts = done.stdout.decode("utf-8", "replace").removesuffix("\f").split("\f")
    else:
        texts = pypdf_pages(path, first, last)
    if not any(text.strip() for text in texts):
        raise Unreadable("it has no text: it is probably a scan")
    for number, text in enumerate(texts, first):
        yield f"## Page {number}"
        yield from (line.rstrip() for line in text.splitlines())


def pypdf_pages(path: Path, first: int, last: int) -> list[str]:
    try:
        import pypdf  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Unreadable("reading PDF needs pdftotext (package poppler-utils) or the Python package pypdf") from None
    try:
        pages = pypdf.PdfReader(str(path)).pages
        return [item.extract_text() or "" for item in pages[first - 1 : last or None]]
    except (pypdf.errors.PyPdfError, ValueError, KeyError) as error:
        raise Unreadable(f"the PDF is damaged or locked: {error}") from error


def read(path: Path, first: int, last: int) -> Iterator[str]:
    readers = {".docx": docx, ".pptx": pptx, ".odt": odf, ".odp": odf, ".ods": odf, ".epub": epub}
    kind = path.suffix.lower()
    if kind == ".pdf":
        return pdf(path, first, last)
    if kind in readers:
        return readers[kind](path)
    if kind in (".html", ".htm", ".xhtml"):
        return page(path.read_bytes()[:MAX_MEMBER])
    raise Unreadable(f"{kind or 'a file without an ending'} is not a kind of document this reads")


def main() -> int:
    parser = argparse.ArgumentParser(description="The text of a document as Markdown.")
    parser.add_argument("document", type=Path)
    parser.add_argument("--max-chars", type=int, default=100_000)
    parser.add_argument("--from-page", type=int, default=1)
    parser.add_argument("--to-page", type=int, default=0)
    wanted = parser.parse_args()
    try:
        text = "\n".join(read(wanted.document, max(1, wanted.from_page), wanted.to_page))
    except Unreadable as error:
        sys.stderr.write(f"{wanted.document}: {error}\n")
        return 1
    except (OSError, zipfile.BadZipFile, ElementTree.ParseError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"{wanted.document} cannot be read: {error}\n")
        return 1
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    sys.stdout.write(text[: wanted.max_chars] + "\n")
    if len(text) > wanted.max_chars:
        sys.stderr.write(f"(the first {wanted.max_chars:,} of {len(text):,} characters)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
