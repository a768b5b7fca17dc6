// Charts say what the pointer is near, and a click on a prediction's point opens its card.

const NEAR = 24; // pixels

function blocksById() {
  return new Map(report.sections.flatMap((section) => section.blocks).map((block) => [block.id, block]));
}

function marksOf(drawing) {
  return [...drawing.querySelectorAll("[data-at]")].flatMap((group) => {
    const at = group.dataset.at.split(" ").map(Number);
    const series = Number(group.dataset.series);
    return Array.from({ length: at.length / 2 }, (_, index) => ({ series, index, x: at[2 * index], y: at[2 * index + 1] }));
  });
}

function nearest(marks, x, y, reach) {
  let best = null;
  let least = reach;
  for (const mark of marks) {
    const distance = Math.hypot(mark.x - x, mark.y - y);
    if (distance < least) [best, least] = [mark, distance];
  }
  return best;
}

function lineOf(label, text) {
  return make("span", "", make("b", "", label), " ", text);
}

function readout(block, mark) {
  const series = block.series[mark.series];
  const row = series.row ? series.row[mark.index] : null;
  const range = series.low && series.low[mark.index] !== null
    ? ` (${plain(series.low[mark.index])} to ${plain(series.high[mark.index])})` : "";
  const lines = [
    make("strong", "", series.name),
    lineOf(block.x.label, plain(series.x[mark.index])),
    lineOf(block.y.label, plain(series.y[mark.index]) + range),
  ];
  if (row !== null && row !== undefined) lines.push(lineOf(predictions.id_label, `${idOf(row)}; click to open its card`));
  return lines;
}

function startChart(figure, block) {
  const drawing = figure.querySelector("svg");
  const box = make("div", "readout");
  const ring = make("span", "ring");
  let marks = null;
  let found = null;
  box.hidden = ring.hidden = true;
  figure.append(ring, box);
  figure.querySelectorAll("svg title").forEach((title) => title.remove()); // the read-out says it at once

  function show(event) {
    marks = marks || marksOf(drawing);
    const area = drawing.getBoundingClientRect();
    const scale = area.width / drawing.viewBox.baseVal.width;
    found = nearest(marks, (event.clientX - area.left) / scale, (event.clientY - area.top) / scale, NEAR / scale);
    box.hidden = ring.hidden = found === null;
    drawing.classList.toggle("opens", found !== null && Boolean(block.series[found.series].row));
    if (found === null) return;
    const origin = figure.getBoundingClientRect();
    const [x, y] = [area.left - origin.left + found.x * scale, area.top - origin.top + found.y * scale];
    box.replaceChildren(...readout(block, found));
    box.style.left = Math.max(0, Math.min(x + 14, origin.width - box.offsetWidth)) + "px";
    box.style.top = Math.max(0, y - box.offsetHeight - 14) + "px";
    ring.style.left = x + "px";
    ring.style.top = y + "px";
  }

  drawing.addEventListener("pointermove", show);
  drawing.addEventListener("pointerleave", () => (box.hidden = ring.hidden = true));
  drawing.addEventListener("click", (event) => {
    show(event);
    const rows = found && block.series[found.series].row;
    if (rows) openCard(rows[found.index], false);
  });
}

function startReadouts() {
  const blocks = blocksById();
  for (const figure of document.querySelectorAll("figure[data-chart]")) startChart(figure, blocks.get(figure.dataset.chart));
}
