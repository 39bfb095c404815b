// Builds the packages into */dist and fails where a bundle is larger than its bound (gzipped bytes).
import { build, type BuildOptions } from "esbuild";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const PACKAGES = [
  { name: "client", bound: 40 * 1024, external: [] },
  { name: "react", bound: 2 * 1024, external: ["react", "@stemmadb/client"] },
];

for (const { name, bound, external } of PACKAGES) {
  const entry = `${name}/src/index.ts`;
  if (!existsSync(entry)) continue;
  const made: BuildOptions = { entryPoints: [entry], bundle: true, format: "esm", target: "es2022", external };
  await build({ ...made, outfile: `${name}/dist/index.js`, legalComments: "none" });
  await build({ ...made, outfile: `build/${name}.min.js`, minify: true, legalComments: "none" });
  const size = gzipSync(await readFile(`build/${name}.min.js`), { level: 9 }).length;
  console.log(`@stemmadb/${name}: ${(size / 1024).toFixed(1)} KiB gzipped, at most ${bound / 1024}`);
  if (size > bound) throw new Error(`@stemmadb/${name} has ${size} bytes gzipped, and at most ${bound} are allowed`);
}
