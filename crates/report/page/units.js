// Numbers with units.

const NONE = "–";

// Three significant digits without a trailing point or an exponent.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(2);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  const text = size >= 10 ? value.toFixed(1) : value.toFixed(2);
  return text.replace(/\.?0+$/, "");
}

function seconds_text(value) {
  if (number(value, null) === null) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 0.9995e-6) return `${digits(value * 1e9)} ns`;
  if (size < 0.9995e-3) return `${digits(value * 1e6)} µs`;
  if (size < 0.9995) return `${digits(value * 1e3)} ms`;
  if (size < 120) return `${digits(value)} s`;
  if (size >= 1e9) return `${digits(value)} s`;
  const sign = value < 0 ? "−" : "";
  const whole = Math.round(size);
  const [hours, minutes, seconds] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return sign + (hours ? `${hours} h ${minutes} min` : `${minutes} min ${seconds} s`);
}

function scaled_text(value, unit) {
  if (number(value, null) === null) return NONE;
  const steps = ["", "k", "M", "G", "T", "P"];
  let step = 0;
  let size = value;
  while (Math.abs(size) >= 999.5 && step < steps.length - 1) {
    size /= 1000;
    step += 1;
  }
  return `${digits(size)} ${steps[step]}${unit}`;
}

const bytes_text = (value) => scaled_text(value, "B");
const rate_text = (value) => scaled_text(value, "B/s");

function percent_text(part) {
  if (number(part, null) === null) return NONE;
  const value = part * 100;
  if (value !== 0 && Math.abs(value) < 0.05) return "<0.1 %";
  return `${Math.abs(value) < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : digits(value)} %`;
}

function count_text(value) {
  if (number(value, null) === null) return NONE;
  return Math.abs(value) >= 1e15 ? value.toExponential(2) : value.toLocaleString("en", { maximumFractionDigits: 2 });
}

function plural(count, one, many = `${one}s`) {
  return `${count_text(count)} ${count === 1 ? one : many}`;
}

function value_text(value, unit) {
  if (unit === "B") return bytes_text(value);
  if (unit === "B/s") return rate_text(value);
  if (unit === "s") return seconds_text(value);
  return unit ? `${count_text(value)} ${unit}` : count_text(value);
}

function date_text(seconds) {
  const date = new Date(number(seconds, NaN) * 1000);
  if (Number.isNaN(date.getTime()) || !seconds) return null;
  return date.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

// One unit for an axis of times up to `end`, so that its labels are short.
function time_unit(end) {
  if (end < 2e-6) return { scale: 1e-9, name: "ns" };
  if (end < 2e-3) return { scale: 1e-6, name: "µs" };
  if (end < 2) return { scale: 1e-3, name: "ms" };
  if (end < 600) return { scale: 1, name: "s" };
  if (end < 36000) return { scale: 60, name: "min" };
  return { scale: 3600, name: "h" };
}

function axis_number(value) {
  if (Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4)) return value.toExponential(1);
  return Number(value.toFixed(4)).toLocaleString("en", { maximumFractionDigits: 4 });
}
