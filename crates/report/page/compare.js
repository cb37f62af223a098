// The page that compares two runs.

function factor_text(factor) {
  return factor >= 10 ? digits(factor) : factor.toFixed(2);
}

// Seconds of all threads by the name of the activity.
function seconds_by_activity(report) {
  const seconds = new Map();
  for (const lane of report.lanes || []) {
    for (const [i, amount] of lane.shares || []) {
      const name = activity_name(report, i);
      seconds.set(name, (seconds.get(name) || 0) + number(amount));
    }
  }
  return seconds;
}

// Which run is faster by which factor, and the activity whose time differs most.
function compare_headline(a, b) {
  const [length_a, length_b] = [number(a.length), number(b.length)];
  if (!(length_a > 0 && length_b > 0)) return "One of the runs has no length, so they are not compared.";
  const [seconds_a, seconds_b] = [seconds_by_activity(a), seconds_by_activity(b)];
  const threads = Math.max(1, ((a.lanes || []).length + (b.lanes || []).length) / 2);
  const slower_minus_faster = length_a >= length_b ? 1 : -1;
  let [name, most] = [null, 0];
  for (const key of new Set([...seconds_a.keys(), ...seconds_b.keys()])) {
    const difference = slower_minus_faster * ((seconds_a.get(key) || 0) - (seconds_b.get(key) || 0));
    if (difference > most) [name, most] = [key, difference];
  }
  const factor = Math.max(length_a, length_b) / Math.min(length_a, length_b);
  const first = factor < 1.005
    ? `A and B are equally long: ${seconds_text(length_a)} and ${seconds_text(length_b)}.`
    : `${length_a < length_b ? "A" : "B"} is ${factor_text(factor)} times as fast: ${seconds_text(Math.min(length_a, length_b))} instead of ${seconds_text(Math.max(length_a, length_b))}.`;
  if (!name || factor < 1.005) return first;
  return `${first} Most of the difference is in “${name}”: ${seconds_text(most / threads)} less in each thread.`;
}

function compare_facts(a, b) {
  const [map_a, map_b] = [new Map(a.facts || []), new Map(b.facts || [])];
  return [...new Set([...map_a.keys(), ...map_b.keys()])]
    .filter((name) => map_a.get(name) !== map_b.get(name))
    .map((name) => [name, map_a.get(name) ?? NONE, map_b.get(name) ?? NONE]);
}

function compare_summary(a, b) {
  const section = panel("summary", "Summary", "Which run is faster, and what bounds each of them.");
  section.append(el("p", { class: "headline" }, compare_headline(a, b)));
  section.append(el("div", { class: "two" }, [["A", a], ["B", b]].map(([letter, report]) =>
    el("div", null,
      el("h3", null, `${letter}: ${report.title || "a run without a name"}`),
      el("p", { class: "quiet", style: { marginBottom: "0.5rem" } }, run_words(report)),
      el("p", { class: "headline" }, report.summary?.headline || "The report names no cause."),
      (report.missing || []).length ? el("ul", { class: "notices" }, report.missing.map((notice) => el("li", null, notice))) : null,
      cause_cards(report.summary || {})))));
  const rows = compare_facts(a, b);
  section.append(el("h3", null, "Facts that differ"));
  section.append(rows.length ? table_scroll("Facts that differ", ["fact", "A", "B"], rows) : el("p", { class: "quiet" }, "None."));
}

function compare_shares(a, b) {
  const section = panel("shares", "Shares", "How the threads of both runs spent their time, all threads together.");
  // One list of activities, so that the same activity looks the same in both bars.
  const activities = [...(a.activities || [])];
  for (const one of b.activities || []) if (!activities.some((other) => other.name === one.name)) activities.push(one);
  const paints = paints_of(activities);
  const both = [a, b].map((report) => {
    const index = (i) => activities.findIndex((activity) => activity.name === activity_name(report, i));
    const lanes = (report.lanes || []).map((lane) => ({ ...lane, shares: (lane.shares || []).map(([i, amount]) => [index(i), amount]) }));
    const waits = (report.summary?.waits || []).map(([i, part]) => [index(i), part]);
    return { ...report, activities, lanes, summary: { ...report.summary, waits } };
  });
  const used = new Map(both.flatMap((report) => used_paints(report, paints)).map(([paint, name]) => [name, paint]));
  section.append(legend([...used].map(([name, paint]) => [paint, name])));
  const parts = both.map((report) => whole_parts(report, paints));
  if (!parts.flat().length) return say_missing(section, a, /\bthreads?\b/i, "Neither trace has time of threads.");
  section.append(el("div", { class: "shares", "data-drawn": "" }, el("table", null, el("tbody", null, parts.map((list, i) =>
    el("tr", null,
      el("th", { class: "lane", scope: "row", style: { width: "2.5rem" } }, "AB"[i]),
      el("td", { class: "figure" }, percent_text(list.filter(({ kind }) => kind === "work").reduce((sum, { part }) => sum + part, 0))),
      el("td", null, share_bar(list))))))));
  const names = [...new Set(parts.flat().map(({ name }) => name))];
  const of = (list, name) => list.find((part) => part.name === name)?.part ?? 0;
  details_table(section, "Table: shares", ["activity", "A#", "B#"], () =>
    names.map((name) => [name, percent_text(of(parts[0], name)), percent_text(of(parts[1], name))]));
}

function compare_progress(a, b) {
  const section = panel("progress", "Progress", "How much was complete when, in both runs, from their beginnings.");
  const end = Math.max(number(a.length), number(b.length));
  const lines = [["A", a], ["B", b]].flatMap(([letter, report]) => (report.progress || []).map((series) => ({
    name: `${letter}: ${series.name}`, unit: String(series.unit), points: clean_points(series.points, number(report.length)),
  }))).filter(({ points }) => points.length);
  if (!lines.length) return say_missing(section, a, /\bprogress\b/i, "Neither trace counts steps, tasks or bytes.");
  for (const unit of new Set(lines.map((line) => line.unit))) {
    const own = lines.filter((line) => line.unit === unit);
    line_chart(section, { label: `Progress of both runs in ${unit || "numbers"}.`, lines: own, unit, end });
  }
  details_table(section, "Table: progress", ["line", "time#", "value#"], () =>
    lines.flatMap(({ name, unit, points }) => points.map(([time, value]) => [name, seconds_text(time), value_text(value, unit)])));
}

function compare_grids(a, b) {
  const section = panel("grids", "Grids", "Waiting per time of compute, overall and by phase, for each kind of task.");
  const names = [...new Set([...(a.grids || []), ...(b.grids || [])].map((grid) => grid.name))];
  if (!names.length) return say_missing(section, a, /\bsteps\b/i, "No task of either run repeats iteration by iteration.");
  const text = (ratio) => (number(ratio, null) === null ? NONE : digits(ratio));
  section.append(table_scroll("Ratios of grids", ["task", "run", "overall#", ...PHASES.map((phase) => `${phase}#`)],
    names.flatMap((name) => [["A", a], ["B", b]].flatMap(([letter, report]) =>
      (report.grids || []).filter((grid) => grid.name === name)
        .map((grid) => [name, letter, text(grid.ratio), ...PHASES.map((_, i) => text(grid.ratios?.[i]))])))));
}

function compare_page(a, b) {
  document.getElementById("run").textContent = `A: ${run_words(a)} · B: ${run_words(b)}`;
  compare_summary(a, b);
  compare_shares(a, b);
  compare_progress(a, b);
  compare_grids(a, b);
}
