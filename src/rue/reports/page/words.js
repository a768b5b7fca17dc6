// Numbers and words as the rest of the page writes them, and elements made without any markup from data.

const report = JSON.parse(document.getElementById("document").textContent);
const shown = JSON.parse(document.getElementById("shown").textContent);
const predictions = report.predictions;

const MINUS = "\u2212";
const UNKNOWN = "\u2013";
const LEVELS = ["accept", "review", "refuse"];

function byId(id) {
  return document.getElementById(id);
}

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

function grouped(text) {
  const [whole, part] = text.replace("-", "").split(".");
  const thousands = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  const sign = text.startsWith("-") && /[1-9]/.test(text) ? MINUS : "";
  return sign + thousands + (part ? "." + part : "");
}

function scientific(value) {
  const [digits, power] = value.toExponential(2).split("e");
  const raised = [...power.replace("+", "")].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return `${digits.replace("-", MINUS)} \u00d7 10${raised.join("")}`;
}

function plain(value, decimals) {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (decimals !== null && decimals !== undefined) return grouped(value.toFixed(decimals));
  if (Number.isInteger(value)) return grouped(String(value));
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e9) return scientific(value);
  const places = Math.max(0, 3 - Math.floor(Math.log10(size)));
  return grouped(String(Number(value.toFixed(places))));
}

function signed(value, decimals) {
  return (value > 0 ? "+" : "") + plain(value, decimals);
}

function percent(share) {
  return share === null || share === undefined ? UNKNOWN : plain(Number((100 * share).toPrecision(3))) + " %";
}

// Names, not quantities: as they are, without any grouping; `exact` has whole numbers too long for the script's own.
function named(kind, ids, place) {
  const exact = shown.exact[kind][place];
  return exact === undefined ? String(ids[place]) : exact;
}

function idOf(row) {
  return named("predictions", predictions.id, row);
}

function valueOf(row, key) {
  return key === "" ? predictions.id[row] : predictions.values[key][row];
}

function written(row, column) {
  if (column.type === "id") return idOf(row);
  const value = valueOf(row, column.key);
  if (column.type === "light" && value !== null) return shown.lights[value];
  return plain(value, typeof value === "number" ? shown.decimals[column.key] : null);
}

// A tier or a light: a shape, a colour and always the word.
function badge(value, type, word) {
  const kind = type === "tier" ? "tier-" : "light-";
  const shape = make("span", "shape");
  shape.setAttribute("aria-hidden", "true");
  return make("span", "light " + kind + (value || "none"), shape, word);
}

function filled(cell, row, column) {
  const word = written(row, column);
  if (column.type === "tier" || column.type === "light") cell.append(badge(valueOf(row, column.key), column.type, word));
  else cell.textContent = word;
  return cell;
}
