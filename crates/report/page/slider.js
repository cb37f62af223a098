// A slider over the time of the run, with a button that plays it.

const STEPS = 1000;
const PLAY_MS = 12000;

// Calls `show(time)` at each change. `say(time)` returns the sentence for screen readers, which is
// announced when the slider rests.
function time_slider(parent, name, end, show, say) {
  const range = el("input", { type: "range", min: 0, max: STEPS, step: 1, value: Math.round(STEPS * 0.4), "aria-label": `${name}: time` });
  const output = el("output");
  const live = el("p", { class: "live", "aria-live": "polite" });
  const button = el("button", { type: "button" }, "Play");
  let timer = null;
  let frame = null;

  const time = () => (Number(range.value) / STEPS) * end;
  const update = () => {
    const text = seconds_text(time());
    output.textContent = `at ${text}`;
    range.setAttribute("aria-valuetext", text);
    show(time());
    if (frame !== null) return;
    clearTimeout(timer);
    timer = setTimeout(() => (live.textContent = say(time())), 150);
  };
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = null;
    button.textContent = "Play";
    update();
  };
  button.addEventListener("click", () => {
    if (frame !== null) return stop();
    if (Number(range.value) >= STEPS) range.value = 0;
    const [since, from] = [performance.now(), Number(range.value)];
    const step = (now) => {
      range.value = Math.min(STEPS, from + ((now - since) / PLAY_MS) * STEPS);
      if (Number(range.value) >= STEPS) return stop();
      frame = requestAnimationFrame(step);
      update();
    };
    button.textContent = "Pause";
    frame = requestAnimationFrame(step);
  });
  range.addEventListener("input", () => (frame !== null ? stop() : update()));
  live.textContent = say(time());
  parent.append(el("div", { class: "slider" }, button, range, output), live);
  return { update, time };
}

// The number of pairs of a list, sorted by its ends, whose end is at or before the time.
function ended_by(steps, time) {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (number(steps[middle][1], Infinity) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
