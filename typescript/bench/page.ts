// What the benchmark page has.
import { keep, times } from "./measures.ts";

declare global {
  interface Window {
    bench: { keep: typeof keep; times: typeof times };
  }
}
window.bench = { keep, times };
