// Texts of values, and values of texts.

/** A time of ProtoJSON, to the minute, in UTC. */
export function minute(time) {
  return time ? time.slice(0, 16).replace("T", " ") : "";
}

export function day(time) {
  return time ? time.slice(0, 10) : "";
}

/** Text of a name in the protos, such as "timed out" of LEG_STATE_TIMED_OUT. */
export function words(name = "", prefix = "") {
  return name.replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

export function count(number, one, many = `${one}s`) {
  return `${Number(number).toLocaleString("en")} ${Number(number) === 1 ? one : many}`;
}

export function idOf(item = {}) {
  return item.segmentId ?? item.factId ?? "";
}

/** A number of bytes, such as "1.4 MB". */
export function bytes(number = 0) {
  const units = ["B", "kB", "MB", "GB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, number)) / 3));
  return `${(number / 1000 ** power).toLocaleString("en", { maximumFractionDigits: power ? 1 : 0 })} ${units[power]}`;
}

/** The values of a list that is typed with commas. */
export function listOf(text) {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}

/** The labels of a text such as "place=Goa, year=2026"; the first = ends the key. */
export function labelsOf(text) {
  return listOf(text).map((label) => {
    const [key, ...rest] = label.split("=");
    if (!key.trim() || rest.length === 0) throw new Error(`“${label}” is no label, such as place=Goa.`);
    return [key.trim(), rest.join("=").trim()];
  });
}
