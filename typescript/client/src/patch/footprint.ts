// The paths that a patch writes and reads, known without the value it will be applied to (PATCH-4).
import type { Json } from "../values/json.ts";
import * as pointer from "../values/pointer.ts";
import { cut, ends, type Handlers, path, run, step, value } from "./operation.ts";

/** Pointer texts, each once, in the order of first use. `increments`: writes that nothing but `increment` makes. */
export interface Footprint {
  readonly writes: readonly string[];
  readonly reads: readonly string[];
  readonly increments: readonly string[];
}

class Trace {
  readonly writes = new Map<string, boolean>();
  readonly reads = new Set<string>();

  /** Something may come or go here; in an array that moves all that is behind it. */
  writeOrShift(text: string): void {
    const last = pointer.last(text);
    this.writes.set(last === "-" || /^[0-9]+$/.test(last) ? pointer.parent(text) : text, false);
  }
}

const HANDLERS: Handlers<Trace> = {
  add(trace, operation) {
    value(operation);
    trace.writeOrShift(path(operation));
  },
  replace(trace, operation) {
    value(operation);
    trace.writes.set(path(operation), false);
  },
  remove: (trace, operation) => trace.writeOrShift(path(operation)),
  move(trace, operation) {
    ends(operation);
    trace.reads.add(path(operation, "from"));
    trace.writeOrShift(path(operation, "from"));
    trace.writeOrShift(path(operation));
  },
  copy(trace, operation) {
    trace.reads.add(path(operation, "from"));
    trace.writeOrShift(path(operation));
  },
  test(trace, operation) {
    value(operation);
    trace.reads.add(path(operation));
  },
  splice(trace, operation) {
    cut(operation);
    trace.writeOrShift(path(operation));
  },
  increment(trace, operation) {
    step(operation);
    const place = path(operation);
    if (!trace.writes.has(place)) trace.writes.set(place, true);
  },
};

/** What the patch touches, never less; `patch_failed` for an operation that no value could make valid. */
export function footprint(operations: readonly Json[]): Footprint {
  const trace = new Trace();
  run(HANDLERS, trace, operations);
  const increments = [...trace.writes].filter(([, only]) => only).map(([text]) => text);
  return { writes: [...trace.writes.keys()], reads: [...trace.reads], increments };
}
