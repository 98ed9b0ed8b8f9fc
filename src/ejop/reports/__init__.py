"""A report on what was learned: one HTML page that opens from disk, with no network.

``ejop.report(frame, target)`` makes one in a line. Needs jinja2: ``pip install 'ejop[report]'``.
"""

from ejop.reports._one_line import Report, report
from ejop.reports._report import make_report, write_report

__all__ = ["Report", "make_report", "report", "write_report"]
