// WebKitGTK through WebKitWebDriver, with as much of WebDriver as a smoke test needs: scripts, addresses, an end.
import { type ChildProcess, spawn } from "node:child_process";
import { globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../client/test/support/server.ts";

const BROWSERS = "/usr/lib/*/webkit2gtk-4.*/MiniBrowser";
const STARTS_MS = 60_000;

export class WebKit {
  private readonly home = mkdtempSync(join(tmpdir(), "stemmadb-webkit-"));
  private readonly children: ChildProcess[] = [];
  private address = "";

  /** Without a display, GTK's own server of displays, which needs none, stands for it. */
  static async open(): Promise<WebKit> {
    const webkit = new WebKit();
    try {
      await webkit.start();
      return webkit;
    } catch (error) {
      await webkit.close();
      throw error;
    }
  }

  private async start(): Promise<void> {
    const env: NodeJS.ProcessEnv = { ...process.env, HOME: this.home, XDG_RUNTIME_DIR: this.home };
    if (!env["DISPLAY"] && !env["WAYLAND_DISPLAY"]) {
      const display = await freePort();
      this.spawn("broadwayd", ["--port", String(display), "--address", "127.0.0.1", ":77"], env);
      Object.assign(env, { GDK_BACKEND: "broadway", BROADWAY_DISPLAY: ":77" });
    }
    const port = await freePort();
    this.spawn(process.env["STEMMADB_WEBKIT"] ?? "WebKitWebDriver", [`--port=${port}`], env);
    this.address = `http://127.0.0.1:${port}/session`;
    const [binary] = globSync(BROWSERS);
    const options = { "webkitgtk:browserOptions": { binary, args: ["--automation"] }, timeouts: { script: STARTS_MS } };
    const until = Date.now() + STARTS_MS;
    for (;;) {
      try {
        const { sessionId } = (await this.ask("", { capabilities: { alwaysMatch: options } })) as { sessionId: string };
        this.address += `/${sessionId}`;
        return;
      } catch (error) {
        if (Date.now() > until) throw error;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    }
  }

  private spawn(program: string, options: readonly string[], env: NodeJS.ProcessEnv): void {
    const child = spawn(program, options, { env, stdio: "ignore" });
    child.on("error", (error) => console.error(String(error)));
    this.children.push(child);
  }

  private async ask(path: string, body?: object): Promise<unknown> {
    const answer = await fetch(this.address + path, body === undefined ? { method: "DELETE" } : { method: "POST", body: JSON.stringify(body) });
    const { value } = (await answer.json()) as { value: unknown };
    if (!answer.ok) throw new Error(`WebKitWebDriver: ${JSON.stringify(value)}`);
    return value;
  }

  async goto(url: string): Promise<void> {
    await this.ask("/url", { url });
  }

  /** What the function gives in the page; it sees only its arguments. */
  async evaluate<A extends readonly unknown[], T>(act: (...given: A) => T | Promise<T>, ...given: A): Promise<T> {
    const script = `const done = arguments[arguments.length - 1];
      Promise.resolve((${act.toString()})(...[...arguments].slice(0, -1))).then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const { value, error } = (await this.ask("/execute/async", { script, args: given })) as { value: T; error?: string };
    if (error !== undefined) throw new Error(error);
    return value;
  }

  async close(): Promise<void> {
    if (this.address.includes("/session/")) await this.ask("").catch(() => undefined);
    for (const child of this.children.toReversed()) {
      if (child.exitCode !== null || child.pid === undefined) continue;
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    }
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}
