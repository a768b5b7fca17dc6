// The card of one prediction: what was predicted, how far it can be relied on, and which training rows it rests on.

const ROW = "#row="; // of an address, before an id
const card = { row: null, fromTable: true };
const SPLIT = [
  ["density", "Few training rows nearby (density)", "density makes"],
  ["misfit", "Training rows nearby are fitted badly (local fit)", "local fit"],
];
const BESIDE = ["probability", "set"]; // of a class, said below it
const ABOVE = ["prediction", "score", "percentile", "tier", ...BESIDE]; // not repeated in the list of numbers
const LONG = 40; // letters of an id that is no title for the top of every screen

function part(title, ...children) {
  return make("section", "", make("h3", "", title), ...children);
}

function columnOf(key) {
  return [...predictions.card, ...predictions.columns].find((column) => column.key === key);
}

function helpOf(key) {
  const column = columnOf(key);
  return column && column.help ? [make("p", "note", column.help)] : [];
}

function labelOf(key) {
  const column = columnOf(key);
  return column ? column.label : key.charAt(0).toUpperCase() + key.slice(1);
}

function numberOf(row, key) {
  return plain(valueOf(row, key), shown.decimals[key]);
}

// --- the prediction and its interval on a line -----------------------------------------------------------------

function intervalOf(row) {
  if (!predictions.interval) return null;
  return [valueOf(row, predictions.interval.lower), valueOf(row, predictions.interval.upper)];
}

function intervalWords(row) {
  const [lower, upper] = intervalOf(row);
  const level = percent(predictions.interval.level) + " interval";
  if (lower === null && upper === null) return level + ": no limit on either side";
  if (lower === null) return `${level}: up to ${numberOf(row, predictions.interval.upper)}, no lower limit`;
  if (upper === null) return `${level}: from ${numberOf(row, predictions.interval.lower)}, no upper limit`;
  return `${level}: ${numberOf(row, predictions.interval.lower)} to ${numberOf(row, predictions.interval.upper)}`;
}

function placed(element, share) {
  const place = (100 * share).toFixed(2) + "%";
  element.style.left = place;
  if (element.classList.contains("label")) element.style.transform = `translateX(-${place})`;
  return element;
}

function numberLine(row) {
  const prediction = valueOf(row, "prediction");
  const actual = predictions.actual ? valueOf(row, predictions.actual) : null;
  const ends = intervalOf(row);
  const known = [prediction, actual, ...ends].filter((value) => typeof value === "number");
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = 0.12 * (high - low || Math.abs(high) || 1);
  const at = (value) => (value - low + room) / (high - low + 2 * room);
  const line = make("div", actual === null ? "number-line short" : "number-line", ...intervalMarks(row, ends, at));
  line.setAttribute("aria-hidden", "true");
  line.append(placed(make("span", "dot"), at(prediction)));
  line.append(placed(make("span", "label above", "prediction " + numberOf(row, "prediction")), at(prediction)));
  if (actual !== null) {
    line.append(placed(make("span", "diamond"), at(actual)));
    line.append(placed(make("span", "label lowest", "actual " + numberOf(row, predictions.actual)), at(actual)));
  }
  return line;
}

function intervalMarks(row, [lower, upper], at) {
  const [from, to] = [lower === null ? 0 : at(lower), upper === null ? 1 : at(upper)];
  const bar = placed(make("span", "interval"), from);
  bar.style.width = (100 * (to - from)).toFixed(2) + "%";
  const words = [lower, upper].map((value, end) => {
    const key = end ? predictions.interval.upper : predictions.interval.lower;
    return value === null ? "no limit" : numberOf(row, key);
  });
  if (to - from < 0.3) return [bar, placed(make("span", "label below", words.join(" to ")), (from + to) / 2)];
  return [bar, ...words.map((word, end) => placed(make("span", "label below", word), end ? to : from))];
}

function predictionPart(row) {
  const value = valueOf(row, "prediction");
  const parts = [make("p", "figure", numberOf(row, "prediction"))];
  if (predictions.interval) {
    parts.push(make("p", "", intervalWords(row)));
    if (typeof value === "number") parts.push(numberLine(row));
  }
  for (const key of BESIDE) if (predictions.values[key]) parts.push(make("p", "said", `${labelOf(key)}: ${numberOf(row, key)}`));
  if (predictions.actual) parts.push(make("p", "said", "Actual: " + actualWords(row)));
  parts.push(make("p", "note", make("b", "", "Guarantee: "), predictions.guarantee || "none"));
  return part(labelOf("prediction"), ...parts);
}

function actualWords(row) {
  const actual = valueOf(row, predictions.actual);
  const ends = intervalOf(row);
  if (actual === null) return "not known";
  const number = numberOf(row, predictions.actual);
  if (!ends || typeof actual !== "number") return number;
  const inside = (ends[0] === null || actual >= ends[0]) && (ends[1] === null || actual <= ends[1]);
  return number + (inside ? ", inside the interval" : ", outside the interval");
}

// --- bars ------------------------------------------------------------------------------------------------------

function bar(name, share, number, kind) {
  const fill = make("span", "fill " + kind);
  fill.style.width = (100 * Math.min(Math.max(share, 0), 1)).toFixed(2) + "%";
  return make("li", "", make("span", "bar-name", name), make("span", "bar-track", fill), make("span", "bar-number", number));
}

function percentileBar(name, percentile) {
  if (percentile === null) return make("li", "", make("span", "bar-name", name), make("span", "bar-number", "not known"));
  return bar(name, percentile / 100, plain(percentile, 1), "mark-end");
}

function scorePart(row) {
  const parts = [];
  if (predictions.values.tier) parts.push(make("p", "", badge(valueOf(row, "tier"), "tier", plain(valueOf(row, "tier")))));
  if (predictions.sentence) parts.push(make("p", "sentence", predictions.sentence[row]));
  if (predictions.values.score) parts.push(make("p", "said", "Score: " + numberOf(row, "score")), ...helpOf("score"));
  if (predictions.values.percentile) {
    parts.push(make("ul", "bars", percentileBar("Percentile of the score, 0 to 100", valueOf(row, "percentile"))));
    parts.push(...helpOf("percentile"));
  }
  return part("Reliability", ...parts);
}

function axesPart(row) {
  if (!predictions.axes) return [];
  const sizes = predictions.axes.map((axis) => axis.values[row] || 0);
  const variance = sizes.reduce((sum, size) => sum + size * size, 0);
  const total = Math.sqrt(variance);
  const share = (size) => (variance ? (size * size) / variance : 0);
  const stack = make("div", "stack", ...sizes.map((size, place) => {
    const piece = make("span", "piece-" + place);
    piece.style.width = (100 * share(size)).toFixed(2) + "%";
    return piece;
  }));
  stack.setAttribute("aria-hidden", "true");
  const bars = predictions.axes.map((axis, place) =>
    bar(axis.name, total ? sizes[place] / total : 0, `${plain(axis.values[row])} (${percent(share(sizes[place]))})`, "piece-" + place)
  );
  const note = `Standard deviations; their squares add up to that of the total, ${plain(total)}. In brackets and in the strip: shares of the variance.`;
  return [part("Where the doubt comes from", stack, make("ul", "bars", ...bars), make("p", "note", note))];
}

function splitPart(row) {
  if (!predictions.split) return [];
  const times = (key) => predictions.split[`${key}_times`][row];
  const bars = SPLIT.map(([key, name]) => percentileBar(name, predictions.split[key][row]));
  const made = SPLIT.map(([key, , what]) => `${what} ${plain(times(key), 1)} times`).join(", ");
  const note = `Percentiles among training rows, each left out: the higher, the more this speaks against the prediction. Of the usual variance, ${made}.`;
  return [part("Density and local fit", make("ul", "bars", ...bars), make("p", "note", note))];
}

// --- numbers and training rows ---------------------------------------------------------------------------------

function numbersPart(row) {
  const drawn = [...ABOVE, predictions.actual];
  if (predictions.interval) drawn.push(predictions.interval.lower, predictions.interval.upper);
  const rest = predictions.card.filter((column) => !drawn.includes(column.key));
  if (rest.length === 0) return [];
  const list = make("dl", "facts", ...rest.map((column) => {
    const value = filled(make("dd"), row, column);
    if (column.help) value.append(" ", make("small", "", column.help));
    return make("div", "", make("dt", "", column.label), value);
  }));
  return [part("Numbers", list)];
}

function inputWords(name, value) {
  return plain(value, shown.inputs[name]);
}

function ownValue(row, name) {
  const place = predictions.inputs ? predictions.inputs.columns.indexOf(name) : -1;
  return place < 0 ? "" : inputWords(name, predictions.inputs.values[row][place]);
}

function influenceNames() {
  const own = predictions.inputs ? predictions.inputs.columns : [];
  return [...new Set([...(predictions.training ? predictions.training.columns : []), ...own])];
}

function headRow(labels) {
  return make("tr", "", ...labels.map(([label, type]) => {
    const cell = make("th", type, label);
    cell.scope = "col";
    return cell;
  }));
}

function ownRow(row, names, blank) {
  const title = make("th", "", "this " + predictions.id_label);
  title.scope = "row";
  const empty = Array.from({ length: blank }, () => make("td", "number", ""));
  return make("tr", "own", title, ...empty, ...names.map((name) => make("td", "number", ownValue(row, name))));
}

function trainingRow(row, rank, names) {
  const { influential, training } = predictions;
  const place = influential.row[row][rank];
  const title = make("th", "", make("span", "name", named("training", training.id, place)));
  title.scope = "row";
  const numbers = [
    percent(influential.share[row][rank]),
    signed(influential.without[row][rank], shown.influence.without),
    plain(influential.similarity[row][rank], shown.influence.similarity),
    signed(influential.residual[row][rank], shown.influence.residual),
    ...names.map((name) => {
      const column = training.columns.indexOf(name);
      return column < 0 ? "" : inputWords(name, training.values[place][column]);
    }),
  ];
  return make("tr", "", title, ...numbers.map((text) => make("td", "number", text)));
}

function scrolling(name, content) {
  const box = make("div", "scroll", content);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", name);
  return box;
}

function influenceNote(count) {
  const explains = predictions.explains || "the prediction";
  return [
    `The ${count} on which this prediction rests most, of all ${predictions.unit} it was trained on.`,
    `Share: its part of the variance that other choices of them would give ${explains}.`,
    `Without it: about how much ${explains} would change were it left out.`,
    "Residual: what the model misses it by when it is left out.",
  ].join(" ");
}

function influencePart(row) {
  const names = influenceNames();
  const number = (name) => [name, "number"];
  if (!predictions.influential || !predictions.training) {
    if (!predictions.inputs) return [];
    const table = make("table", "", make("thead", "", headRow([["", ""], ...names.map(number)])), make("tbody", "", ownRow(row, names, 0)));
    return [part("The row itself", scrolling("The row itself", table))];
  }
  const labels = [["Training row", ""], ...["Share", "Without it", "Similarity", "Residual", ...names].map(number)];
  const lines = predictions.influential.row[row].map((_, rank) => trainingRow(row, rank, names));
  const table = make("table", "", make("thead", "", headRow(labels)), make("tbody", "", ownRow(row, names, 4), ...lines));
  const note = lines.length ? influenceNote(lines.length) : "No training row is named for this prediction.";
  return [part("Influential training rows", make("p", "note", note), scrolling("Influential training rows", table))];
}

// --- open, step, close -----------------------------------------------------------------------------------------

function drawCard(row) {
  card.row = row;
  const place = table.order.indexOf(row);
  byId("card-title").textContent = `${predictions.id_label} ${idOf(row)}`;
  byId("card").classList.toggle("long", idOf(row).length > LONG);
  byId("card-place").textContent = `${plain(place + 1)} of ${plain(table.order.length)} in the order of the table`;
  byId("card-back").disabled = place <= 0;
  byId("card-on").disabled = place + 1 >= table.order.length;
  byId("card-body").replaceChildren(
    predictionPart(row), scorePart(row), ...axesPart(row), ...splitPart(row), ...numbersPart(row), ...influencePart(row)
  );
  byId("card").scrollTop = 0;
  byId("card").dataset.row = row;
  setFragment(fragmentOf(row));
}

function openCard(row, fromTable = true) {
  card.fromTable = fromTable;
  reveal(row);
  drawCard(row);
  if (!byId("card").open) byId("card").showModal();
  byId("card-title").focus();
  settleScrollers();
}

function stepCard(step) {
  const row = table.order[table.order.indexOf(card.row) + step];
  if (row === undefined) return;
  openCard(row, card.fromTable);
}

function afterClose() {
  if (location.hash.startsWith(ROW)) setFragment("");
  if (card.fromTable) focusRow(card.row);
}

function setFragment(fragment) {
  try {
    history.replaceState(null, "", fragment || location.pathname + location.search);
  } catch {
    // a page shown inside another may not change its address: the card is open all the same
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand, with a percent sign of its own
  }
}

// A row is addressed by its id, and where others have the same id also by its number.
function fragmentOf(row) {
  const alike = predictions.id.some((id, other) => other !== row && idOf(other) === idOf(row));
  return ROW + encodeURIComponent(idOf(row)) + (alike ? `&n=${row + 1}` : "");
}

function rowOf(fragment) {
  if (!fragment.startsWith(ROW)) return -1;
  const wanted = fragment.slice(ROW.length);
  const [, id, number] = /^(.*)&n=(\d+)$/.exec(wanted) || [];
  if (number >= 1 && number <= predictions.count && idOf(number - 1) === decoded(id)) return number - 1;
  return predictions.id.findIndex((_, row) => idOf(row) === decoded(wanted));
}

// The address decides: a row's opens its card, and any other closes the one that is open and shows its own place.
function followFragment() {
  const row = rowOf(location.hash);
  if (row >= 0) openCard(row);
  else if (byId("card").open) {
    card.fromTable = false;
    byId("card").close();
    const place = byId(decoded(location.hash.slice(1)));
    if (place) place.scrollIntoView();
  }
}

function startCard() {
  byId("card-back").addEventListener("click", () => stepCard(-1));
  byId("card-on").addEventListener("click", () => stepCard(1));
  byId("card-close").addEventListener("click", () => byId("card").close());
  byId("card").addEventListener("close", afterClose);
  byId("card").addEventListener("click", (event) => {
    if (event.target === byId("card")) byId("card").close(); // the backdrop
  });
  byId("card").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && !event.target.closest(".scroll")) stepCard(step);
  });
  window.addEventListener("hashchange", followFragment);
  followFragment();
}
