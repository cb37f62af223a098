// Rectangles on horizontal lanes over time. They are drawn into one picture of the size of the
// chart, because a run has hundreds of thousands of them.

// The rectangles by row, in the order of time. `rects` are objects with row, begin, end, fill, and
// optionally `part`: the part of the height, from the bottom, that `front` fills.
function by_row(rects, rows) {
  const lanes = Array.from({ length: rows }, () => []);
  for (const rect of rects) lanes[rect.row]?.push(rect);
  for (const lane of lanes) lane.sort((a, b) => a.begin - b.begin || b.end - a.end);
  return lanes;
}

// The index of the first rectangle of a lane that begins after the time.
function first_after(lane, time) {
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane[middle].begin <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// A fill of the plotting library as one of a canvas.
function canvas_fill(context, fill, known) {
  if (typeof fill === "string") return fill;
  if (!known.has(fill.image)) {
    const pattern = context.createPattern(fill.image, "repeat");
    pattern.setTransform(new DOMMatrix().scale(fill.scaleX, fill.scaleY));
    known.set(fill.image, pattern);
  }
  return known.get(fill.image);
}

// Draws a lane around the height `middle`. Edges are at half points of the screen: among rectangles
// that are thinner, the one that is under way at such a place is drawn, and one that stands alone
// is always drawn.
function draw_lane(context, lane, x, middle, height, width, known) {
  let drawn = -Infinity;
  const box = (left, right, top, size, fill) => {
    context.fillStyle = canvas_fill(context, fill, known);
    context.fillRect(left, top, right - left, size);
  };
  for (const rect of lane) {
    const [from, to] = [x(rect.begin), x(rect.end)];
    if (!(to >= 0 && from <= width)) continue;
    const left = clamp(Math.round(from * 2) / 2, 0, width);
    let right = clamp(Math.round(to * 2) / 2, 0, width);
    if (right === left) {
      if (left - drawn < 1) continue;
      right = left + 0.5;
    }
    drawn = right;
    const top = middle - height / 2;
    box(left, right, top, height, rect.fill);
    if (rect.part === undefined) continue;
    const front = height * clamp(rect.part, 0, 1);
    box(left, right, top + height - front, front, rect.front);
  }
}

function lane_series(lanes, share) {
  return {
    type: "custom",
    clip: true,
    silent: true,
    z: 2,
    data: [[0, 0]],
    renderItem(params, api) {
      const area = params.coordSys;
      const ratio = Math.max(2, devicePixelRatio || 1);
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.round(area.width * ratio));
      canvas.height = Math.max(1, Math.round(area.height * ratio));
      const context = canvas.getContext("2d");
      context.scale(canvas.width / area.width, canvas.height / area.height);
      const [zero, one] = [api.coord([0, 0])[0] - area.x, api.size([1, 0])[0]];
      const height = Math.max(1, api.size([0, 1])[1] * share);
      const known = new Map();
      lanes.forEach((lane, row) => {
        const middle = api.coord([0, row])[1] - area.y;
        if (middle + height < 0 || middle - height > area.height) return;
        draw_lane(context, lane, (time) => zero + time * one, middle, height, area.width, known);
      });
      return { type: "image", style: { image: canvas, x: area.x, y: area.y, width: area.width, height: area.height } };
    },
  };
}

// The note of the rectangle below the pointer. `lanes()` are those of the chart at present.
function lane_tip(chart, lanes, share, content) {
  const zr = chart.getZr();
  const near = (lane, time, reach) => {
    const after = first_after(lane, time + reach);
    for (let i = after - 1; i >= Math.max(0, after - 16); i -= 1) {
      if (lane[i].end + reach >= time) return lane[i];
    }
    return null;
  };
  zr.on("mousemove", (event) => {
    const at = [event.offsetX, event.offsetY];
    if (!chart.containPixel({ gridIndex: 0 }, at)) return tip.hide();
    const [time, row] = chart.convertFromPixel({ gridIndex: 0 }, at);
    const lane = lanes()[row];
    if (!lane) return tip.hide();
    const middle = chart.convertToPixel({ gridIndex: 0 }, [time, row])[1];
    const height = Math.abs(chart.convertToPixel({ gridIndex: 0 }, [time, row + 1])[1] - middle);
    const reach = Math.abs(chart.convertFromPixel({ gridIndex: 0 }, [at[0] + 2, at[1]])[0] - time);
    const rect = Math.abs(at[1] - middle) <= Math.max(4, (height * share) / 2) ? near(lane, time, reach) : null;
    if (rect) tip.show(event.event, content(rect));
    else tip.hide();
  });
  zr.on("globalout", () => tip.hide());
}

// The number of names to skip between two that are shown, where a row has this height.
const skip_names = (row_height) => Math.max(0, Math.ceil(13 / row_height) - 1);

// The axis with the names of lanes, the first on top.
function lane_axis(names, width, row_height, more = {}) {
  const room = label_room(names, width);
  return {
    type: "category",
    inverse: true,
    data: names.map((name) => short(name, 200)),
    axisLine: { show: true, ...axis_line() },
    axisTick: { show: false },
    axisLabel: axis_label({ width: room - 8, overflow: "truncate", interval: skip_names(row_height) }),
    ...more,
  };
}

// The width that the names of lanes take.
function label_room(names, width) {
  const longest = greatest(names.map((name) => Array.from(String(name)).length), 4);
  return Math.round(clamp(longest * 6.3 + 14, 40, width < NARROW ? 84 : 190));
}
