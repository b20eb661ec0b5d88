"""The report: one offline HTML file, its words for single decisions, pictures of frontiers and rewards."""

from assent.report.data import ReportData, frontier_lines
from assent.report.facts import certificate_facts
from assent.report.figures import frontier_svg, rewards_svg
from assent.report.page import build_report
from assent.report.sections import in_words

__all__ = [
    "ReportData",
    "build_report",
    "certificate_facts",
    "frontier_lines",
    "frontier_svg",
    "in_words",
    "rewards_svg",
]
