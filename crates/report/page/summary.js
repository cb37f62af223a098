// Panel 1: what bounds the run.

const KINDS = {
  "disk": "disk",
  "placement": "placement",
  "straggler": "straggler",
  "order": "order of the tasks",
  "messages": "messages",
  "lock": "lock",
  "imbalance": "imbalance",
  "memory": "memory",
  "small-tasks": "small tasks",
  "farm-tail": "tail of the pool",
  "farm-manager": "manager of the pool",
  "busy-machine": "busy machine",
  "oversubscribed": "too many threads",
  "limit": "limit of processor time",
  "stopped": "process that stood still",
  "stuck": "stuck",
};

function cause_cards(summary) {
  const causes = summary.causes || [];
  if (!causes.length) return null;
  return el("ol", { class: "causes" }, causes.map((cause) =>
    el("li", { class: "cause" },
      el("div", { class: "cause-head" },
        el("span", { class: "cause-kind" }, KINDS[cause.kind] || cause.kind),
        el("span", { class: "cause-cost" }, `${percent_text(cause.cost)} of the run's time`)),
      el("div", { class: "cost-bar", "aria-hidden": "true" },
        el("span", { style: { width: `${clamp(number(cause.cost), 0, 1) * 100}%` } })),
      el("p", { class: "cause-what" }, cause.what),
      el("p", null, cause.evidence),
      cause.advice ? el("p", { class: "cause-advice" }, el("span", { class: "quiet" }, "Advice: "), cause.advice) : null)));
}

// The parts of a bar as [paint, words, part], from shares as [activity, amount] and the whole.
function bar_parts(report, paints, shares, whole) {
  const order = { work: 0, device: 1, wait: 2, off: 3, other: 4 };
  const class_of = (i) => String(report.activities?.[i]?.class);
  return (shares || [])
    .map(([i, amount]) => ({ i, amount: number(amount) }))
    .filter(({ amount }) => amount > 0)
    .sort((a, b) => (order[class_of(a.i)] ?? 5) - (order[class_of(b.i)] ?? 5) || a.i - b.i)
    .map(({ i, amount }) => ({
      paint: paints[i] || UNKNOWN_PAINT,
      name: activity_name(report, i),
      kind: class_of(i),
      part: whole > 0 ? amount / whole : 0,
    }));
}

function activity_name(report, i) {
  return report.activities?.[i]?.name ?? `activity ${i}`;
}

function share_bar(parts) {
  const total = Math.max(1, parts.reduce((sum, { part }) => sum + part, 0));
  const title = parts.map(({ name, part }) => `${name}: ${percent_text(part)}`).join("\n");
  return el("div", { class: "bar", title }, parts.map(({ paint, part }) =>
    painted(el("span", { style: { width: `${(part / total) * 100}%` } }), paint)));
}

// The bar of the whole run: its work, threads without a processor, and its waits.
function whole_parts(report, paints) {
  const summary = report.summary || {};
  const part = (paint, name, kind, part) => ({ paint, name, kind, part: number(part) });
  const first = [
    part({ hue: HUES.work[0], hatch: null }, "work", "work", summary.work),
    part(QUEUED_PAINT, QUEUED_NAME, "wait", summary.queued),
  ];
  return [...first.filter(({ part }) => part > 0), ...bar_parts(report, paints, summary.waits, 1)];
}

function lane_label(lane, report) {
  const hosts = new Set((report.lanes || []).map((one) => one.host));
  return plain(hosts.size > 1 ? `${lane.name}, ${lane.host}` : lane.name);
}

function share_table(report, paints) {
  const lanes = report.lanes || [];
  const head = el("tr", null,
    el("th", { class: "lane", scope: "col" }, "thread"),
    el("th", { class: "figure", scope: "col" }, "work"),
    el("th", { scope: "col" }, "parts of its time"),
    el("th", { class: "figure wide", scope: "col" }, "length"));
  const row = (name, parts, work, length, whole) => el("tr", { class: whole ? "whole" : null },
    el("th", { class: "lane", scope: "row", title: name }, name),
    el("td", { class: "figure" }, percent_text(work)),
    el("td", null, share_bar(parts)),
    el("td", { class: "figure wide" }, length));
  const whole = whole_parts(report, paints);
  const rows = lanes.map((lane) => {
    const length = Math.max(0, number(lane.to) - number(lane.from));
    const parts = bar_parts(report, paints, lane.shares, length);
    const work = parts.filter(({ kind }) => kind === "work").reduce((sum, { part }) => sum + part, 0);
    return row(lane_label(lane, report), parts, work, seconds_text(length), false);
  });
  return el("div", { class: "shares", tabindex: "0", role: "region", "aria-label": "Parts of the threads' time", "data-drawn": "" },
    el("table", null,
      el("thead", null, head),
      el("tbody", null, row("whole run", whole, number(report.summary?.work), seconds_text(report.length), true), rows)));
}

function used_paints(report, paints) {
  const used = new Set();
  for (const lane of report.lanes || []) for (const [i, amount] of lane.shares || []) if (number(amount) > 0) used.add(i);
  for (const [i] of report.summary?.waits || []) used.add(i);
  const names = [...used].sort((a, b) => a - b).map((i) => [paints[i] || UNKNOWN_PAINT, activity_name(report, i)]);
  return number(report.summary?.queued) > 0 ? [...names, [QUEUED_PAINT, QUEUED_NAME]] : names;
}

function summary_panel(report, paints) {
  const summary = report.summary || {};
  const section = panel("summary", "Summary", "What bounds the run, how the threads spent their time, and what to change.");
  section.append(el("p", { class: "headline" }, summary.headline || "The report names no cause."));
  if ((report.missing || []).length) {
    section.append(el("ul", { class: "notices", "aria-label": "What the trace lacks" },
      report.missing.map((notice) => el("li", null, notice))));
  }
  const cards = cause_cards(summary);
  if (cards) section.append(cards);
  section.append(el("h3", null, "Work and waits"));
  if (whole_parts(report, paints).length) section.append(legend(used_paints(report, paints)), share_table(report, paints));
  else section.append(el("p", { class: "none" }, "The trace has no time of threads."));
  details_table(section, "Table: seconds of each thread by activity",
    ["thread", "host", "process#", "activity", "time#", "part#"],
    () => (report.lanes || []).flatMap((lane) => {
      const length = number(lane.to) - number(lane.from);
      return (lane.shares || []).map(([i, amount]) => [lane.name, lane.host, lane.pid, activity_name(report, i),
        seconds_text(amount), length > 0 ? percent_text(number(amount) / length) : NONE]);
    }));
  if ((report.lanes || []).some((lane) => lane.processor)) {
    details_table(section, "Table: processor time of each thread",
      ["thread", "host", "on a processor#", "ready without a processor#"],
      () => report.lanes.filter((lane) => lane.processor)
        .map((lane) => [lane.name, lane.host, seconds_text(lane.processor[0]), seconds_text(lane.processor[1])]));
  }
  if ((report.lanes || []).some((lane) => (lane.open || []).length)) {
    section.append(el("h3", null, "Not ended"));
    section.append(table_scroll("What has not ended", ["thread", "activity", "object", "since#"],
      report.lanes.flatMap((lane) => (lane.open || []).map(([i, object, since]) =>
        [lane_label(lane, report), activity_name(report, i), object, seconds_text(since)]))));
  }
  if ((report.facts || []).length) section.append(el("h3", null, "Facts"), facts_list(report.facts));
}

// A table that is always open.
function table_scroll(title, columns, rows) {
  const heads = columns.map((name) => ({ name: name.replace(/#$/, ""), figure: name.endsWith("#") }));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table_of(heads, rows));
}
