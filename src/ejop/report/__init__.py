"""A report on what was learned: one HTML file that opens from disk, with no network.

Needs jinja2 and plotly: ``pip install 'ejop[report]'``.
"""

from ejop.report._report import make_report, write_report

__all__ = ["make_report", "write_report"]
