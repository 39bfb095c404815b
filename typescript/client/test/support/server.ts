// A real server of its own for a test: `stemmadb serve` on a free port, with its data in a directory that goes.
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const PYTHON = process.env["STEMMADB_PYTHON"] ?? join(ROOT, ".venv/bin/python");
const STEMMADB = [join(dirname(PYTHON), "stemmadb")];
/** The same server, as it was before there were optional messages: it names none. */
const WITHOUT_FEATURES = [PYTHON, "-c", "from stemmadb.server.service import service; service.FEATURES = (); from stemmadb.client.cli import main; main()"];

export class Server {
  readonly port: number;
  readonly data: string;
  private readonly program: readonly string[];
  private readonly more: readonly string[];
  private process: ChildProcess | undefined;

  private constructor(port: number, program: readonly string[], more: readonly string[]) {
    this.port = port;
    this.program = program;
    this.more = more;
    this.data = mkdtempSync(join(tmpdir(), "stemmadb-"));
  }

  static async start(...more: string[]): Promise<Server> {
    return Server.running(STEMMADB, more);
  }

  static async withoutFeatures(): Promise<Server> {
    return Server.running(WITHOUT_FEATURES, []);
  }

  private static async running(program: readonly string[], more: readonly string[]): Promise<Server> {
    const server = new Server(await freePort(), program, more);
    await server.resume();
    return server;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`;
  }

  /** Starts it, again after `stop`, and waits until it answers. */
  async resume(): Promise<void> {
    const [program, ...first] = this.program;
    const options = [...first, "serve", "--port", String(this.port), "--data", this.data, ...this.more];
    // A variable STEMMADB_* is a setting of the server, and it refuses those that it does not know.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STEMMADB_")));
    let said = "";
    this.process = spawn(program!, options, { stdio: ["ignore", "ignore", "pipe"], env });
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

  /** It does nothing until what this gives is called, as a machine that swaps. */
  freeze(): () => void {
    const child = this.process!;
    child.kill("SIGSTOP");
    return () => void child.kill("SIGCONT");
  }

  /** A copy of its data, while it is stopped; gives how to put that back, as an operator restores a backup. */
  backup(): () => void {
    const copy = `${this.data}-backup`;
    cpSync(this.data, copy, { recursive: true });
    return () => {
      rmSync(this.data, { recursive: true });
      renameSync(copy, this.data);
    };
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
