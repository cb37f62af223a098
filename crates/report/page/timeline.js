// Panel 2: what each thread did when.

const MOST_ROWS = 40;

// The rectangles of bins, where neighbours that look alike are one.
function bin_rects(report, paints) {
  const line = report.time_line;
  const work = report.activities.findIndex((activity) => activity.class === "work");
  const front = chart_fill(paints[work] || { hue: HUES.work[0], hatch: null });
  const rects = [];
  line.bins.forEach((bins, row) => {
    let open = null;
    bins.forEach(([activity, percent], i) => {
      const part = Math.round(clamp(number(percent), 0, 100) / 10) / 10;
      if (activity < 0 && part === 0) {
        open = null;
        return;
      }
      if (open && open.activity === activity && open.part === part) {
        open.end = (i + 1) * line.bin;
        return;
      }
      const working = report.activities[activity]?.class === "work";
      const paint = paints[activity] || UNKNOWN_PAINT;
      open = {
        row, activity, part,
        begin: i * line.bin,
        end: (i + 1) * line.bin,
        fill: working || activity < 0 ? theme.get("line") : chart_fill(paint),
        front: working ? chart_fill(paint) : front,
      };
      rects.push(open);
    });
  });
  return rects;
}

function span_rects(report, paints) {
  const fills = new Map();
  const fill = (i) => {
    if (!fills.has(i)) fills.set(i, chart_fill(paints[i] || UNKNOWN_PAINT));
    return fills.get(i);
  };
  return report.time_line.spans
    .filter(([, , begin, length]) => number(begin, null) !== null && number(length, -1) >= 0)
    .map(([row, activity, begin, length, label]) => ({
      row, activity, begin, end: begin + length, fill: fill(activity), label: report.time_line.labels?.[label] ?? "",
    }));
}

function timeline_panel(report, paints) {
  const section = panel("timeline", "Time line", "What each thread did when: work is solid, waits are hatched.");
  const line = report.time_line || {};
  const by_bins = !(line.spans || []).length && number(line.bin) > 0 && (line.bins || []).some((bins) => bins.length);
  if (!(line.spans || []).length && !by_bins) {
    return say_missing(section, report, /\b(spans?|events?|time lines?)\b/i, "The trace has no spans of threads.");
  }
  const highest = by_bins ? line.bins.length : greatest(line.spans.map(([row]) => row)) + 1;
  const rows = Math.min(Math.max((report.lanes || []).length, 1), Math.max(highest, 1), 4096);
  const names = Array.from({ length: rows }, (_, i) =>
    (report.lanes[i] ? lane_label(report.lanes[i], report) : `thread ${i}`));
  const shown = Math.min(rows, MOST_ROWS);
  const height = clamp(shown * 22, 66, 640) + 78;
  section.append(legend(timeline_paints(report, paints, by_bins)));
  if (by_bins) {
    section.append(el("p", { class: "hint" },
      `The run has too many spans to show each. A bar is ${seconds_text(line.bin)} long: its pattern is the activity that took most of it, its solid height the part that was work.`));
  }
  const end = number(report.length);
  const share = by_bins ? 0.84 : 0.74;
  let lanes = [];
  add_chart(section, {
    label: `Time line of ${plural(rows, "thread")} over ${seconds_text(end)}.`,
    height,
    zoom: true,
    build: (width) => {
      lanes = by_row(by_bins ? bin_rects(report, paints) : span_rects(report, paints), rows);
      const many = rows > MOST_ROWS;
      const dataZoom = zooms([0], end);
      if (many) {
        dataZoom.push({
          id: "rows", type: "slider", yAxisIndex: 0, right: 2, width: 14, startValue: 0, endValue: MOST_ROWS - 1,
          showDetail: false, brushSelect: false, zoomLock: true, borderColor: theme.get("line"), filterMode: "none",
        });
      }
      return {
        grid: { left: label_room(names, width), right: many ? 28 : 12, top: 6, bottom: 66 },
        xAxis: time_axis(end),
        yAxis: lane_axis(names, width, (height - 78) / shown),
        dataZoom,
        series: [lane_series(lanes, share)],
      };
    },
    ready: (chart) => lane_tip(chart, () => lanes, share, (rect) => timeline_tip(report, names, rect)),
  });
  timeline_table(section, report, names, by_bins);
}

function timeline_paints(report, paints, by_bins) {
  const line = report.time_line;
  const used = new Set();
  if (by_bins) for (const bins of line.bins) for (const [i] of bins) used.add(i);
  else for (const [, i] of line.spans) used.add(i);
  used.delete(-1);
  return [...used].sort((a, b) => a - b).slice(0, 24).map((i) => [paints[i] || UNKNOWN_PAINT, activity_name(report, i)]);
}

function timeline_tip(report, names, rect) {
  const pairs = [["thread", short(names[rect.row], 60)]];
  if (rect.label) pairs.push(["object", short(rect.label, 60)]);
  pairs.push(["begin", seconds_text(rect.begin)], ["length", seconds_text(rect.end - rect.begin)]);
  if (rect.part !== undefined) pairs.push(["work", `about ${percent_text(rect.part)}`]);
  return tip_content(rect.activity < 0 ? "between spans" : activity_name(report, rect.activity), pairs);
}

function timeline_table(section, report, names, by_bins) {
  if (by_bins) {
    details_table(section, "Table: bins", ["thread", "begin#", "mostly", "work#"], () =>
      report.time_line.bins.flatMap((bins, row) => bins.map(([activity, percent], i) =>
        [names[row] ?? row, seconds_text(i * report.time_line.bin), activity < 0 ? "between spans" : activity_name(report, activity), `${percent} %`])));
    return;
  }
  details_table(section, "Table: spans", ["thread", "activity", "object", "begin#", "length#"], () =>
    report.time_line.spans.map(([row, activity, begin, length, label]) =>
      [names[row] ?? row, activity_name(report, activity), report.time_line.labels?.[label] ?? "", seconds_text(begin), seconds_text(length)]));
}
