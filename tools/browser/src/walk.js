// Walks through a page of a report and returns what is wrong with it. Functions for browser.rs.

window.walk = (() => {
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));

  // Whether a canvas has two points of different colours. The points are those of a copy: reading
  // the canvas itself would slow its drawing down, of which the browser warns.
  const copy = new OffscreenCanvas(400, 400).getContext("2d", { willReadFrequently: true });
  function canvas_painted(canvas) {
    if (!canvas.width || !canvas.height) return false;
    copy.clearRect(0, 0, 400, 400);
    copy.drawImage(canvas, 0, 0, 400, 400);
    const { data } = copy.getImageData(0, 0, 400, 400);
    const words = new Uint32Array(data.buffer);
    return words.some((word) => word !== words[0]);
  }

  function painted(holder) {
    const box = holder.getBoundingClientRect();
    if (box.width < 20 || box.height < 10) return false;
    const canvases = [...holder.querySelectorAll("canvas")];
    if (canvases.length) return canvases.some(canvas_painted);
    return [...holder.querySelectorAll("svg *, .bar > *")].some((part) => {
      const { width, height } = part.getBoundingClientRect();
      return width > 0.5 && height > 0.5;
    });
  }

  const name_of = (element) => `${element.closest("section")?.id}: ${element.getAttribute("aria-label") || element.className}`;
  const holders = (within = document) => [...within.querySelectorAll(".chart, [data-drawn]")];

  function blank(when) {
    return holders().filter((holder) => !painted(holder)).map((holder) => `${name_of(holder)} is blank ${when}`);
  }

  function too_wide(when) {
    const faults = [];
    const all = document.scrollingElement;
    if (all.scrollWidth > innerWidth) {
      faults.push(`the page is ${all.scrollWidth} wide ${when}, the window ${innerWidth}`);
      for (const element of document.querySelectorAll("main *")) {
        if (element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll, .overlay, .shares")) {
          faults.push(`  ${element.tagName} .${element.className} of ${element.closest("section")?.id}`);
          break;
        }
      }
    }
    return faults;
  }

  const key = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const click = (id) => document.getElementById(id)?.click();

  async function navigate(faults) {
    for (const link of document.querySelectorAll("#nav a")) {
      link.click();
      await frames();
      const section = document.querySelector(link.getAttribute("href"));
      if (!section) faults.push(`${link.textContent} leads nowhere`);
      else if (document.activeElement !== section) faults.push(`${section.id} has no focus after a click on its link`);
      else if (!holders(section).length && !section.querySelector(".none, table, .headline")) faults.push(`${section.id} shows nothing`);
    }
    const count = document.querySelectorAll("section.panel").length;
    for (let i = 1; i <= Math.min(9, count); i += 1) {
      key(document.body, String(i));
      if (document.activeElement !== document.querySelectorAll("section.panel")[i - 1]) faults.push(`the key ${i} leads elsewhere`);
    }
  }

  // Each slider shows another time at each of its ends, and a sentence for screen readers.
  async function slide(faults) {
    for (const range of document.querySelectorAll("input[type=range]")) {
      const live = range.closest("section").querySelector(".live");
      const seen = new Set();
      for (const value of [0, 250, 500, 1000]) {
        range.value = value;
        range.dispatchEvent(new Event("input", { bubbles: true }));
        await frames();
        seen.add(range.getAttribute("aria-valuetext"));
      }
      if (!live.textContent) faults.push(`${range.getAttribute("aria-label")} has no sentence`);
      if (seen.size < 2) faults.push(`${range.getAttribute("aria-label")} changes nothing`);
      const play = range.parentElement.querySelector("button");
      range.value = 400;
      play.click();
      await frames();
      play.click();
      if (play.textContent !== "Play") faults.push(`${range.getAttribute("aria-label")} does not stop`);
      faults.push(...blank("after its slider moved"));
    }
  }

  async function zoom(faults) {
    for (const chart of document.querySelectorAll(".chart[tabindex]")) {
      chart.focus();
      for (const name of ["+", "+", "ArrowRight", "ArrowLeft", "-"]) key(chart, name);
      await frames();
      if (!painted(chart)) faults.push(`${name_of(chart)} is blank after a zoom`);
      key(chart, "0");
      await frames();
      const box = chart.getBoundingClientRect();
      const canvas = chart.querySelector("canvas");
      for (let x = 0.1; x < 1; x += 0.2) {
        const at = { clientX: box.left + box.width * x, clientY: box.top + box.height * 0.4, bubbles: true };
        canvas.dispatchEvent(new MouseEvent("mousemove", at));
      }
      chart.blur();
    }
  }

  async function open_all(faults) {
    for (const details of document.querySelectorAll("details")) details.querySelector("summary").click();
    await frames();
    for (const details of document.querySelectorAll("details")) {
      if (!details.hidden && !details.querySelector("table, .quiet")) faults.push(`${details.textContent} has no table`);
    }
    faults.push(...too_wide("with open tables"));
    for (const details of document.querySelectorAll("details")) details.querySelector("summary").click();
  }

  return {
    async desktop() {
      await frames();
      const faults = blank("at first");
      faults.push(...too_wide("at first"));
      await navigate(faults);
      await slide(faults);
      for (const select of document.querySelectorAll("select")) {
        for (const option of select.options) {
          select.value = option.value;
          select.dispatchEvent(new Event("change", { bubbles: true }));
          await frames();
          faults.push(...blank(`with ${option.textContent}`));
        }
      }
      click("scale");
      await frames();
      faults.push(...blank("in the other scale"));
      click("scale-each");
      await frames();
      faults.push(...blank("with a scale for each"));
      click("scale-each");
      click("scale");
      await zoom(faults);
      const was = document.documentElement.dataset.theme;
      click("theme");
      await frames();
      if (document.documentElement.dataset.theme === was) faults.push("the theme does not change");
      faults.push(...blank("in the other theme"));
      click("theme");
      await open_all(faults);
      key(document.body, "?");
      if (!document.getElementById("keys").open) faults.push("the key ? opens nothing");
      key(document.body, "?");
      await frames();
      return JSON.stringify(faults);
    },
    async phone() {
      await frames();
      const faults = [...blank("on a phone"), ...too_wide("on a phone")];
      await open_all(faults);
      return JSON.stringify(faults);
    },
    async print() {
      await frames();
      const faults = blank("in print");
      if (document.documentElement.dataset.theme !== "light") faults.push("the print is dark");
      if (getComputedStyle(document.getElementById("nav")).display !== "none") faults.push("the print has the navigation");
      for (const details of document.querySelectorAll("details:not([open])")) faults.push(`${details.textContent.slice(0, 60)} is closed in print`);
      return JSON.stringify(faults);
    },
    seen() {
      return JSON.stringify({
        panels: [...document.querySelectorAll("section.panel")].map((section) => section.id),
        empty: [...document.querySelectorAll("section.panel")].filter((section) => section.querySelector(".none")).map((section) => section.id),
        charts: holders().length,
        headline: document.querySelector(".headline")?.textContent || "",
        text: document.body.innerText,
      });
    },
  };
})();
