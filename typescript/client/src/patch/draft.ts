// A value under change: copy-on-write along the path, each container copied at most once (PATCH-2).
import { isObject, type Json, type JsonObject, own, put } from "../values/json.ts";
import * as pointer from "../values/pointer.ts";
import { Fault } from "./operation.ts";

type Tokens = readonly string[];
type Container = Json[] | JsonObject;

/** Starts as the value given; `root` is the value so far. A draft that threw is to be dropped. */
export class PatchDraft {
  root: Json;
  /** Containers that this draft has made: only these are changed in place. */
  private readonly owned = new Set<object>();

  constructor(root: Json) {
    this.root = root;
  }

  find(tokens: Tokens): Json {
    let node = this.root;
    for (const token of tokens) {
      const child = Array.isArray(node) ? node[position(node, token)] : isObject(node) ? own(node, token) : plain(token);
      if (child === undefined) throw nothingAt(tokens);
      node = child;
    }
    return node;
  }

  /** `add`: into an object under the key, into an array before the index, or in the place of the whole. */
  put(tokens: Tokens, value: Json): void {
    if (!tokens.length) return void (this.root = value);
    const holder = this.own(tokens.slice(0, -1));
    const last = tokens.at(-1)!;
    if (Array.isArray(holder)) holder.splice(insertion(holder, last), 0, value);
    else put(holder, last, value);
  }

  replace(tokens: Tokens, value: Json): void {
    if (!tokens.length) return void (this.root = value);
    const holder = this.own(tokens.slice(0, -1));
    const last = tokens.at(-1)!;
    if (Array.isArray(holder)) holder[position(holder, last)] = value;
    else if (!Object.hasOwn(holder, last)) throw nothingAt(tokens);
    else put(holder, last, value);
  }

  remove(tokens: Tokens): void {
    if (!tokens.length) throw new Fault("the whole value cannot be removed; delete the entity instead");
    const holder = this.own(tokens.slice(0, -1));
    const last = tokens.at(-1)!;
    if (Array.isArray(holder)) holder.splice(position(holder, last), 1);
    else if (!Object.hasOwn(holder, last)) throw nothingAt(tokens);
    else delete (holder as { [key: string]: Json })[last];
  }

  splice(tokens: Tokens, index: number, remove: number, added: readonly Json[]): void {
    const array = this.own(tokens);
    if (!Array.isArray(array)) throw new Fault(`'${pointer.write(tokens)}' is not an array`);
    if (index + remove > array.length) {
      throw new Fault(`the array at '${pointer.write(tokens)}' has only ${array.length} elements`);
    }
    const behind = array.splice(index).slice(remove);
    for (const items of [added, behind]) for (const item of items) array.push(item);
  }

  /** The same value, safe to be held in a second place: the draft will copy it before it changes it. */
  share(value: Json): Json {
    const todo: Json[] = [value];
    while (todo.length) {
      const item = todo.pop()!;
      if (typeof item !== "object" || item === null || !this.owned.delete(item)) continue;
      for (const child of Object.values(item as JsonObject)) todo.push(child);
    }
    return value;
  }

  /** The container at a place, owned with all above it. */
  private own(tokens: Tokens): Container {
    let node = this.copy(this.root, tokens);
    this.root = node;
    for (const token of tokens) {
      const key = Array.isArray(node) ? position(node, token) : token;
      const child = Array.isArray(node) ? node[key as number] : own(node, token);
      if (child === undefined) throw nothingAt(tokens);
      const mine = this.copy(child, tokens);
      if (mine !== child) {
        if (Array.isArray(node)) node[key as number] = mine;
        else put(node, token, mine);
      }
      node = mine;
    }
    return node;
  }

  private copy(node: Json, tokens: Tokens): Container {
    if (typeof node !== "object" || node === null) {
      throw new Fault(`'${pointer.write(tokens)}' is not an object or an array, or lies inside a plain value`);
    }
    if (this.owned.has(node)) return node as Container;
    const mine = Array.isArray(node) ? [...(node as readonly Json[])] : { ...(node as JsonObject) };
    this.owned.add(mine);
    return mine;
  }
}

/** The index of an element that is there. */
function position(array: readonly Json[], token: string): number {
  const at = insertion(array, token);
  if (at === array.length) throw new Fault(`the array has no element '${token}'`);
  return at;
}

/** The index before which `add` puts an element; `-` is behind the last. */
function insertion(array: readonly Json[], token: string): number {
  const at = token === "-" ? array.length : pointer.index(token, array.length);
  if (at === undefined) throw new Fault(`'${token}' is not an index of the array, which has ${array.length} elements`);
  return at;
}

function plain(token: string): never {
  throw new Fault(`there is nothing at '${token}' inside a plain value`);
}

function nothingAt(tokens: Tokens): Fault {
  return new Fault(`there is nothing at '${pointer.write(tokens)}'`);
}
