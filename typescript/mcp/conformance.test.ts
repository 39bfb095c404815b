// The conformance suite of MCP against `stemmadb memory serve --mcp`.
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const STEMMADB = join(dirname(process.env["STEMMADB_PYTHON"] ?? join(ROOT, ".venv/bin/python")), "stemmadb");
const SUITE = join(ROOT, "typescript/node_modules/@modelcontextprotocol/conformance/dist/index.js");
const EXPECTED = fileURLToPath(new URL("expected-failures.yml", import.meta.url));
const MUST_PASS = [
  "server-initialize",
  "ping",
  "tools-list",
  "resources-list",
  "prompts-list",
  "server-sse-multiple-streams",
  "dns-rebinding-protection",
];

let home: string;
let server: ChildProcess;
let url: string;

before(async () => {
  home = mkdtempSync(join(tmpdir(), "stemmadb-mcp-"));
  const given = Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_"));
  const env = { ...Object.fromEntries(given), HOME: home, STEMMADB_MEMORY: join(home, "data") };
  const options = ["memory", "serve", "--mcp", "127.0.0.1:0", "--ns", "custom:conformance"];
  server = spawn(STEMMADB, options, { stdio: ["ignore", "ignore", "pipe"], env });
  url = await new Promise((resolve, reject) => {
    let said = "";
    server.stderr!.on("data", (data) => {
      said += String(data);
      const found = /MCP is served on (\S+)/.exec(said);
      if (found) resolve(found[1]!);
    });
    server.once("exit", () => reject(new Error(said)));
  });
});

after(async () => {
  const gone = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  await gone;
  rmSync(home, { recursive: true, force: true });
});

test("the conformance suite of MCP", () => {
  const asked = [SUITE, "server", "--url", url, "--expected-failures", EXPECTED];
  const done = spawnSync(process.execPath, asked, { encoding: "utf8", cwd: home, timeout: 120_000 });
  assert.equal(done.status, 0, done.stdout + done.stderr);
  for (const name of MUST_PASS) assert.match(done.stdout, new RegExp(`✓ ${name}: [1-9]\\d* passed, 0 failed`));
});
