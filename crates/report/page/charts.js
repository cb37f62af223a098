// Charts of the plotting library: their common options, sizes, zoom and themes.

const charts = [];
const NARROW = 560;

// Adds a chart. `build(width)` returns its options; it is called again when the theme or the
// class of width changes. `zoom` names the axis of a chart that the keys and the wheel zoom.
function add_chart(parent, { label, height, build, zoom = false, ready = null }) {
  const holder = el("div", {
    class: "chart",
    role: "img",
    "aria-label": label + (zoom ? " Keys: plus and minus zoom, arrows pan, 0 shows all." : ""),
    tabindex: zoom ? "0" : null,
    style: { height: `${height}px` },
  });
  parent.append(holder);
  if (zoom && !charts.some((one) => one.zoom)) {
    parent.append(el("p", { class: "hint" }, "Zoom, here and in other charts: the slider below; the wheel after a click into the chart; the keys + − ← → 0."));
  }
  const entry = { holder, build, ready, zoom, chart: null, narrow: null };
  charts.push(entry);
  if (zoom) zoom_by_keys(entry);
  return entry;
}

function start_charts() {
  for (const entry of charts) {
    entry.chart = echarts.init(entry.holder, null, { devicePixelRatio: Math.max(2, devicePixelRatio || 1) });
    redraw(entry);
    entry.ready?.(entry.chart);
  }
  for (const { draw, holder } of drawings) draw(holder.clientWidth);
  // A chart that changes its size during the notification would be notified again at once.
  const observer = new ResizeObserver((changes) => requestAnimationFrame(() => {
    if (printing) return;
    for (const { target } of changes) {
      const width = target.clientWidth;
      const entry = charts.find(({ holder }) => holder === target);
      if (width === 0) continue;
      if (entry) fit(entry, width);
      else drawings.find(({ holder }) => holder === target)?.draw(width);
    }
  }));
  for (const { holder } of [...charts, ...drawings]) observer.observe(holder);
}

// Draws a chart anew, at the zoom that it has.
function redraw(entry, width = entry.holder.clientWidth) {
  if (!entry.chart) return;
  const before = entry.chart.getOption();
  const option = { animation: false, ...entry.build(Math.max(width, 200)) };
  option.textStyle = { fontFamily: getComputedStyle(document.body).fontFamily, color: theme.get("text") };
  if (before && before.dataZoom && option.dataZoom) {
    option.dataZoom.forEach((zoom, i) => {
      if (before.dataZoom[i]) Object.assign(zoom, { start: before.dataZoom[i].start, end: before.dataZoom[i].end });
    });
  }
  if (printing) for (const zoom of option.dataZoom || []) zoom.show = false;
  entry.narrow = width < NARROW;
  entry.chart.setOption(option, { notMerge: true });
}

function fit(entry, width) {
  if (entry.chart.getWidth() === width && entry.chart.getHeight() === entry.holder.clientHeight) return;
  entry.chart.resize({ width, height: entry.holder.clientHeight });
  if (entry.narrow !== width < NARROW) redraw(entry, width);
}

function redraw_all() {
  for (const entry of charts) redraw(entry);
  for (const { draw, holder } of drawings) draw(holder.clientWidth);
  for (const apply of painted_elements) apply();
}

// Drawings that the plotting library does not make: `draw(width)` draws into the holder.
const drawings = [];

function add_drawing(holder, draw) {
  drawings.push({ holder, draw });
}

function zoom_by_keys(entry) {
  const wheel = (on) => {
    if (!entry.chart) return;
    const zooms = entry.chart.getOption().dataZoom || [];
    const inside = zooms.filter((zoom) => zoom.type === "inside").map(({ id }) => ({ id, zoomOnMouseWheel: on }));
    if (inside.length) entry.chart.setOption({ dataZoom: inside });
  };
  entry.holder.addEventListener("focus", () => wheel(true));
  entry.holder.addEventListener("blur", () => wheel(false));
  entry.holder.addEventListener("pointerdown", () => entry.holder.focus({ preventScroll: true }));
  entry.holder.addEventListener("keydown", (event) => {
    if (!entry.chart || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = (entry.chart.getOption().dataZoom || [])[0];
    if (!now) return;
    let [start, end] = [now.start, now.end];
    const [middle, width] = [(start + end) / 2, end - start];
    const set = (size, centre) => {
      const part = clamp(size, 0.01, 100);
      start = clamp(centre - part / 2, 0, 100 - part);
      end = start + part;
    };
    if (event.key === "+" || event.key === "=") set(width / 1.6, middle);
    else if (event.key === "-" || event.key === "−") set(width * 1.6, middle);
    else if (event.key === "ArrowLeft") set(width, middle - width / 5);
    else if (event.key === "ArrowRight") set(width, middle + width / 5);
    else if (event.key === "0" || event.key === "Home") set(100, 50);
    else return;
    event.preventDefault();
    event.stopPropagation();
    entry.chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start, end });
  });
}

// ---- Common options ----

function tooltip(formatter, extra = {}) {
  return {
    trigger: "item",
    confine: true,
    transitionDuration: 0,
    backgroundColor: theme.get("ground"),
    borderColor: theme.get("line"),
    borderWidth: 1,
    padding: [5, 9],
    textStyle: { color: theme.get("text"), fontSize: 12.5, fontWeight: "normal" },
    extraCssText: "box-shadow:0 2px 8px rgb(0 0 0/.2);max-width:min(26rem,80vw);",
    formatter,
    ...extra,
  };
}

const axis_line = () => ({ lineStyle: { color: theme.get("line") } });
const axis_label = (more = {}) => ({ color: theme.get("quiet"), fontSize: 11, hideOverlap: true, ...more });
const split_line = (show = true) => ({ show, lineStyle: { color: theme.get("faint") } });

// An axis of time from 0 to the end of the run.
function time_axis(end, more = {}) {
  const unit = time_unit(end);
  return {
    type: "value",
    min: 0,
    max: end > 0 ? end : 1,
    axisLine: { show: true, ...axis_line() },
    axisTick: { show: true, ...axis_line() },
    axisLabel: axis_label({
      formatter: (value) => axis_number(value / unit.scale),
      showMaxLabel: false,
    }),
    splitLine: split_line(),
    name: `time (${unit.name})`,
    nameLocation: "middle",
    nameGap: 22,
    nameTextStyle: { color: theme.get("quiet"), fontSize: 11 },
    ...more,
  };
}

function value_axis(name, formatter = axis_number, more = {}) {
  return {
    type: "value",
    name,
    nameLocation: "end",
    nameGap: 10,
    nameTextStyle: { align: "right", color: theme.get("quiet"), fontSize: 11, padding: [0, 7, 0, 0] },
    axisLabel: axis_label({ formatter }),
    axisLine: { show: false },
    axisTick: { show: false },
    splitLine: split_line(),
    ...more,
  };
}

// The slider below a chart and the wheel inside of it, for the axes of time with these indexes.
function zooms(axes, end, bottom = 6) {
  const unit = time_unit(end);
  const quiet = theme.get("quiet");
  return [
    {
      id: "slider",
      type: "slider",
      xAxisIndex: axes,
      filterMode: "none",
      height: 18,
      bottom,
      showDataShadow: false,
      brushSelect: false,
      borderColor: theme.get("line"),
      fillerColor: theme.dark ? "rgba(111,182,236,0.18)" : "rgba(0,89,160,0.10)",
      handleStyle: { color: theme.get("ground"), borderColor: quiet },
      moveHandleStyle: { color: quiet, opacity: 0.5 },
      moveHandleSize: 4,
      emphasis: { handleStyle: { borderColor: theme.get("accent") }, moveHandleStyle: { color: theme.get("accent") } },
      textStyle: { color: quiet, fontSize: 11 },
      labelFormatter: (value) => `${axis_number(Number((value / unit.scale).toPrecision(4)))} ${unit.name}`,
    },
    {
      id: "inside",
      type: "inside",
      xAxisIndex: axes,
      filterMode: "none",
      zoomOnMouseWheel: false,
      moveOnMouseMove: true,
      preventDefaultMouseMove: false,
    },
  ];
}

// Text without marks that reverse what follows.
const plain = (text) => String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, "");

// A label that is cut at this number of letters.
function short(text, letters) {
  const all = Array.from(plain(text));
  return all.length > letters ? `${all.slice(0, letters - 1).join("")}…` : all.join("");
}
