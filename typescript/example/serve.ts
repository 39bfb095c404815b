// Serves the todo list on http://127.0.0.1:3000: `node --conditions=stemmadb-source example/serve.ts` in typescript/.
// Start the server with `stemmadb serve --origins http://127.0.0.1:3000`.
import { build } from "esbuild";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

export async function script(): Promise<string> {
  const entry = fileURLToPath(new URL("app.tsx", import.meta.url));
  const made = await build({ entryPoints: [entry], bundle: true, write: false, format: "esm", jsx: "automatic", conditions: ["stemmadb-source"], minify: true });
  return made.outputFiles[0]!.text;
}

export const PAGE = '<!doctype html><meta charset="utf-8"><title>Todos</title><div id="app">Loading</div><script type="module" src="/app.js"></script>';

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const app = await script();
  createServer((request, response) => {
    const isScript = request.url === "/app.js";
    response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? app : PAGE);
  }).listen(3000, "127.0.0.1", () => console.log("http://127.0.0.1:3000"));
}
