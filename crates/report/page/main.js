// The page: its panels, the navigation, the theme, the keys, and the print.

let printing = false;
const PRINT_WIDTH = 690;

function run_words(report) {
  return [date_text(report.began), seconds_text(report.length), (report.lanes || []).length ? plural(report.lanes.length, "thread") : null]
    .filter(Boolean).join(" · ");
}

function report_page(report) {
  const paints = paints_of(report.activities);
  document.getElementById("run").textContent = run_words(report);
  summary_panel(report, paints);
  timeline_panel(report, paints);
  grids_panel(report);
  progress_panel(report);
  wave_panel(report);
  overlay_panel(report);
  disk_panel(report);
  messages_panel(report, paints);
  farm_panel(report);
}

function start_navigation() {
  const list = document.getElementById("nav-list");
  const links = panels.map(({ id, title, empty }, i) => {
    const link = el("a", { href: `#${id}`, class: empty ? "empty" : null }, el("span", { class: "key", "aria-hidden": "true" }, i + 1), title);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      go_to(i);
    });
    list.append(el("li", null, link));
    return link;
  });
  const seen = () => {
    const line = document.getElementById("nav").getBoundingClientRect().bottom + innerHeight / 4;
    let now = 0;
    panels.forEach(({ section }, i) => {
      if (section.getBoundingClientRect().top <= line) now = i;
    });
    links.forEach((link, i) => {
      if (i !== now) link.removeAttribute("aria-current");
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "true");
        list.scrollLeft = link.offsetLeft - list.clientWidth / 2;
      }
    });
  };
  let waiting = false;
  addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      seen();
    });
  }, { passive: true });
  seen();
}

function go_to(i) {
  if (!panels[i]) return;
  const { section, id } = panels[i];
  section.scrollIntoView();
  section.focus({ preventScroll: true });
  try {
    history.replaceState(null, "", `#${id}`);
  } catch {
    // A page of an archive or of a frame may not change its address.
  }
}

function set_theme(dark) {
  theme.dark = dark;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  button.textContent = dark ? "Light" : "Dark";
  button.title = dark ? "Switch to light" : "Switch to dark";
}

function start_theme() {
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => {
    set_theme(chosen ?? prefers.matches);
    redraw_all();
  };
  prefers.addEventListener("change", () => printing || apply());
  document.getElementById("theme").addEventListener("click", () => {
    chosen = !theme.dark;
    apply();
  });
}

function start_keys() {
  const dialog = document.getElementById("keys");
  const toggle = () => (dialog.open ? dialog.close() : dialog.showModal());
  document.getElementById("keys-button").addEventListener("click", toggle);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("select, input:not([type=range])")) return;
    if (event.key === "?") toggle();
    else if (dialog.open) return;
    else if (event.key === "t") document.getElementById("theme").click();
    else if (/^[1-9]$/.test(event.key)) go_to(Number(event.key) - 1);
    else return;
    event.preventDefault();
  });
}

// In print: light, all tables open, charts at the width of the page.
function start_print() {
  let before = null;
  const enter = () => {
    if (printing) return;
    printing = true;
    const all = [...document.querySelectorAll("details")];
    before = { dark: theme.dark, closed: all.filter((details) => !details.open) };
    for (const make of late_tables) make();
    for (const details of all) details.open = true;
    set_theme(false);
    for (const apply of painted_elements) apply();
    for (const entry of charts) {
      entry.chart.resize({ width: PRINT_WIDTH, height: entry.holder.clientHeight });
      redraw(entry, PRINT_WIDTH);
    }
    for (const { draw } of drawings) draw(PRINT_WIDTH);
  };
  const leave = () => {
    if (!printing) return;
    printing = false;
    for (const details of before.closed) details.open = false;
    set_theme(before.dark);
    for (const entry of charts) entry.chart.resize({ width: entry.holder.clientWidth, height: entry.holder.clientHeight });
    redraw_all();
  };
  addEventListener("beforeprint", enter);
  addEventListener("afterprint", leave);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? enter() : leave()));
}

function start() {
  const [report, other] = [report_of("report"), report_of("other")];
  set_theme(matchMedia("(prefers-color-scheme: dark)").matches);
  if (!report) {
    document.getElementById("main").append(el("p", { class: "none" }, "The data of this page cannot be read: the file is damaged."));
    return;
  }
  if (other) compare_page(report, other);
  else report_page(report);
  start_navigation();
  start_theme();
  start_charts();
  start_keys();
  start_print();
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

start();
