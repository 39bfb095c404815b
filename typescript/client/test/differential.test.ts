// 10,000 seeded cases that Python makes and decides, answered here: nurseries, transactions, patches.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parse } from "../src/values/json.ts";
import { type Case, checkDraft, checkPatch, Lives } from "./support/cases.ts";
import { rule } from "./support/rules.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PYTHON = process.env["STEMMADB_PYTHON"] ?? `${ROOT}.venv/bin/python`;
const COUNT = Number(process.env["STEMMADB_CASES"] ?? 10_000);
const SEED = process.env["STEMMADB_SEED"] ?? "0";

rule("TS-4", "NURSERY-1", "NURSERY-2", "NURSERY-3", "NURSERY-4", "NURSERY-6", "PATCH-3", "COMMIT-3").test(
  "the TypeScript core decides every seeded case as Python does",
  async () => {
    const child = spawn(PYTHON, ["-m", "scripts.clientkit.cases", String(COUNT), SEED], { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
    const lives = new Lives();
    let seen = 0;
    try {
      for await (const line of createInterface({ input: child.stdout })) {
        const one = parse(line) as unknown as Case;
        if (one.kind === "draft") checkDraft(one);
        else if (one.kind === "patch") checkPatch(one);
        else lives.check(one);
        seen += 1;
      }
    } finally {
      child.kill();
    }
    assert.equal(seen, COUNT);
  },
);
