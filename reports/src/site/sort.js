// Makes each heading of a table.sortable a button that sorts by its column; without this the tables stay as written.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = head.dataset.number === undefined
      ? (a, b) => key(a).localeCompare(key(b), "en")
      : (a, b) => Number(key(a)) - Number(key(b));
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
    });
  });
}
