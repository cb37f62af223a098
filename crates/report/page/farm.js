// Panel 9: pools of workers.

const MOST_BINS = 30;

function farm_panel(report) {
  const section = panel("farm", "Farm", "When each worker of the pool ran a task, how many tasks ran at a time, and how long tasks are.");
  const farm = report.farm;
  const tasks = (farm?.tasks || []).filter(([, , begin, end]) => number(begin, null) !== null && number(end, -1) >= begin);
  if (!farm || !tasks.length) return say_missing(section, report, /\b(pools?|workers?|farm)\b/i, "The run has no pool of workers.");
  const workers = Math.min(Math.max((farm.workers || []).length, 1), 512);
  const names = Array.from({ length: workers }, (_, i) => farm.workers[i] ?? `worker ${i}`);
  const end = number(report.length);
  const [low, median, mean, high] = farm.lengths || [];
  const count = (farm.tasks || []).length;
  section.append(el("p", null, `${plural(count, "task")}. Length: least ${seconds_text(low)}, median ${seconds_text(median)}, mean ${seconds_text(mean)}, greatest ${seconds_text(high)}.`));
  section.append(el("h3", null, "Workers"));
  const height = clamp(workers * 22, 66, 640) + 72;
  let lanes = [];
  add_chart(section, {
    label: `Time lines of ${plural(workers, "worker")}.`,
    height,
    zoom: true,
    build: (width) => {
      const colours = theme.dark ? ["#4aa3dc", "#1f6fa8"] : ["#0072b2", "#56a5d3"];
      lanes = by_row(tasks.map(([row, task, begin, until]) => ({ row, task, begin, end: until })), workers);
      for (const lane of lanes) lane.forEach((rect, i) => (rect.fill = colours[i % 2]));
      return {
        grid: { left: label_room(names, width), right: 14, top: 6, bottom: 66 },
        xAxis: time_axis(end),
        yAxis: lane_axis(names, width, (height - 72) / workers),
        dataZoom: zooms([0], end),
        series: [lane_series(lanes, 0.74)],
      };
    },
    ready: (chart) => lane_tip(chart, () => lanes, 0.74, (rect) => tip_content(`task ${count_text(rect.task)}`,
      [["worker", short(names[rect.row], 40)], ["begin", seconds_text(rect.begin)], ["length", seconds_text(rect.end - rect.begin)]])),
  });
  const running = clean_points(farm.running, end);
  if (running.length) {
    section.append(el("h3", null, "Running tasks"));
    line_chart(section, { label: "Tasks that run, over time.", lines: [{ name: "tasks that run", points: running }], unit: "tasks", end, height: 190, area: true });
  }
  length_chart(section, tasks);
  details_table(section, "Table: tasks", ["task#", "worker", "begin#", "length#"], () =>
    tasks.map(([worker, task, begin, until]) => [count_text(task), names[worker] ?? worker, seconds_text(begin), seconds_text(until - begin)]));
}

// The least of 1, 2, 5, 10, 20, ... times a power of ten that is at least this.
function nice_step(least_step) {
  const power = 10 ** Math.floor(Math.log10(least_step));
  return power * ([1, 2, 5].find((factor) => factor * power >= least_step * 0.999) ?? 10);
}

// A histogram of the lengths of tasks.
function length_chart(section, tasks) {
  const lengths = tasks.map(([, , begin, end]) => end - begin);
  const most = greatest(lengths);
  if (!(most > 0 && most < 1e15)) return;
  const unit = time_unit(most);
  const step = nice_step(most / MOST_BINS / unit.scale) * unit.scale;
  const count = clamp(Math.ceil(most / step + 1e-9), 1, MOST_BINS + 1);
  const bins = new Array(count).fill(0);
  for (const length of lengths) bins[Math.min(count - 1, Math.floor(length / step))] += 1;
  section.append(el("h3", null, "Lengths of tasks"));
  add_chart(section, {
    label: `Histogram of the lengths of tasks, up to ${seconds_text(most)}.`,
    height: 210,
    build: () => ({
      grid: { left: 58, right: 14, top: 28, bottom: 40 },
      xAxis: {
        type: "category", data: bins.map((_, i) => axis_number(Number(((i * step) / unit.scale).toPrecision(4)))),
        axisLine: axis_line(), axisTick: { show: false }, axisLabel: axis_label(),
        name: `length from (${unit.name})`, nameLocation: "middle", nameGap: 24, nameTextStyle: { color: theme.get("quiet"), fontSize: 11 },
      },
      yAxis: value_axis("tasks", axis_number, { minInterval: 1 }),
      tooltip: tooltip(({ dataIndex, value }) => tip_content(`${seconds_text(dataIndex * step)} to ${seconds_text((dataIndex + 1) * step)}`, [["tasks", count_text(value)]])),
      series: [{ type: "bar", data: bins, barCategoryGap: 1, itemStyle: { color: line_colour(0) }, emphasis: { disabled: true } }],
    }),
  });
}
