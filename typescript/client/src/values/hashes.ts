// What is hashed (04-protocol, "What is hashed and signed"): BLAKE3 over the shortest msgpack.
import { blake3 } from "@noble/hashes/blake3.js";
import { fromReference, toReference } from "./bytes.ts";
import { encode, type Packable } from "./msgpack.ts";

export const NO_BODY = blake3(new Uint8Array());

export function hash(value: Packable): Uint8Array {
  return blake3(encode(value));
}

/** The digest by which a verdict says which content was accepted (COMMIT-5). */
export function requestDigest(nonce: Uint8Array, content: Uint8Array): string {
  return toReference(hash(["stemma.v1 request", nonce, content]));
}

/** The parent of an entity's first fact. */
export function emptyReference(id: string): string {
  return toReference(hash(["stemma.v1 empty", id]));
}

/** The hash of a fact on its parent; without a salt it has no body (FACT-2). */
export function factHash(kind: string, id: string, parent: string, salt: Uint8Array | null, body: Uint8Array): string {
  const digest = salt === null ? NO_BODY : blake3(joined(salt, body));
  return toReference(hash(["stemma.v1 fact", kind, id, fromReference(parent), digest]));
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
