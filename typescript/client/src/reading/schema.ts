// Types from a schema: `type Todo = FromSchema<typeof todo>` for an `as const` object. Nothing is generated.
import type { Json } from "../values/json.ts";

export type Schema = boolean | { readonly [key: string]: unknown };

/** What a value that matches the schema looks like, as far as its keywords say so. */
export type FromSchema<S> = S extends { readonly const: infer C extends Json }
  ? C
  : S extends { readonly enum: readonly (infer E extends Json)[] }
    ? E
    : S extends { readonly type: infer T }
      ? FromType<T, S>
      : S extends { readonly properties: unknown }
        ? FromObject<S>
        : Json;

type FromType<T, S> = T extends readonly (infer One)[]
  ? FromType<One, S>
  : T extends "string" ? string
  : T extends "integer" ? number | bigint
  : T extends "number" ? number | bigint
  : T extends "boolean" ? boolean
  : T extends "null" ? null
  : T extends "array" ? readonly (S extends { readonly items: infer I } ? FromSchema<I> : Json)[]
  : T extends "object" ? (S extends { readonly properties: unknown } ? FromObject<S> : { readonly [key: string]: Json })
  : Json;

type Required<S> = S extends { readonly required: readonly (infer K)[] } ? K : never;
type FromObject<S> = S extends { readonly properties: infer P }
  ? { readonly [K in keyof P as K extends Required<S> ? K : never]: FromSchema<P[K]> } & {
      readonly [K in keyof P as K extends Required<S> ? never : K]?: FromSchema<P[K]>;
    }
  : never;
