// Who signs: an Ed25519 key and its did:key (TS-6). The key may be anything that signs, such as a CryptoKey.
import { StemmaError } from "../errors.ts";

export interface Identity {
  readonly did: string;
  sign(payload: Uint8Array): Promise<Uint8Array>;
}

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** `did:key:z` and the base58 of the bytes ed 01 and the public key. */
export function didOf(publicKey: Uint8Array): string {
  let number = 0n;
  for (const byte of [0xed, 0x01, ...publicKey]) number = number * 256n + BigInt(byte);
  let text = "";
  for (; number > 0n; number /= 58n) text = BASE58[Number(number % 58n)] + text;
  return `did:key:z${text}`;
}

/** An identity of a WebCrypto key pair. */
export async function identityOf(keys: CryptoKeyPair): Promise<Identity> {
  const publicKey = new Uint8Array(await subtle().exportKey("raw", keys.publicKey));
  return {
    did: didOf(publicKey),
    sign: async (payload) => new Uint8Array(await subtle().sign("Ed25519", keys.privateKey, new Uint8Array(payload))),
  };
}

/** A new key pair that never leaves WebCrypto. */
export async function newKeys(): Promise<CryptoKeyPair> {
  return (await subtle().generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
}

/** The identity of a 32-byte seed, for tests and scripts: a page keeps a key that cannot be read. */
export async function identityFromSeed(seed: Uint8Array): Promise<Identity> {
  const head = Uint8Array.from([0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20]);
  const pkcs8 = Uint8Array.from([...head, ...seed]);
  const readable = await subtle().importKey("pkcs8", pkcs8, "Ed25519", true, ["sign"]);
  const { x } = await subtle().exportKey("jwk", readable);
  const publicKey = await subtle().importKey("jwk", { kty: "OKP", crv: "Ed25519", x: x! }, "Ed25519", true, ["verify"]);
  return identityOf({ privateKey: readable, publicKey });
}

function subtle(): SubtleCrypto {
  if (globalThis.crypto?.subtle === undefined) {
    const message = "This page has no WebCrypto, which browsers offer only on https and on localhost. Serve it with TLS.";
    throw new StemmaError("unauthenticated", { why: "no WebCrypto" }, message);
  }
  return crypto.subtle;
}
