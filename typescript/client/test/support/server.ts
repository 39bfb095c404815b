// A real server of its own for a test: `stemmadb serve` on a free port, with its data in a directory that goes.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const STEMMADB = join(dirname(process.env["STEMMADB_PYTHON"] ?? join(ROOT, ".venv/bin/python")), "stemmadb");

export class Server {
  readonly port: number;
  readonly data: string;
  private readonly more: readonly string[];
  private process: ChildProcess | undefined;

  private constructor(port: number, more: readonly string[]) {
    this.port = port;
    this.more = more;
    this.data = mkdtempSync(join(tmpdir(), "stemmadb-"));
  }

  static async start(...more: string[]): Promise<Server> {
    const server = new Server(await freePort(), more);
    await server.resume();
    return server;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`;
  }

  /** Starts it, again after `stop`, and waits until it answers. */
  async resume(): Promise<void> {
    const options = ["serve", "--port", String(this.port), "--data", this.data, ...this.more];
    // A variable STEMMADB_* is a setting of the server, and it refuses those that it does not know.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_")));
    let said = "";
    this.process = spawn(STEMMADB, options, { stdio: ["ignore", "ignore", "pipe"], env });
    this.process.stderr!.on("data", (data) => (said = (said + String(data)).slice(-2_000)));
    for (let tries = 0; tries < 600 && this.process.exitCode === null; tries += 1) {
      const answer = await fetch(`http://127.0.0.1:${this.port}/healthz`).catch(() => undefined);
      if (answer?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the server did not start within 30 s: ${said}`);
  }

  async stop(): Promise<void> {
    const child = this.process;
    if (child === undefined || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await gone;
    clearTimeout(timer);
  }

  async close(): Promise<void> {
    await this.stop();
    rmSync(this.data, { recursive: true, force: true });
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
