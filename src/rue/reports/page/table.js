// The table of predictions: sort, search, filter, fifty rows at a time.

const ROWS = 50;
const BRIEF = 16; // letters of words that stay on one line
const FEW = 12; // a column of words with at most so many different ones gets a filter

const columns = [{ key: "", label: predictions.id_label, type: "id", help: "" }, ...predictions.columns];
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const table = { order: [], page: 0, key: shown.first, descending: true, search: "", filters: new Map() };
let searchable = null; // lower-case words of every row, made at the first search

function rank(value, type) {
  if (value === null) return null;
  if (type === "tier") return LEVELS.indexOf(value);
  if (type === "light") return Object.keys(shown.lights).indexOf(value);
  return value;
}

function compared(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));
}

// Rows in order of a column; what is missing comes last either way, and equal rows keep their order.
function sortedRows(rows) {
  if (table.key === null) return rows;
  const type = (columns.find((column) => column.key === table.key) || { type: "number" }).type;
  const keys = new Map(rows.map((row) => [row, rank(valueOf(row, table.key), type)]));
  const direction = table.descending ? -1 : 1;
  return rows.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (a === null || b === null) return (a === null) - (b === null) || one - other;
    return direction * compared(a, b) || one - other;
  });
}

function wordsOf(row) {
  const cells = columns.map((column) => written(row, column));
  return [...cells, predictions.sentence ? predictions.sentence[row] : ""].join("\u0001").toLowerCase();
}

function kept(row) {
  for (const [key, wanted] of table.filters) if (plain(valueOf(row, key)) !== wanted) return false;
  return table.search === "" || searchable[row].includes(table.search);
}

function arrange() {
  const rows = Array.from({ length: predictions.count }, (_, row) => row);
  if (table.search !== "" && searchable === null) searchable = rows.map(wordsOf);
  table.order = sortedRows(rows.filter(kept));
  table.page = 0;
  drawTable();
}

function drawTable() {
  const first = table.page * ROWS;
  const rows = table.order.slice(first, first + ROWS);
  byId("predictions-body").replaceChildren(...rows.map(tableRow));
  if (rows.length === 0) byId("predictions-body").append(emptyRow());
  drawHead();
  drawPager(first, rows.length);
}

function tableRow(row, place) {
  const line = make("tr");
  line.dataset.row = row;
  const button = make("button", "open name", idOf(row));
  button.type = "button";
  button.tabIndex = place === 0 ? 0 : -1;
  button.setAttribute("aria-haspopup", "dialog");
  const name = make("th", "id", button);
  name.scope = "row";
  line.append(name, ...columns.slice(1).map((column) => filled(make("td", lookOf(column)), row, column)));
  return line;
}

function lookOf(column) {
  if (column.type !== "text") return column.type;
  column.brief ??= predictions.values[column.key].every((value) => plain(value).length <= BRIEF);
  return column.brief ? "text brief" : "text";
}

function emptyRow() {
  const cell = make("td", "", "No prediction matches.");
  cell.colSpan = columns.length;
  return make("tr", "", cell);
}

function makeHead() {
  for (const column of columns) {
    const button = make("button", "sort", column.label);
    button.type = "button";
    button.title = column.help || "";
    button.addEventListener("click", () => sortBy(column.key));
    const head = make("th", column.type, button);
    head.scope = "col";
    head.dataset.key = column.key;
    byId("predictions-head").append(head);
  }
}

function drawHead() {
  for (const head of byId("predictions-head").children) {
    if (head.dataset.key === table.key) head.setAttribute("aria-sort", table.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function sortBy(key) {
  table.descending = table.key === key && !table.descending;
  table.key = key;
  arrange();
}

function drawPager(first, count) {
  const total = table.order.length;
  const range = count ? `Showing ${plain(first + 1)}\u2013${plain(first + count)} of ${plain(total)}` : "Showing 0 of 0";
  const filtered = total === predictions.count ? "" : `, filtered from ${plain(predictions.count)}`;
  byId("shown-rows").textContent = range + filtered;
  byId("page-first").disabled = byId("page-back").disabled = table.page === 0;
  byId("page-on").disabled = byId("page-last").disabled = first + ROWS >= total;
}

function lastPage() {
  return Math.max(0, Math.ceil(table.order.length / ROWS) - 1);
}

function turnTo(page) {
  table.page = Math.min(Math.max(page, 0), lastPage());
  drawTable();
}

function filterable(column) {
  if (column.type === "tier" || column.type === "light" || column.key === "reason") return true;
  return column.type === "text" && new Set(predictions.values[column.key]).size <= FEW;
}

function makeFilter(column) {
  const counts = new Map();
  for (const value of predictions.values[column.key]) counts.set(value, (counts.get(value) || 0) + 1);
  const values = [...counts.keys()].sort((a, b) => compared(rank(a, column.type), rank(b, column.type)));
  const select = make("select");
  select.id = "filter-" + column.key;
  select.append(new Option("all", ""));
  for (const value of values) {
    const word = value === null ? "none" : column.type === "light" ? shown.lights[value] : plain(value);
    select.append(new Option(`${word} (${plain(counts.get(value))})`, plain(value)));
  }
  select.addEventListener("change", () => {
    if (select.value === "") table.filters.delete(column.key);
    else table.filters.set(column.key, select.value);
    arrange();
  });
  const label = make("label", "", column.label);
  label.htmlFor = select.id;
  return make("div", "control", label, select);
}

function clearFilters() {
  table.search = byId("search").value = "";
  table.filters.clear();
  for (const select of byId("filters").querySelectorAll("select")) select.value = "";
  arrange();
}

// The row's page is shown, without the filters where they hide it.
function reveal(row) {
  if (!table.order.includes(row)) clearFilters();
  turnTo(Math.floor(table.order.indexOf(row) / ROWS));
}

function rowButton(row) {
  return byId("predictions-body").querySelector(`tr[data-row="${row}"] button`);
}

function focusRow(row) {
  for (const button of byId("predictions-body").querySelectorAll("button")) button.tabIndex = -1;
  const button = rowButton(row);
  if (!button) return;
  button.tabIndex = 0;
  button.focus();
}

function moveFocus(event) {
  const line = event.target.closest("tr[data-row]");
  const lines = [...byId("predictions-body").children];
  const place = lines.indexOf(line);
  const page = { PageUp: -1, PageDown: 1 }[event.key];
  const goal = { ArrowUp: place - 1, ArrowDown: place + 1, Home: 0, End: lines.length - 1 }[event.key];
  if (!line || (page === undefined && goal === undefined)) return;
  event.preventDefault();
  if (page !== undefined) {
    turnTo(table.page + page);
    focusRow(table.order[table.page * ROWS]);
  } else if (lines[goal]) {
    focusRow(Number(lines[goal].dataset.row));
  }
}

function startTable(open) {
  makeHead();
  byId("filters").append(...predictions.columns.filter(filterable).map(makeFilter));
  byId("search").addEventListener("input", () => {
    table.search = byId("search").value.trim().toLowerCase();
    arrange();
  });
  byId("explorer").querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", clearFilters);
  byId("page-first").addEventListener("click", () => turnTo(0));
  byId("page-back").addEventListener("click", () => turnTo(table.page - 1));
  byId("page-on").addEventListener("click", () => turnTo(table.page + 1));
  byId("page-last").addEventListener("click", () => turnTo(lastPage()));
  byId("predictions-body").addEventListener("keydown", moveFocus);
  byId("predictions-body").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-row]");
    if (line) open(Number(line.dataset.row));
  });
  arrange();
  byId("explorer").hidden = false;
}
