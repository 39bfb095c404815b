// What contested entities become by the choices of a reader. Pure.
import type { Contested, Json, MergeWrite, Resolution } from "@stemmadb/client";
import { apply } from "../../../client/src/patch/apply.ts";
import { at, tokensOf, withPart } from "../values.ts";

export type Choice = "source" | "target" | "base";

export interface Sides {
  readonly base: Json | undefined;
  readonly source: Json | undefined;
  readonly target: Json | undefined;
}

/** What an entity shall be after the choices: the merged value, with each chosen side at the path of its conflict. */
export function resolved(id: string, sides: Sides, write: MergeWrite | undefined, conflicts: readonly Contested[], choices: ReadonlyMap<string, Choice>): Resolution {
  let value: Json | undefined = sides.target;
  if (write?.kind === "set") value = write.body;
  else if (write?.kind === "delete") value = undefined;
  else if (write?.kind === "patch" && value !== undefined) value = apply(value, write.body as readonly Json[]);
  for (const conflict of conflicts.filter((one) => one.id === id)) {
    const tokens = tokensOf(conflict.path ?? "");
    value = withPart(value, tokens, at(sides[choices.get(keyOf(conflict)) ?? "source"], tokens));
  }
  return value === undefined ? { id } : { id, body: value };
}

export function keyOf(one: Contested): string {
  return `${one.id} ${one.path ?? ""}`;
}
