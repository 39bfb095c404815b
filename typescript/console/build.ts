// Builds the console into build/console/ of the repository: two pages, and assets whose names hold their hash.
import { build, type Metafile } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const PLACE = resolve(HERE, "../../build/console");
/** Built beside its place and then put there at once: a server may be reading the old one. */
const MADE = `${PLACE}.${process.pid}`;
const ASSETS = "/console/assets/";
/** What the first page loads before anything is shown, gzipped. */
export const FIRST_LOAD_MAX = 90 * 1024;

/** Returns the gzipped bytes of the first load; throws where they are too many. */
export async function buildConsole(): Promise<number> {
  mkdirSync(join(MADE, "assets"), { recursive: true });
  const compat = "preact/compat";
  const { metafile } = await build({
    absWorkingDir: HERE,
    entryPoints: { console: "src/main.tsx", pair: "src/pair.ts", style: "src/style.css" },
    outdir: join(MADE, "assets"), entryNames: "[name]-[hash]", chunkNames: "[name]-[hash]", assetNames: "[name]-[hash]",
    bundle: true, splitting: true, format: "esm", target: "es2022", minify: true, metafile: true, legalComments: "none", jsx: "automatic",
    conditions: ["stemmadb-source"], define: { "process.env.NODE_ENV": '"production"' }, logLevel: "warning",
    alias: { "react": compat, "react-dom": compat, "react-dom/client": "preact/compat/client", "react/jsx-runtime": "preact/jsx-runtime", "use-sync-external-store/shim/index.js": "./src/external_store.ts" },
  });
  const icon = readFileSync(join(HERE, "static/icon.svg"));
  const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8).toUpperCase()}.svg`;
  writeFileSync(join(MADE, "assets", iconName), icon);
  const names = new Map(Object.entries(metafile.outputs).filter(([, one]) => one.entryPoint !== undefined).map(([path, one]) => [one.entryPoint!, path]));
  const style = names.get("src/style.css")!;
  for (const [page, script] of [["index.html", "src/main.tsx"], ["pair.html", "src/pair.ts"]] as const) {
    const html = readFileSync(join(HERE, "static", page), "utf8").replaceAll("__STYLE__", url(style)).replaceAll("__SCRIPT__", url(names.get(script)!)).replaceAll("__ICON__", ASSETS + iconName);
    writeFileSync(join(MADE, page), html);
  }
  const files = [...loaded(metafile, names.get("src/main.tsx")!), style];
  const size = files.reduce((sum, file) => sum + zipped(readFileSync(join(HERE, file))), zipped(readFileSync(join(MADE, "index.html"))));
  rmSync(PLACE, { recursive: true, force: true });
  renameSync(MADE, PLACE);
  if (size > FIRST_LOAD_MAX) throw new Error(`The first load of the console has ${size} bytes gzipped, and at most ${FIRST_LOAD_MAX} are allowed`);
  return size;
}

function url(output: string): string {
  return ASSETS + output.split("/").at(-1)!;
}

function zipped(bytes: Buffer): number {
  return gzipSync(bytes, { level: 9 }).length;
}

/** A script and everything that it imports at once. */
function loaded(metafile: Metafile, path: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const one of metafile.outputs[path]!.imports) if (one.kind === "import-statement") loaded(metafile, one.path, seen);
  return seen;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const size = await buildConsole();
  console.log(`console: ${(size / 1024).toFixed(1)} KiB gzipped for the first load, at most ${FIRST_LOAD_MAX / 1024}`);
}
