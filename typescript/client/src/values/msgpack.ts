// The shortest msgpack of a value: what is hashed of an own commit (COMMIT-5, MODEL-4). Nothing is read from msgpack.
import { StemmaError } from "../errors.ts";
import type { Json } from "./json.ts";

export type Packable = Json | Uint8Array | readonly Packable[] | { readonly [key: string]: Packable | undefined };
const DEPTH_MAX = 1_000;
const text = new TextEncoder();

class Writer {
  private bytes = new Uint8Array(256);
  private view = new DataView(this.bytes.buffer);
  private at = 0;

  result(): Uint8Array {
    return this.bytes.slice(0, this.at);
  }

  write(value: Packable | undefined, depth = 0): void {
    switch (typeof value) {
      case "string":
        return this.string(value);
      case "number":
        return Number.isSafeInteger(value) ? this.integer(value) : this.float(value);
      case "bigint":
        return this.big(value);
      case "boolean":
        return this.byte(value ? 0xc3 : 0xc2);
      default:
        return value === null || value === undefined ? this.byte(0xc0) : this.container(value, depth + 1);
    }
  }

  private container(value: Exclude<Packable, string | number | bigint | boolean | null>, depth: number): void {
    if (depth > DEPTH_MAX) throw new StemmaError("invalid_value", { path: "", why: "it is nested too deep" });
    if (value instanceof Uint8Array) {
      this.head(value.length, -1, 0xc4, 0xc5, 0xc6);
      this.raw(value);
    } else if (Array.isArray(value)) {
      this.head(value.length, 0x90, -1, 0xdc, 0xdd);
      for (const item of value as readonly Packable[]) this.write(item, depth);
    } else {
      const fields = value as { readonly [key: string]: Packable | undefined };
      const keys = Object.keys(fields).filter((key) => fields[key] !== undefined);
      this.head(keys.length, 0x80, -1, 0xde, 0xdf);
      for (const key of keys) {
        this.string(key);
        this.write(fields[key], depth);
      }
    }
  }

  private string(value: string): void {
    this.room(value.length * 3 + 5);
    // The head is as short as the text allows, so the text is written behind the longest and moved if need be.
    const { written } = text.encodeInto(value, this.bytes.subarray(this.at + 5));
    const start = this.at + 5;
    if (written < 32) this.byte(0xa0 | written);
    else this.head(written, -1, 0xd9, 0xda, 0xdb);
    this.bytes.copyWithin(this.at, start, start + written);
    this.at += written;
  }

  private integer(value: number): void {
    this.room(9);
    if (value >= 0) {
      if (value < 0x80) this.bytes[this.at++] = value;
      else if (value < 0x100) this.sized(0xcc, value, 1);
      else if (value < 0x10000) this.sized(0xcd, value, 2);
      else if (value < 0x100000000) this.sized(0xce, value, 4);
      else this.big(BigInt(value));
    } else if (value >= -0x20) this.bytes[this.at++] = value & 0xff;
    else if (value >= -0x80) this.sized(0xd0, value & 0xff, 1);
    else if (value >= -0x8000) this.sized(0xd1, value & 0xffff, 2);
    else if (value >= -0x80000000) this.sized(0xd2, value >>> 0, 4);
    else this.big(BigInt(value));
  }

  private big(value: bigint): void {
    if (value >= -0x80000000n && value < 0x100000000n) return this.integer(Number(value));
    this.room(9);
    this.bytes[this.at++] = value < 0n ? 0xd3 : 0xcf;
    this.view.setBigInt64(this.at, value);
    this.at += 8;
  }

  private float(value: number): void {
    this.room(9);
    this.bytes[this.at++] = 0xcb;
    this.view.setFloat64(this.at, value);
    this.at += 8;
  }

  /** The head of a text, of bytes, of an array or of a map; -1 where that form does not exist. */
  private head(size: number, fixed: number, one: number, two: number, four: number): void {
    this.room(5);
    if (fixed >= 0 && size < 16) this.bytes[this.at++] = fixed | size;
    else if (one >= 0 && size < 0x100) this.sized(one, size, 1);
    else if (size < 0x10000) this.sized(two, size, 2);
    else this.sized(four, size, 4);
  }

  private sized(kind: number, value: number, bytes: 1 | 2 | 4): void {
    this.bytes[this.at++] = kind;
    if (bytes === 1) this.view.setUint8(this.at, value);
    else if (bytes === 2) this.view.setUint16(this.at, value);
    else this.view.setUint32(this.at, value);
    this.at += bytes;
  }

  private byte(value: number): void {
    this.room(1);
    this.bytes[this.at++] = value;
  }

  private raw(value: Uint8Array): void {
    this.room(value.length);
    this.bytes.set(value, this.at);
    this.at += value.length;
  }

  private room(more: number): void {
    if (this.at + more <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(this.bytes.length * 2, this.at + more));
    larger.set(this.bytes.subarray(0, this.at));
    this.bytes = larger;
    this.view = new DataView(larger.buffer);
  }
}

export function encode(value: Packable): Uint8Array {
  const writer = new Writer();
  writer.write(value);
  return writer.result();
}

/** The length of the encoding; for a value of ordinary depth. */
export function encodedLength(value: Packable): number {
  return encode(value).length;
}
