// Entities of an answer in the shape "whole": each brings its value.

import { StemmaError } from "../errors.ts";
import type { Json } from "../values/json.ts";
import type { QueriedEntity } from "./messages.ts";

/** The value of an entity of which all was asked for. */
export function wholeBody(one: QueriedEntity): Json {
  if (one.body === undefined || one.truncated === true) {
    throw new StemmaError("malformed", { path: "/entities", why: `the value of ${one.id} is not whole` });
  }
  return one.body;
}
