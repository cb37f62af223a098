// Panel 7: the rate of the disk.

// Bins as points of a step line.
function bin_points(values, bin) {
  const points = (values || []).map((value, i) => [i * bin, number(value)]);
  if (points.length) points.push([points.length * bin, points[points.length - 1][1]]);
  return points;
}

function disk_panel(report) {
  const section = panel("disk", "Disk", "How fast the disk read and wrote, against the rates that were measured before the run.");
  const disk = report.disk;
  const has_rates = disk && number(disk.bin) > 0 && ((disk.read || []).length || (disk.written || []).length);
  if (!disk || (!has_rates && !(disk.files || []).length)) {
    return say_missing(section, report, /\b(disk|files?)\b/i, "The run made no requests to a disk that the trace records.");
  }
  if (has_rates) {
    const peak = disk.peak || [];
    const lines = [
      { name: "read", points: bin_points(disk.read, disk.bin) },
      { name: "written", points: bin_points(disk.written, disk.bin) },
    ];
    const marks = [
      { name: `measured: read ${rate_text(peak[0])}`, value: number(peak[0]), line: 0 },
      { name: `measured: write ${rate_text(peak[1])}`, value: number(peak[1]), line: 1 },
    ].filter(({ value }) => value > 0);
    const mean = (list) => (list || []).reduce((sum, value) => sum + number(value), 0) / Math.max(1, (list || []).length);
    const against = (rate, best) => (number(best) > 0 ? ` (${percent_text(rate / best)} of the measured rate)` : "");
    section.append(el("p", null, `Mean rates: read ${rate_text(mean(disk.read))}${against(mean(disk.read), peak[0])}, written ${rate_text(mean(disk.written))}${against(mean(disk.written), peak[1])}.`
      + (marks.length ? "" : " The run did not measure the disk.")));
    line_chart(section, {
      label: "Rates of reading and writing over time.", lines, unit: "", format: rate_text,
      end: Math.max(number(report.length), (Math.max(lines[0].points.length, lines[1].points.length) - 1) * disk.bin), area: true, marks,
    });
    details_table(section, "Table: rates", ["begin#", "read#", "written#"], () =>
      Array.from({ length: Math.max((disk.read || []).length, (disk.written || []).length) }, (_, i) =>
        [seconds_text(i * disk.bin), rate_text(disk.read?.[i]), rate_text(disk.written?.[i])]));
  }
  if ((disk.files || []).length) {
    section.append(el("h3", null, "Files"), table_scroll("Files",
      ["file", "requests#", "bytes#", "median latency#", "greatest latency#"],
      disk.files.map(([name, requests, bytes, median, most]) =>
        [name, count_text(requests), bytes_text(bytes), seconds_text(median), seconds_text(most)])));
  }
}
