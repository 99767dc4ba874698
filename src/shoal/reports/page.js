"use strict";
// Sort a table by the column whose head is clicked: first from high to low, then from low to high.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return; // a column of pictures
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.type = "button";
    button.title = "sort by this column";
    head.append(button);
    button.addEventListener("click", () => {
      const rises = head.getAttribute("aria-sort") === "descending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rises ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [row, valueOf(row.cells[column])]);
      rows.sort(([, a], [, b]) => order(a, b, rises ? 1 : -1));
      body.append(...rows.map(([row]) => row));
    });
  });
}

function valueOf(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text);
  return text === "" || text === "nan" || text === "–" ? null : Number.isNaN(number) ? text : number;
}

function order(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null); // what is not known is always last
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

// Paper shows everything.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
