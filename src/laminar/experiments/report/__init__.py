"""Reports of experiments: a page, paper, and every number as CSV and JSON.

Read in this order: write.py (what is asked for, and the files that are written), compose.py (from a view to blocks, with findings.py,
tables.py, trials.py and method.py), document.py (the blocks), html.py with page.css and page.js, pdf.py with paper.py and paper_table.py,
numbers.py (CSV and JSON).
Not here: what trials say (statistics.py), how pictures are drawn (pictures).
"""

from laminar.experiments.report.write import Written, check_page, write_report

__all__ = ["Written", "check_page", "write_report"]
