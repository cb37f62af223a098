// Panel 5: the wave over the matrix of blocks.

const MOST_BLOCKS = 250000;

function wave_panel(report) {
  const section = panel("wave", "Wave", "How often each block of the matrix was complete at a moment, and which blocks are worked on.");
  const wave = report.wave;
  const [rows, cols] = [number(wave?.rows), number(wave?.cols)];
  if (!wave || !(wave.steps || []).length || rows < 1 || cols < 1) {
    return say_missing(section, report, /\b(blocks?|wave|matrix)\b/i, "The run has no sweep over a matrix of blocks.");
  }
  if (rows * cols > MOST_BLOCKS) {
    return say_missing(section, report, /\bblocks\b/i, `The matrix of ${count_text(rows)} by ${count_text(cols)} blocks is too large to be drawn.`);
  }
  const [unit, units] = wave.unit === "pass" ? ["pass", "passes"] : ["iteration", "iterations"];
  const end = number(report.length);
  if (!(end > 0)) return say_missing(section, report, /\blength\b/i, "The run has no length, so no wave is shown.");
  const steps = Array.from({ length: rows * cols }, (_, i) => wave.steps[i] || []);
  const total = Math.max(1, greatest(steps.map((list) => list.length)));
  const state = (list, time) => {
    const done = ended_by(list, time);
    return { done, active: done < list.length && number(list[done][0], Infinity) <= time };
  };

  section.append(el("div", { class: "scale", "aria-hidden": "true" }, CIVIDIS.map((colour) => el("div", { style: { background: css_colour(colour) } }))),
    el("div", { class: "scale-ends" }, el("span", null, `1 ${unit} complete`), el("span", null, `all ${count_text(total)}`)),
    el("ul", { class: "legend" },
      el("li", null, el("span", { class: "swatch", style: { background: "var(--faint)" } }), "none complete"),
      el("li", null, el("span", { class: "swatch", style: { background: "none", border: "2.5px solid #d55e00" } }), "is worked on")));

  const canvas = el("canvas", { class: "wave", role: "img", "aria-label": `Matrix of ${plural(rows, "row")} and ${plural(cols, "column")} of blocks.` });
  const holder = el("div", { class: "chart" }, canvas);
  let layout = null;

  const draw = (width) => {
    const cell_width = Math.min(width / cols, Math.max(6, 440 / rows), 40);
    const cell_height = rows === 1 ? 32 : Math.min(Math.max(cell_width, 3), Math.max(6, 440 / rows));
    layout = { cell_width, cell_height };
    const ratio = Math.max(2, devicePixelRatio || 1);
    const [w, h] = [Math.ceil(cols * cell_width), Math.ceil(rows * cell_height)];
    canvas.width = Math.min(w * ratio, 8000);
    canvas.height = Math.min(h * ratio, 8000);
    canvas.style.width = `${w}px`;
    canvas.style.height = `${h}px`;
    const context = canvas.getContext("2d");
    context.scale(canvas.width / w, canvas.height / h);
    const gap = Math.min(cell_width, cell_height) >= 6 ? 1 : 0;
    const active = [];
    const faint = theme.get("faint");
    steps.forEach((list, i) => {
      const now = state(list, slider.time());
      const [x, y] = [(i % cols) * cell_width, Math.floor(i / cols) * cell_height];
      context.fillStyle = now.done ? css_colour(level_of(CIVIDIS, (now.done - 1) / Math.max(1, total - 1))) : faint;
      context.fillRect(x, y, cell_width - gap, cell_height - gap);
      if (now.active) active.push([x, y]);
    });
    context.strokeStyle = context.fillStyle = "#d55e00";
    context.lineWidth = 2.5;
    for (const [x, y] of active) {
      if (gap) context.strokeRect(x + 1.25, y + 1.25, cell_width - gap - 2.5, cell_height - gap - 2.5);
      else context.fillRect(x, y, Math.max(cell_width, 1.5), Math.max(cell_height, 1.5));
    }
  };
  const say = (time) => {
    const states = steps.map((list) => state(list, time));
    const done = states.map((one) => one.done);
    const active = states.filter((one) => one.active).length;
    const [low, high] = [least(done), greatest(done)];
    const range = low === high ? `every block has completed ${plural(low, unit, units)}` : `blocks have completed ${low} to ${high} of ${plural(total, unit, units)}`;
    return `At ${seconds_text(time)}, ${range}; ${active === 1 ? "1 block is" : `${count_text(active)} blocks are`} worked on.`;
  };
  const slider = time_slider(section, "Wave", end, () => layout && draw(holder.clientWidth), say);
  section.append(holder);
  add_drawing(holder, draw);
  slider.update();

  canvas.addEventListener("pointermove", (event) => {
    if (!layout) return;
    const [col, row] = [Math.floor(event.offsetX / layout.cell_width), Math.floor(event.offsetY / layout.cell_height)];
    const list = col < cols && row < rows ? steps[row * cols + col] : null;
    if (!list) return tip.hide();
    const now = state(list, slider.time());
    tip.show(event, tip_content(`block at row ${row}, column ${col}`, [
      ["completed", `${now.done} of ${list.length}`],
      [now.active ? "works since" : "next begins", list[now.done] ? seconds_text(list[now.done][0]) : NONE],
    ]));
  });
  canvas.addEventListener("pointerleave", () => tip.hide());

  details_table(section, "Table: blocks", ["row#", "column#", "steps#", "first begins#", "last ends#", "time of work#"], () =>
    steps.map((list, i) => [Math.floor(i / cols), i % cols, list.length,
      list.length ? seconds_text(list[0][0]) : NONE, list.length ? seconds_text(list.at(-1)[1]) : NONE,
      seconds_text(list.reduce((sum, [begin, end]) => sum + number(end) - number(begin), 0))]));
}
