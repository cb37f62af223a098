// Panel 4: how much was complete when.

const LINE_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0467f", "#b8860b", "#56b4e9", "#4b4fa3", "#7a7f2a"],
  dark: ["#5ab4f0", "#f58b4c", "#3fc79a", "#e58abb", "#e0b341", "#a8d8f5", "#a3a8f0", "#c3c870"],
};
const line_colour = (i) => LINE_COLOURS[theme.dark ? "dark" : "light"][i % 8];
const LINE_KINDS = ["solid", "dashed", "dotted"];

// Points that are numbers, in the order of time, extended to the end of the run.
function clean_points(points, end) {
  const clean = (points || []).filter(([time, value]) => number(time, null) !== null && number(value, null) !== null);
  clean.sort((a, b) => a[0] - b[0]);
  if (clean.length && end > clean[clean.length - 1][0]) clean.push([end, clean[clean.length - 1][1]]);
  return clean;
}

// A chart of lines over time with one unit.
function line_chart(section, { label, lines, unit, end, step = "end", height = 280, area = false, format = null, marks = [] }) {
  const top = marks.length ? greatest(marks.map(({ value }) => value)) * 1.08 : null;
  const text = format || ((value) => value_text(value, unit));
  const own = format || (["B", "B/s", "s"].includes(unit) ? text : null);
  const name = own ? "" : short(unit, 24);
  add_chart(section, {
    label,
    height: height + 40,
    zoom: true,
    build: (width) => ({
      grid: { left: 70, right: 14, top: name ? 50 : 34, bottom: 66 },
      legend: {
        type: "scroll", top: 0, left: 0, padding: 0, itemHeight: 8, itemWidth: 24, textStyle: { color: theme.get("text"), fontSize: 12 },
        pageTextStyle: { color: theme.get("quiet") }, pageIconColor: theme.get("quiet"),
        formatter: (name) => short(name, width < NARROW ? 28 : 60),
      },
      xAxis: time_axis(end),
      yAxis: value_axis(name, own || ((value) => scaled_text(value, "").trim()), top === null ? {} : { max: (range) => Math.max(range.max, top), axisLabel: axis_label({ formatter: own, showMaxLabel: false }) }),
      dataZoom: zooms([0], end),
      tooltip: tooltip((items) => (items.length
        ? tip_content(`at ${seconds_text(items[0].axisValue)}`, items.map((item) => [short(item.seriesName, 40), text(item.value[1])]))
        : ""), { trigger: "axis", axisPointer: { type: "line", lineStyle: { color: theme.get("quiet") }, label: { show: false } } }),
      series: lines.map((line, i) => ({
        type: "line",
        name: short(line.name, 80),
        data: line.points,
        step: step || false,
        symbol: line.points.length < 2 ? "circle" : "none",
        symbolSize: 5,
        color: line_colour(i),
        lineStyle: { width: 1.8, type: LINE_KINDS[Math.floor(i / 8) % 3] },
        areaStyle: area ? { opacity: 0.14 } : undefined,
        emphasis: { disabled: true },
        markLine: i === 0 && marks.length ? {
          silent: true,
          symbol: "none",
          data: marks.map((mark) => ({
            yAxis: mark.value,
            lineStyle: { type: "dashed", color: line_colour(mark.line), width: 1.5 },
            label: { formatter: mark.name, position: "insideEndTop", color: theme.get("text"), fontSize: 11, backgroundColor: theme.get("ground"), padding: [1, 4] },
          })),
        } : undefined,
      })),
    }),
  });
}

function progress_panel(report) {
  const section = panel("progress", "Progress", "How much was complete when: a straight line is a steady run, a flat part is a stop.");
  const end = number(report.length);
  const lines = (report.progress || []).map((series) => ({ ...series, points: clean_points(series.points, end) }))
    .filter((series) => series.points.length);
  if (!lines.length) {
    return say_missing(section, report, /\b(progress|steps?)\b/i, "The trace counts no steps, tasks or bytes.");
  }
  const units = [...new Set(lines.map((series) => String(series.unit)))];
  for (const unit of units) {
    const own = lines.filter((series) => String(series.unit) === unit);
    line_chart(section, { label: `Progress in ${unit || "numbers"}: ${own.map((s) => s.name).join(", ")}.`, lines: own, unit, end });
  }
  details_table(section, "Table: progress", ["line", "time#", "value#"], () =>
    lines.flatMap((series) => series.points.map(([time, value]) => [series.name, seconds_text(time), value_text(value, series.unit)])));
}
