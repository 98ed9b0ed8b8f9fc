"""A table of results as text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ResultTable:
    """Rows of text under a header, with remarks below."""

    title: str
    header: list[str]
    rows: list[list[str]]
    remarks: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        remarks = "\n".join(f"- {text}" for text in self.remarks)
        return f"## {self.title}\n\n{body}\n" + (f"\n{remarks}\n" if remarks else "")
