// Panel 6: tasks, locations and requests, in the way of Fig. 1 of Gustedt, Jeanvoine et al.:
// locations on the horizontal axis, the order of requests upward.

const MOST_LOCATIONS = 40;
const MOST_TASKS = 60;
const MOST_RANKS = 10;
const COLUMN = [58, 92];
const RANK = 40;
const BOX = 15;

// The tasks and locations that are drawn, and the requests between them.
function overlay_part(graph) {
  const tasks = Math.min((graph.tasks || []).length, MOST_TASKS);
  const locations = Math.min((graph.locations || []).length, MOST_LOCATIONS);
  const requests = (graph.requests || []).filter(([task, location]) => task < tasks && location < locations);
  return { graph, tasks, locations, requests };
}

// What each task does at a moment: the step that is under way or comes next.
function task_states({ graph, tasks }, time) {
  return Array.from({ length: tasks }, (_, i) => {
    const steps = graph.steps?.[i] || [];
    const done = ended_by(steps, time);
    const next = steps[done];
    if (!next) return { done, state: steps.length ? "ended" : "delayed", turn: Infinity };
    const begin = number(next[0], Infinity);
    return { done, state: begin <= time ? "active" : "delayed", turn: begin };
  });
}

// For each request that is drawn, its place above its location: rank 0 is the next to be granted.
// The order is that of the steps that followed. Shared requests in a row are granted together.
function queue_places({ locations, requests }, states) {
  const queues = Array.from({ length: locations }, () => []);
  for (const [task, location, exclusive] of requests) {
    if (states[task].state !== "ended") queues[location].push({ task, location, exclusive });
  }
  for (const queue of queues) {
    queue.sort((a, b) => states[a.task].turn - states[b.task].turn || Number(b.exclusive) - Number(a.exclusive) || a.task - b.task);
    queue.forEach((request, rank) => {
      request.rank = rank;
      request.granted = queue.slice(0, rank + 1).every((one) => rank === 0 || !one.exclusive);
    });
  }
  return queues;
}

function request_shape(request, x, y, state, name) {
  const class_name = `request ${state}`;
  const title = svg("title", null, `${name}: ${request.exclusive ? "exclusive" : "inclusive"} request, ${state}${state === "delayed" && request.granted ? ", this request is granted" : ""}`);
  return request.exclusive
    ? svg("rect", { class: class_name, x: x - BOX / 2, y: y - BOX / 2, width: BOX, height: BOX }, title)
    : svg("circle", { class: class_name, cx: x, cy: y, r: BOX / 2 }, title);
}

function overlay_picture(part, time, room) {
  const { graph, locations } = part;
  const states = task_states(part, time);
  const queues = queue_places(part, states);
  const ranks = Math.min(MOST_RANKS, part.ranks);
  const [left, top] = [46, 20];
  const column = clamp((room - left - 18) / locations, ...COLUMN);
  const width = left + locations * column + 16;
  const floor = top + ranks * RANK;
  const height = floor + 62;
  const x = (location) => left + (location + 0.5) * column;
  const y = (rank) => floor - (rank + 0.5) * RANK;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Requests above their locations." });
  for (let location = 0; location < locations; location += 1) {
    const name = String(graph.locations[location]);
    picture.append(
      svg("line", { class: "axis", x1: x(location), x2: x(location), y1: top, y2: floor }),
      svg("text", { x: x(location), y: floor + 12, "text-anchor": "end", transform: `rotate(-35 ${x(location)} ${floor + 12})` }, short(name, 11), svg("title", null, name)));
  }
  picture.append(svg("line", { class: "axis", x1: left, x2: width - 8, y1: floor, y2: floor }));
  picture.append(svg("text", { class: "dim", x: 12, y: floor - 6, transform: `rotate(-90 12 ${floor - 6})` }, "order of requests →"));
  const of_task = Array.from({ length: part.tasks }, () => []);
  for (const queue of queues) for (const request of queue) if (request.rank < ranks) of_task[request.task].push(request);
  const [lines, boxes] = [[], []];
  of_task.forEach((requests, task) => {
    const state = states[task].state;
    const own = requests.find((request) => request.exclusive) || requests[0];
    for (const request of requests) {
      const [to_x, to_y] = [x(request.location), y(request.rank)];
      boxes.push(request_shape(request, to_x, to_y, state, graph.tasks[task]));
      if (request === own) continue;
      const [from_x, from_y] = [x(own.location), y(own.rank)];
      const bend = Math.abs(request.location - own.location) > 1 ? 14 : 0;
      lines.push(svg("path", {
        class: `join is-${state}`,
        d: `M${from_x} ${from_y}Q${(from_x + to_x) / 2} ${(from_y + to_y) / 2 - bend} ${to_x} ${to_y}`,
      }));
    }
    if (own && own.exclusive && part.tasks <= 24) {
      boxes.push(svg("text", { x: x(own.location) + BOX / 2 + 3, y: y(own.rank) - BOX / 2 + 1, class: state === "active" ? "" : "dim" }, short(graph.tasks[task], 6)));
    }
  });
  queues.forEach((queue, location) => {
    if (queue.length > ranks) boxes.push(svg("text", { class: "dim", x: x(location), y: top - 6, "text-anchor": "middle" }, `+${queue.length - ranks}`));
  });
  picture.append(...lines, ...boxes);
  return picture;
}

function overlay_sizes(part) {
  const { graph } = part;
  const [all_tasks, all_locations] = [number(graph.all?.[0]), number(graph.all?.[1])];
  const drawn = `${plural(part.tasks, "task")} and ${plural(part.locations, "location")}`;
  if (all_tasks > part.tasks || all_locations > part.locations) {
    return `The overlay has ${plural(all_tasks, "task")} and ${plural(all_locations, "location")}; the first ${drawn} are shown.`;
  }
  return `The overlay has ${drawn}.`;
}

function overlay_panel(report) {
  const section = panel("overlay", "Overlay", "The requests of tasks above their locations at a moment: a task is active when all of its requests are first in their queues.");
  const graph = report.overlay;
  if (!graph || !(graph.tasks || []).length || !(graph.locations || []).length) {
    return say_missing(section, report, /\b(overlays?|locations?|requests?)\b/i, "The run has no overlay of tasks and locations.");
  }
  if (!(number(report.length) > 0)) return say_missing(section, report, /\blength\b/i, "The run has no length, so no requests are shown.");
  const part = overlay_part(graph);
  part.ranks = 1;
  const queues = Array.from({ length: part.locations }, () => 0);
  for (const [, location] of part.requests) part.ranks = Math.max(part.ranks, (queues[location] += 1));
  section.append(el("p", { class: "quiet" }, overlay_sizes(part)),
    el("ul", { class: "legend" },
      el("li", null, el("span", { class: "swatch square" }), "exclusive request"),
      el("li", null, el("span", { class: "swatch round" }), "inclusive request"),
      el("li", null, el("span", { class: "swatch square", style: { background: "var(--active)" } }), "of an active task"),
      el("li", null, el("span", { class: "swatch square", style: { background: "var(--delayed)" } }), "of a delayed task")));
  const holder = el("div", { class: "overlay", "data-drawn": "", tabindex: "0", role: "region", "aria-label": "Drawing of the overlay" });
  const say = (time) => {
    const states = task_states(part, time);
    const names = (state) => states.map((one, i) => [one.state, graph.tasks[i]]).filter(([own]) => own === state).map(([, name]) => short(name, 30));
    const list = (all) => (all.length === 0 ? "none" : all.slice(0, 6).join(", ") + (all.length > 6 ? ` and ${all.length - 6} more` : ""));
    return `At ${seconds_text(time)}, active: ${list(names("active"))}; delayed: ${list(names("delayed"))}; ended: ${count_text(names("ended").length)}.`;
  };
  const draw = (time) => {
    const place = holder.scrollLeft;
    holder.replaceChildren(overlay_picture(part, time, (printing ? PRINT_WIDTH : holder.clientWidth) || 800));
    holder.scrollLeft = place;
  };
  const slider = time_slider(section, "Overlay", number(report.length), draw, say);
  section.append(holder);
  slider.update();
  add_drawing(holder, () => draw(slider.time()));
  details_table(section, "Table: requests", ["task", "location", "request", "steps of the task#"], () =>
    (graph.requests || []).map(([task, location, exclusive]) => [graph.tasks[task] ?? task, graph.locations[location] ?? location,
      exclusive ? "exclusive" : "inclusive", (graph.steps?.[task] || []).length]));
}
