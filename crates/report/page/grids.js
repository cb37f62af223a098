// Panel 3: times by iteration and task.

const PARTS = [
  ["compute", (work) => work],
  ["wait", (_, wait) => wait],
  ["sum", (work, wait) => work + wait],
];
const PHASES = ["loading", "stable", "flush"];
const MOST_CELLS = 4e6;
const LOADED = "#d55e00";
const FLUSHED = "#0072b2";

// The value at which the scale ends: the greatest sum, or the 99th percentile where a few
// exceptions would leave one level for all others.
function scale_end(sums) {
  const sorted = Float64Array.from(sums).sort();
  if (!sorted.length) return { end: 0, cut: false };
  const top = sorted[sorted.length - 1];
  const most = sorted[Math.floor((sorted.length - 1) * 0.99)];
  return most > 0 && top > 4 * most ? { end: most, cut: true } : { end: top, cut: false };
}

// The values of a grid in flat arrays; -1 where there is no step.
function grid_values(grid) {
  const rows = Math.min((grid.work || []).length, 4096);
  const cols = Math.min(greatest((grid.work || []).map((row) => row.length)), Math.floor(MOST_CELLS / Math.max(rows, 1)));
  const values = PARTS.map(() => new Float64Array(rows * cols).fill(-1));
  const sums = [];
  for (let row = 0; row < rows; row += 1) {
    for (let col = 0; col < cols; col += 1) {
      const work = number(grid.work[row]?.[col], -1);
      if (work < 0) continue;
      const wait = Math.max(0, number(grid.wait?.[row]?.[col]));
      PARTS.forEach(([, part], i) => (values[i][row * cols + col] = part(work, wait)));
      sums.push(work + wait);
    }
  }
  const common = scale_end(sums);
  const own = values.map((part) => scale_end(part.filter((value) => value >= 0)));
  return { grid, rows, cols, values, count: sums.length, common: PARTS.map(() => common), own };
}

// One pixel for each cell.
function cell_image({ rows, cols, values }, part, end, scale) {
  const canvas = document.createElement("canvas");
  canvas.width = cols;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(cols, rows);
  values[part].forEach((value, i) => {
    if (value < 0) return;
    const [r, g, b] = level_of(scale, end > 0 ? value / end : 0);
    image.data.set([r, g, b, 255], i * 4);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

// The edges between cells of different phases, as [column, row, column, row, phase that begins].
function phase_edges({ grid, rows, cols, values }) {
  const edges = [];
  const phase = (row, col) => (values[0][row * cols + col] < 0 ? undefined : grid.phase?.[row]?.[col]);
  for (let row = 0; row < rows; row += 1) {
    for (let col = 0; col < cols; col += 1) {
      const own = phase(row, col);
      if (own === undefined) continue;
      const right = col + 1 < cols ? phase(row, col + 1) : undefined;
      const below = row + 1 < rows ? phase(row + 1, col) : undefined;
      if (right !== undefined && right !== own) edges.push([col + 1, row, col + 1, row + 1, Math.max(own, right)]);
      if (below !== undefined && below !== own) edges.push([col, row + 1, col + 1, row + 1, Math.max(own, below)]);
    }
  }
  return edges;
}

// The visible part of a heat map at the size of the screen's points, without blur between cells.
function heat_picture(area, left, top, cell, cells, edges, ratio) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(area.width * ratio));
  canvas.height = Math.max(1, Math.round(area.height * ratio));
  const context = canvas.getContext("2d");
  context.scale(canvas.width / area.width, canvas.height / area.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(cells, left, top, cell[0] * cells.width, cell[1] * cells.height);
  context.lineCap = "square";
  const thick = Math.min(cell[0], cell[1]) < 5 ? 1.25 : 2;
  for (const [begins, colour] of [[1, LOADED], [2, FLUSHED]]) {
    for (const [line, width] of [["#ffffff", 2 * thick], [colour, thick]]) {
      context.strokeStyle = line;
      context.lineWidth = width;
      context.beginPath();
      for (const [a, b, c, d, phase] of edges) {
        if (phase !== begins) continue;
        context.moveTo(left + a * cell[0], top + b * cell[1]);
        context.lineTo(left + c * cell[0], top + d * cell[1]);
      }
      context.stroke();
    }
  }
  return canvas;
}

function ratio_words(grid) {
  const each = (ratio) => (number(ratio, null) === null ? NONE : digits(ratio));
  const phases = PHASES.map((name, i) => `${each(grid.ratios?.[i])} ${["while the wave loads", "while it is stable", "while it flushes"][i]}`);
  return `Waiting per time of compute: ${each(grid.ratio)} overall; ${phases.join(", ")}.`;
}

function iteration_name(grid, row) {
  const first = number(grid.first) + row * Math.max(1, number(grid.stride, 1));
  const stride = number(grid.stride, 1);
  return stride > 1 ? `${first} to ${first + stride - 1}` : String(first);
}

function grids_panel(report) {
  const section = panel("grids", "Grids", "Seconds of each step, iteration by task: compute, the wait before it, and their sum. Rows are iterations, columns are tasks.");
  const grids = (report.grids || []).map(grid_values).filter((values) => values.count);
  if (!grids.length) {
    return say_missing(section, report, /\b(steps?|iterations?)\b/i, "No task of the run repeats iteration by iteration.");
  }
  let [chosen, scale, each] = [0, GREYS, true];
  const words = el("p", { "aria-live": "polite" });
  const legend_place = el("div");
  const controls = el("div", { class: "row" });
  const tables = [];
  let chart = null;

  const update = () => {
    words.textContent = ratio_words(grids[chosen].grid);
    legend_place.replaceChildren(...scale_legend(scale, each ? grids[chosen].own : grids[chosen].common.slice(0, 1), each));
    tables.forEach((table, i) => (table.hidden = i !== chosen));
    if (chart) redraw(chart);
  };

  if (grids.length > 1) {
    controls.append(el("label", null, "Kind of task ", el("select", { onchange: (event) => {
      chosen = Number(event.target.value);
      update();
    } }, grids.map(({ grid }, i) => el("option", { value: i }, short(grid.name, 40))))));
  }
  const button = el("button", { type: "button", id: "scale", "aria-pressed": "false", onclick: () => {
    scale = scale === GREYS ? CIVIDIS : GREYS;
    button.setAttribute("aria-pressed", String(scale === CIVIDIS));
    update();
  } }, "Colours");
  const each_button = el("button", { type: "button", id: "scale-each", "aria-pressed": "true", onclick: () => {
    each = !each;
    each_button.setAttribute("aria-pressed", String(each));
    update();
  } }, "A scale for each");
  controls.append(button, each_button, el("ul", { class: "legend", style: { margin: "0" } },
    [[LOADED, "the first wave has reached the last task"], [FLUSHED, "the first task has ended"]].map(([colour, text]) =>
      el("li", null, el("span", { class: "swatch", style: { background: colour, height: "3px" } }), text))));
  section.append(words, controls, legend_place);

  const heat = (rows) => clamp(rows * 9, 90, 210);
  const most = greatest(grids.map(({ rows }) => rows));
  chart = add_chart(section, {
    label: "Three heat maps: compute, wait and sum by iteration and task.",
    height: 3 * (heat(most) + 32) + 60,
    zoom: true,
    build: (width) => grid_options(grids[chosen], each ? grids[chosen].own : grids[chosen].common, scale, width, heat(most)),
    ready: (made) => grid_tip(made, () => grids[chosen]),
  });
  grids.forEach(({ grid }) => tables.push(grid_table(section, grid)));
  update();
}

// The levels of a scale with the times at their ends, for each of the ends.
function scale_legend(scale, ends, named) {
  return ends.flatMap(({ end, cut }, part) => {
    const width = end / 12;
    const top = cut ? `${seconds_text(end)} and more` : seconds_text(end);
    return [
      el("div", { class: "scale", role: "img", "aria-label": `12 levels from 0 to ${seconds_text(end)}` }, scale.map((colour, i) =>
        el("div", { style: { background: css_colour(colour) }, title: `${seconds_text(i * width)} to ${seconds_text((i + 1) * width)}` }))),
      el("div", { class: "scale-ends" }, el("span", null, named ? `${PARTS[part][0]}: 0 s` : "0 s"),
        el("span", null, `12 levels of ${seconds_text(width)}`), el("span", null, top)),
    ];
  });
}

function grid_options(values, ends, scale, width, height) {
  const { grid, rows, cols } = values;
  const edges = phase_edges(values);
  const places = PARTS.map((_, i) => 28 + i * (height + 32));
  const names = Array.from({ length: cols }, (_, i) => short(grid.tasks?.[i] ?? i, 24));
  const ratio = Math.max(2, devicePixelRatio || 1);
  return {
    title: PARTS.map(([name], i) => ({
      text: name, left: 52, top: places[i] - 20, padding: 0, textStyle: { fontSize: 12.5, fontWeight: 600, color: theme.get("text") },
    })),
    grid: places.map((top) => ({ left: 52, right: 8, top, height, show: true, borderColor: theme.get("line") })),
    xAxis: places.map((_, i) => ({
      type: "category", gridIndex: i, data: names, axisLine: { show: false }, axisTick: { show: false },
      axisLabel: axis_label({ show: i === 2 }),
    })),
    yAxis: places.map((_, i) => ({
      type: "category", gridIndex: i, inverse: true, data: Array.from({ length: rows }, (_, row) => iteration_name(grid, row)),
      axisLine: { show: false }, axisTick: { show: false }, axisLabel: axis_label({ interval: skip_names(height / rows) }),
    })),
    dataZoom: grid_zooms(names),
    series: PARTS.map((_, part) => {
      const cells = cell_image(values, part, ends[part].end, scale);
      return {
        type: "custom", xAxisIndex: part, yAxisIndex: part, clip: true, data: [[0, 0]], silent: true,
        renderItem(params, api) {
          const area = params.coordSys;
          const cell = api.size([1, 1]);
          const [x, y] = api.coord([0, 0]);
          const image = heat_picture(area, x - cell[0] / 2 - area.x, y - cell[1] / 2 - area.y, cell, cells, edges, ratio);
          return { type: "image", style: { image, x: area.x, y: area.y, width: area.width, height: area.height } };
        },
      };
    }),
  };
}

function grid_zooms(names) {
  return zooms([0, 1, 2], 1).map((zoom) => ({
    ...zoom,
    labelFormatter: zoom.type === "slider" ? (i) => names[i] ?? "" : undefined,
  }));
}

// The note of the cell below the pointer.
function grid_tip(chart, chosen) {
  const zr = chart.getZr();
  zr.on("mousemove", (event) => {
    const { grid, rows, cols, values } = chosen();
    const part = [0, 1, 2].find((i) => chart.containPixel({ gridIndex: i }, [event.offsetX, event.offsetY]));
    if (part === undefined) return tip.hide();
    const [col, row] = chart.convertFromPixel({ gridIndex: part }, [event.offsetX, event.offsetY]);
    if (!(col >= 0 && col < cols && row >= 0 && row < rows)) return tip.hide();
    const at = row * cols + col;
    if (values[0][at] < 0) return tip.hide();
    tip.show(event.event, tip_content(`${short(grid.tasks?.[col] ?? `task ${col}`, 40)}, iteration ${iteration_name(grid, row)}`, [
      ...PARTS.map(([name], i) => [name, seconds_text(values[i][at])]),
      ["phase", PHASES[grid.phase?.[row]?.[col]] ?? NONE],
    ]));
  });
  zr.on("globalout", () => tip.hide());
}

function grid_table(section, grid) {
  return details_table(section, `Table: ${short(grid.name, 60)} by iteration`,
    ["iteration#", "steps#", "compute, median#", "compute, greatest#", "wait, median#", "wait, greatest#", "wait per compute#"],
    () => (grid.work || []).map((row, i) => {
      const cells = row.map((work, col) => [number(work, -1), Math.max(0, number(grid.wait?.[i]?.[col]))]).filter(([work]) => work >= 0);
      const sorted = (part) => cells.map((cell) => cell[part]).sort((a, b) => a - b);
      const total = (part) => cells.reduce((sum, cell) => sum + cell[part], 0);
      const [work, wait] = [sorted(0), sorted(1)];
      const middle = (list) => (list.length ? seconds_text(list[Math.floor((list.length - 1) / 2)]) : NONE);
      return [iteration_name(grid, i), cells.length, middle(work), seconds_text(work.at(-1)), middle(wait), seconds_text(wait.at(-1)),
        total(0) > 0 ? digits(total(1) / total(0)) : NONE];
    }));
}
