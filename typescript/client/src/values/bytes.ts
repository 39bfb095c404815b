// Bytes as text: base64 for salts and sessions, `b3:` and base32 for hashes (FACT-4).
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index += 1) bytes[index] = letters.charCodeAt(index);
  return bytes;
}

/** The text form of a hash. */
export function toReference(hash: Uint8Array): string {
  let text = "b3:";
  let bits = 0;
  let rest = 0;
  for (const byte of hash) {
    rest = (rest << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += BASE32[(rest >> (bits - 5)) & 31];
    rest &= (1 << bits) - 1;
  }
  return bits ? text + BASE32[(rest << (5 - bits)) & 31] : text;
}

export function fromReference(text: string): Uint8Array {
  const bytes = new Uint8Array(32);
  let bits = 0;
  let rest = 0;
  let at = 0;
  for (const letter of text.slice(3)) {
    rest = (rest << 5) | BASE32.indexOf(letter);
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes[at] = (rest >> bits) & 255;
      at += 1;
      rest &= (1 << bits) - 1;
    }
  }
  return bytes;
}
