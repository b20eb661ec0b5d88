"""The report: one offline HTML file."""

from assent.report.data import ReportData
from assent.report.page import build_report

__all__ = ["ReportData", "build_report"]
