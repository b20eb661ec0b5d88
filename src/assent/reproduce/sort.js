// Sorts a table of verdicts by a column: a click on its heading, once more for the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const way = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const text = (row) => row.cells[column].textContent;
      const number = (row) => parseFloat(text(row).replace("\u2212", "-").replaceAll(",", ""));
      const compared = (a, b) => number(a) - number(b) || text(a).localeCompare(text(b));
      body.append(...[...body.rows].sort((a, b) => way * compared(a, b)));
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
    });
  });
}
