// Types that come from a schema: checked by `tsc`, which fails where one of these is another type.
import type { FromSchema } from "../src/index.ts";
import type { Json } from "../src/values/json.ts";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Flat<T> = T extends object ? { [K in keyof T]: T[K] } : T;
const holds = <_ extends true>(): void => undefined;

const todo = {
  type: "object",
  properties: {
    title: { type: "string" }, done: { type: "boolean" }, votes: { type: "integer" }, tags: { type: "array", items: { type: "string" } },
    state: { enum: ["open", "closed"] }, kind: { const: "todo" }, by: { type: ["string", "null"] }, more: {},
  },
  required: ["title", "done"],
} as const;
type Todo = FromSchema<typeof todo>;

holds<Same<Flat<Todo>, {
  readonly title: string; readonly done: boolean; readonly votes?: number | bigint; readonly tags?: readonly string[];
  readonly state?: "open" | "closed"; readonly kind?: "todo"; readonly by?: string | null; readonly more?: Json;
}>>();
holds<Same<FromSchema<true>, Json>>();
holds<Same<FromSchema<{ readonly type: "number" }>, number | bigint>>();
holds<Same<FromSchema<{ readonly type: "array" }>, readonly Json[]>>();
holds<Same<Flat<FromSchema<{ readonly properties: { readonly a: { readonly type: "null" } } }>>, { readonly a?: null }>>();

const good: Todo = { title: "a", done: false };
// @ts-expect-error a property that is required
const missing: Todo = { title: "a" };
// @ts-expect-error another type
const wrong: Todo = { title: 1, done: false };
// @ts-expect-error values are shared, and not changed
good.title = "b";
void [missing, wrong];
