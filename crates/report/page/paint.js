// Colours and hatches. Work is solid and waits are hatched, so that a print in grey shows which is
// which. The hues are those of Okabe and Ito, which remain apart for the colour-blind.

const HUES = {
  work: ["#0072b2", "#009e73", "#56b4e9", "#4b4fa3"],
  wait: ["#d55e00", "#b8860b", "#b0467f", "#8c3b1c", "#6b6b00", "#7a4fa0"],
  device: ["#7a7f2a", "#2f7f7a"],
};

// From little to much: 12 equal steps of grey, as Figs. 5 to 8 of Gustedt, Jeanvoine et al.
const GREYS = Array.from({ length: 12 }, (_, i) => {
  const level = Math.round(255 - (i * 255) / 11);
  return [level, level, level];
});

// Cividis at 12 points: Nuñez, Anderton, Renslow 2018, doi:10.1371/journal.pone.0199239.
const CIVIDIS = [
  "#00224e", "#0a3069", "#2e3e6b", "#434e6c", "#575d6d", "#6a6d70",
  "#7d7c78", "#928d78", "#a89e72", "#c0b166", "#dac556", "#fee838",
].map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));

const css_colour = ([r, g, b]) => `rgb(${r},${g},${b})`;

// The colour of a part of the whole, from 0 to 1.
function level_of(scale, part) {
  return scale[clamp(Math.floor(part * scale.length), 0, scale.length - 1)];
}

const theme = {
  dark: false,
  get(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  },
};

const hatches = new Map();

// The colour with a third of white.
function lighter(colour) {
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return css_colour(parts.map((part) => Math.round(part + (255 - part) / 3)));
}

// A tile of 8 by 8 points with lines of the hue on a ground of the theme.
function hatch(hue, kind) {
  const key = `${hue} ${kind} ${theme.dark}`;
  if (hatches.has(key)) return hatches.get(key);
  const colour = theme.dark ? lighter(hue) : hue;
  const canvas = document.createElement("canvas");
  const size = 8;
  canvas.width = canvas.height = size * 2;
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = theme.dark ? "#14171b" : "#ffffff";
  context.fillRect(0, 0, size, size);
  context.globalAlpha = theme.dark ? 0.25 : 0.22;
  context.fillStyle = colour;
  context.fillRect(0, 0, size, size);
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 1.6;
  context.beginPath();
  const line = (a, b, c, d) => {
    context.moveTo(a, b);
    context.lineTo(c, d);
  };
  if (kind === 0) for (const at of [-8, 0, 8]) line(at - 1, 9, at + 9, -1);
  if (kind === 1) for (const at of [-8, 0, 8]) line(at - 1, -1, at + 9, 9);
  if (kind === 2) line(2, 0, 2, 8);
  if (kind === 3) line(0, 2, 8, 2);
  if (kind === 4) {
    context.fillStyle = colour;
    for (const [x, y] of [[1, 1], [5, 5]]) context.fillRect(x, y, 2, 2);
  }
  if (kind === 5) {
    line(-1, 9, 9, -1);
    line(-1, -1, 9, 9);
  }
  context.stroke();
  const made = { canvas, url: canvas.toDataURL() };
  hatches.set(key, made);
  return made;
}

// How each activity of a report is drawn: its hue, and the kind of its hatch for a wait.
function paints_of(activities) {
  const used = { work: 0, wait: 0, device: 0 };
  return (activities || []).map((activity) => {
    const kind = String(activity.class);
    if (!(kind in used)) return { hue: kind === "off" ? "#3a3f45" : "#9aa2aa", hatch: kind === "off" ? 5 : null };
    const index = used[kind]++;
    return { hue: HUES[kind][index % HUES[kind].length], hatch: kind === "wait" ? index % 6 : null };
  });
}

const UNKNOWN_PAINT = { hue: "#9aa2aa", hatch: null };
// Threads that are ready to work.
const QUEUED_PAINT = { hue: "#6a6d70", hatch: null };
const QUEUED_NAME = "ready, without a processor";

// A fill for the plotting library.
function chart_fill(paint) {
  const { hue, hatch: kind } = paint || UNKNOWN_PAINT;
  if (kind === null) return hue;
  return { image: hatch(hue, kind).canvas, repeat: "repeat", scaleX: 0.5, scaleY: 0.5 };
}

// The same as a background of CSS.
function css_fill(paint) {
  const { hue, hatch: kind } = paint || UNKNOWN_PAINT;
  return kind === null ? { background: hue } : { backgroundImage: `url(${hatch(hue, kind).url})`, backgroundSize: "8px 8px" };
}

// Elements whose background depends on the theme are repainted when it changes.
const painted_elements = [];

function painted(element, paint) {
  const apply = () => Object.assign(element.style, css_fill(paint));
  painted_elements.push(apply);
  apply();
  return element;
}

function legend(entries) {
  return el("ul", { class: "legend" }, entries.map(([paint, words]) =>
    el("li", null, painted(el("span", { class: "swatch" }), paint), words)));
}
