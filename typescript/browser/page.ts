// What a test page has: the client under `stemma`, so that a test can drive it from outside.
import * as stemma from "@stemmadb/client";

declare global {
  interface Window {
    stemma: typeof stemma;
    space: stemma.Space;
    watch: stemma.Watch;
    tx: stemma.Transaction;
    opened: Promise<string>;
    isBack: boolean;
  }
}
window.stemma = stemma;
