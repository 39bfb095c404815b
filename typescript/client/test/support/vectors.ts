// Golden data of tests/vectors, read as the client reads what a server sends.
import { readFileSync } from "node:fs";
import { parse } from "../../src/values/json.ts";

export function vectors<T>(name: string): T {
  return parse(readFileSync(new URL(`../../../../tests/vectors/${name}.json`, import.meta.url), "utf8")) as T;
}

export function hex(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, "hex"));
}

export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
