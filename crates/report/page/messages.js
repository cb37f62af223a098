// Panel 8: messages between processes as a space-time diagram.

const MOST_ARROWS = 20000;
const FIRST_ARROWS = 60;

function arrow_series(arrows) {
  return {
    type: "custom",
    clip: true,
    z: 3,
    progressive: 0,
    encode: { x: [1, 3], y: [0, 2] },
    data: arrows.map(([from, to, sent, received], i) => [from, sent, to, received, i]),
    renderItem(params, api) {
      const area = params.coordSys;
      const [x1, y1] = api.coord([api.value(1), api.value(0)]);
      const [x2, y2] = api.coord([api.value(3), api.value(2)]);
      if (Math.max(x1, x2) < area.x || Math.min(x1, x2) > area.x + area.width) return undefined;
      const length = Math.hypot(x2 - x1, y2 - y1);
      if (!(length > 0)) return undefined;
      const [along, across] = [(x2 - x1) / length, (y2 - y1) / length];
      const head = Math.min(6, length / 2);
      const side = head * 0.42;
      const colour = theme.get("text");
      return {
        type: "group",
        children: [
          { type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth: 1, opacity: 0.75 } },
          {
            type: "polygon",
            shape: { points: [[x2, y2], [x2 - along * head - across * side, y2 - across * head + along * side], [x2 - along * head + across * side, y2 - across * head - along * side]] },
            style: { fill: colour },
          },
        ],
      };
    },
  };
}

function messages_panel(report, paints) {
  const section = panel("messages", "Messages", "One line for each process; an arrow is a message from its sending to its arrival, a bar is a wait.");
  const messages = report.messages;
  if (!messages || !(messages.peers || []).length || !((messages.arrows || []).length || (messages.pairs || []).length)) {
    return say_missing(section, report, /\b(messages?|hosts?|clocks?)\b/i, "The processes of the run exchanged no messages that the trace records.");
  }
  const peers = messages.peers.slice(0, 512);
  const named = (peer) => messages.peers[peer] ?? `process ${peer}`;
  const arrows = (messages.arrows || []).filter(([from, to, sent, received]) =>
    from < peers.length && to < peers.length && number(sent, null) !== null && number(received, null) !== null).slice(0, MOST_ARROWS);
  const bars = (messages.bars || []).filter(([peer, , begin, end]) => peer < peers.length && number(begin, null) !== null && number(end, -1) >= begin);
  const shown = number(messages.all) > arrows.length ? ` The first ${count_text(arrows.length)} of ${plural(messages.all, "message")} are shown.` : "";
  section.append(el("p", null, `${messages.clocks || ""}${shown}`));
  if (arrows.length || bars.length) {
    const used = [...new Set(bars.map(([, activity]) => activity))].sort((a, b) => a - b);
    section.append(legend(used.map((i) => [paints[i] || UNKNOWN_PAINT, activity_name(report, i)])));
    const end = number(report.length);
    const part = first_part(arrows, end);
    if (part < 1) section.append(el("p", { class: "hint" }, `At first the chart shows the time of ${FIRST_ARROWS} messages; the key 0 shows the whole run.`));
    const share = clamp(14 / 64, 0.2, 0.5);
    let lanes = [];
    add_chart(section, {
      label: `Space-time diagram of ${plural(peers.length, "process", "processes")} and ${plural(arrows.length, "message")}.`,
      height: clamp(peers.length * 64, 130, 700) + 80,
      zoom: true,
      build: (width) => {
        lanes = by_row(bars.map(([row, activity, begin, until]) => ({ row, activity, begin, end: until, fill: chart_fill(paints[activity]) })), peers.length);
        return {
          grid: { left: label_room(peers, width), right: 14, top: 8, bottom: 66 },
          xAxis: time_axis(end),
          yAxis: lane_axis(peers, width, 64),
          dataZoom: zooms([0], end).map((zoom) => ({ ...zoom, start: 0, end: part * 100 })),
          tooltip: tooltip(({ value }) => arrow_tip(named, arrows[value[4]])),
          series: [
            {
              type: "custom", silent: true, z: 1, encode: { x: 1, y: 0 }, data: peers.map((_, i) => [i, 0]),
              renderItem(params, api) {
                const y = api.coord([0, api.value(0)])[1];
                return { type: "line", shape: { x1: params.coordSys.x, x2: params.coordSys.x + params.coordSys.width, y1: y, y2: y }, style: { stroke: theme.get("quiet"), lineWidth: 1 } };
              },
            },
            lane_series(lanes, share),
            arrow_series(arrows),
          ],
        };
      },
      ready: (chart) => lane_tip(chart, () => lanes, share, (rect) => timeline_tip(report, peers, rect)),
    });
  }
  section.append(el("h3", null, "Pairs"), table_scroll("Pairs", ["from", "to", "messages#", "median time under way#", "greatest#"],
    (messages.pairs || []).map(([from, to, count, median, most]) => [named(from), named(to), count_text(count), seconds_text(median), seconds_text(most)])));
  details_table(section, "Table: messages", ["from", "to", "sent#", "received#", "under way#"], () =>
    arrows.map(([from, to, sent, received]) => [named(from), named(to), seconds_text(sent), seconds_text(received), seconds_text(received - sent)]));
}

// The part of the run in which the first messages arrive, where all at once are too dense to be read.
function first_part(arrows, end) {
  if (arrows.length < 2 * FIRST_ARROWS || !(end > 0)) return 1;
  const arrivals = arrows.map(([, , , received]) => received).sort((a, b) => a - b);
  return clamp((arrivals[FIRST_ARROWS] * 1.05) / end, 0.005, 1);
}

function arrow_tip(named, arrow) {
  if (!arrow) return "";
  const [from, to, sent, received] = arrow;
  return tip_content("message", [["from", short(named(from), 40)], ["to", short(named(to), 40)], ["sent", seconds_text(sent)],
    ["received", seconds_text(received)], ["under way", seconds_text(received - sent)]]);
}
