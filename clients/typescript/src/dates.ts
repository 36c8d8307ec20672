// Dates of JavaScript where the messages have google.protobuf.Timestamp: in requests and in answers.

import type { Message } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";

/** The fields of a message, with a `Date` wherever a Timestamp is possible. */
export type WithDates<T> =
  T extends Message<"google.protobuf.Timestamp"> ? T | Date
  : T extends Message | Uint8Array | Date ? T
  : T extends (infer Element)[] ? WithDates<Element>[]
  : T extends object ? { [Key in keyof T]: WithDates<T[Key]> }
  : T;

/** The same fields with Timestamps; what is no plain object or list stays as it is. */
export function withTimestamps<T>(fields: WithDates<T>): T {
  return converted(fields) as T;
}

function converted(value: unknown): unknown {
  if (value instanceof Date) return timestampFromDate(value);
  if (Array.isArray(value)) return value.map(converted);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array || "$typeName" in value) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, converted(each)]));
}

/** The fields of a message, with a `Date` in place of each Timestamp. */
export type Dated<T> =
  T extends Message<"google.protobuf.Timestamp"> ? Date
  : T extends Uint8Array ? T
  : T extends (infer Element)[] ? Dated<Element>[]
  : T extends object ? { [Key in keyof T]: Dated<T[Key]> }
  : T;

/** A copy of a message that has a `Date` in place of each Timestamp. */
export function withDates<T>(message: T): Dated<T> {
  return dated(message) as Dated<T>;
}

function dated(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dated);
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  if ("$typeName" in value && value.$typeName === "google.protobuf.Timestamp") {
    return timestampDate(value as Timestamp);
  }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, dated(each)]));
}
