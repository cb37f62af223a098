// Elements, tables and panels.

function report_of(id) {
  const element = document.getElementById(id);
  if (!element) return null;
  try {
    return JSON.parse(element.textContent);
  } catch {
    return null;
  }
}

// A number, or `otherwise` where the report holds none (NaN is null in JSON).
function number(value, otherwise = 0) {
  return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

// Minima and maxima of long lists: Math.max(...list) overflows the stack.
function greatest(list, otherwise = 0) {
  let found = -Infinity;
  for (const value of list) if (number(value, -Infinity) > found) found = value;
  return found === -Infinity ? otherwise : found;
}

function least(list, otherwise = 0) {
  let found = Infinity;
  for (const value of list) if (number(value, Infinity) < found) found = value;
  return found === Infinity ? otherwise : found;
}

function fill_element(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style" && typeof value === "object") Object.assign(element.style, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function el(tag, attributes, ...children) {
  return fill_element(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill_element(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// The panels in the order of the navigation.
const panels = [];

// A section with its heading and its explaining sentence. Returns the element for the content.
function panel(id, title, sentence) {
  const section = el("section", { class: "panel", id, tabindex: "-1", "aria-labelledby": `${id}-title` },
    el("h2", { id: `${id}-title` }, title),
    el("p", { class: "quiet" }, sentence));
  document.getElementById("main").append(section);
  panels.push({ id, title, section });
  return section;
}

// States in a panel without data why it has none: a notice of the report that names the panel's
// subject, or the general sentence.
function say_missing(section, report, words, sentence) {
  const notices = (report.missing || []).filter((notice) => words.test(String(notice)));
  section.append(el("p", { class: "none" }, notices.length ? notices.join(" ") : sentence));
  panels.find((panel) => panel.section === section).empty = true;
}

const LONGEST_TABLE = 400;
// The style sheet for print has the same number.
const PRINTED_ROWS = 30;
const late_tables = [];

function table_of(columns, rows) {
  const head = el("tr", null, columns.map((column) =>
    el("th", { scope: "col", class: column.figure ? "figure" : null }, column.name)));
  const cell = (value, i) => i === 0 && !columns[0].figure
    ? el("th", { scope: "row", style: { fontWeight: "400" } }, String(value))
    : el("td", { class: columns[i].figure ? "figure" : null }, String(value));
  return el("table", { class: "data" },
    el("thead", null, head),
    el("tbody", null, rows.slice(0, LONGEST_TABLE).map((row) => el("tr", null, row.map(cell)))));
}

// The data of a chart as a table that is made when it is first opened. `columns` are names; a name
// that ends with `#` is a column of figures.
function details_table(parent, title, columns, rows_of) {
  const details = el("details", null, el("summary", null, title));
  let made = false;
  const make = () => {
    if (made) return;
    made = true;
    const heads = columns.map((name) => ({ name: name.replace(/#$/, ""), figure: name.endsWith("#") }));
    const rows = rows_of();
    if (rows.length > LONGEST_TABLE) {
      details.append(el("p", { class: "hint" },
        `The first ${count_text(LONGEST_TABLE)} of ${count_text(rows.length)} rows.`));
    }
    if (rows.length > PRINTED_ROWS) {
      details.append(el("p", { class: "print-note" }, `The first ${PRINTED_ROWS} of ${count_text(rows.length)} rows.`));
    }
    details.append(rows.length
      ? el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table_of(heads, rows))
      : el("p", { class: "quiet" }, "No rows."));
  };
  details.addEventListener("toggle", () => details.open && make());
  late_tables.push(make);
  parent.append(details);
  return details;
}

function facts_list(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value]) =>
    el("div", null, el("dt", null, String(name)), el("dd", null, String(value)))));
}

// One floating note for drawings that are not made by the plotting library.
const tip = {
  element: null,
  show(event, content) {
    if (!this.element) {
      this.element = el("div", { class: "tip" });
      document.body.append(this.element);
    }
    this.element.hidden = false;
    this.element.replaceChildren(content);
    const box = this.element.getBoundingClientRect();
    const right = event.clientX + 14 + box.width > innerWidth - 8;
    this.element.style.left = `${Math.max(8, right ? event.clientX - box.width - 10 : event.clientX + 14)}px`;
    this.element.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - box.height - 8))}px`;
  },
  hide() {
    if (this.element) this.element.hidden = true;
  },
};

// The content of a tooltip: a title and pairs.
function tip_content(title, pairs) {
  return el("div", null,
    el("div", { class: "tip-title" }, title),
    el("div", { class: "tip-grid" }, pairs.flatMap(([name, value]) => [el("span", null, name), el("span", null, value)])));
}
